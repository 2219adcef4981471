"""What a call would launch, and what that compiles to, for a GPU that is not there.

It is the target's own call, run on tensors without values: each launch is compiled, by the JIT's own specialization,
and none is run. Owns what differs from a GPU that is there: limits that nobody enforces, configurations that nobody
can time.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any
from unittest import mock

import torch
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITFunction

from warpsmith.contracts.base import Settings
from warpsmith.contracts.device import TargetGpu
from warpsmith.contracts.errors import Unavailable
from warpsmith.contracts.launch import CompiledFacts, CompiledSettings
from warpsmith.contracts.measurement import Contender
from warpsmith.device.architecture import THREADS_PER_WARP, limits_of
from warpsmith.measure.compiled.absent_gpu import standing_in_for
from warpsmith.measure.compiled.launches import compile_settings
from warpsmith.measure.compiled.recording import Facts, read_facts
from warpsmith.measure.compiled.without_values import tensors_without_values
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.loading import load_implementation, load_target, loaded_apart
from warpsmith.measure.worker.protocol import CompileOffline, WorkerError, WorkerFailure

#: Of every compute capability: CUDA Programming Guide, "Compute Capabilities".
_MAX_THREADS_PER_BLOCK = 1024
#: Columns of tensor memory on Blackwell's data-centre GPUs: PTX ISA, "Tensor Memory".
_TENSOR_MEMORY_COLUMNS = 512
#: How ptxas refuses an architecture that it does not know.
_UNKNOWN_ARCHITECTURE = "is not defined for option 'gpu-name'"


def compile_offline(question: CompileOffline, chosen: Settings | None = None) -> CompiledSettings:
    """The launches of one call at the case with these settings, or why there are none to tell.

    Raises WorkerError where the source cannot be loaded, and (compile_failed) where this triton does not compile for
    the GPU at all.
    """
    gpu = question.gpu
    try:
        limits_of(gpu.capability)
    except Unavailable as error:
        raise _not_for(gpu, error.message) from error
    untimed: dict[str, int] = {}
    with standing_in_for(gpu), loaded_apart(gpu.model_dump_json()), _compiled_apart(), _first_configurations(untimed):
        target = load_target(question.target.path)

        def implementation(settings: Settings) -> Implementation:
            return load_implementation(
                target, Contender(name="candidate", source=question.source, settings=settings), question.target.root
            )

        with tensors_without_values():
            (compiled,) = compile_settings(
                implementation,
                target,
                question.case,
                question.mode,
                [chosen or {}],
                device=torch.device("cuda", 0),
                seed=question.seed,
                launch=False,
                facts=_facts_for(gpu),
            )
    if compiled.failure is not None and _UNKNOWN_ARCHITECTURE in compiled.failure:
        raise _not_for(gpu, "its ptxas does not know that architecture")
    return compiled.model_copy(update={"notes": tuple(map(_told, untimed.items()))})


def _facts_for(gpu: TargetGpu) -> Facts:
    """Facts of a kernel; raises OutOfResources where the GPU could not run it, as loading it there would."""

    def facts(kernel: Any) -> CompiledFacts:
        found, metadata = read_facts(kernel), kernel.metadata
        for name, required, limit in (
            ("shared memory", found.shared_bytes, limits_of(gpu.capability).shared_memory_per_block_bytes),
            ("threads", found.num_warps * THREADS_PER_WARP, _MAX_THREADS_PER_BLOCK),
            ("tensor memory", getattr(metadata, "tmem_size", None) or 0, _TENSOR_MEMORY_COLUMNS),
        ):
            if required > limit:
                raise OutOfResources(required, limit, name)
        return found

    return facts


@contextmanager
def _compiled_apart() -> Iterator[None]:
    """Compiled kernels are kept by device number; inside, apart from those of the GPU that has the number here."""
    kept: dict[int, tuple[JITFunction[Any], Any]] = {}
    original = JITFunction.run

    def run(self: JITFunction[Any], *args: Any, **kwargs: Any) -> Any:
        _, caches = kept.setdefault(id(self), (self, defaultdict(self.create_binder)))
        with mock.patch.object(self, "device_caches", caches):
            return original(self, *args, **kwargs)

    with mock.patch.object(JITFunction, "run", run):
        yield


@contextmanager
def _first_configurations(untimed: dict[str, int]) -> Iterator[None]:
    """An autotuned kernel runs the first configuration that its pruning leaves: none can be timed.

    Fills `untimed`: kernel -> how many there were to choose from.
    """
    original = Autotuner.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if len(self.configs) < 2:
            return original(self, *args, **kwargs)
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        left = list(self.prune_configs(kwargs))
        untimed[self.base_fn.__name__] = len(left)
        with mock.patch.object(self, "configs", left[:1]):
            return original(self, *args, **kwargs)

    with mock.patch.object(Autotuner, "run", run):
        yield


def _told(untimed: tuple[str, int]) -> str:
    kernel, count = untimed
    return f"{kernel}: the first of {count} configurations stands in; which one is fastest is timed on a GPU"


def _not_for(gpu: TargetGpu, why: str) -> WorkerError:
    capability = ".".join(map(str, gpu.capability))
    message = f"triton {version('triton')} cannot compile for {gpu.name}, compute capability {capability}: {why}"
    return WorkerError(WorkerFailure(status="compile_failed", message=message))
