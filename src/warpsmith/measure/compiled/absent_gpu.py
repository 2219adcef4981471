"""Answers for a GPU that is not there: what Triton's driver and torch.cuda are asked before a launch, by name.

Owns the answers and that they are taken back. Must not know targets, or what is compiled.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from warpsmith.contracts.device import TargetGpu
from warpsmith.device.architecture import THREADS_PER_WARP, limits_of

#: What a block may use without opting in: CUDA Programming Guide, "Compute Capabilities".
_SHARED_MEMORY_PER_BLOCK_BYTES = 48 * 1024
#: What a CUDA build of torch answers; code that asks whether there is CUDA asks this.
_CUDA_VERSION = "12.8"


class Driver:
    """The part of a Triton driver that compiling and host code ask. It has no launcher: nothing can run."""

    def __init__(self, gpu: TargetGpu) -> None:
        self._gpu = gpu
        self.utils = SimpleNamespace(get_device_properties=lambda index: _as_triton_tells(gpu))

    def get_current_target(self) -> Any:
        major, minor = self._gpu.capability
        return GPUTarget("cuda", major * 10 + minor, THREADS_PER_WARP)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        """There is one."""

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return self._gpu.capability

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        return torch.cuda


class Idle:
    """A stream, an event or a guard of the absent GPU: nothing is ever queued."""

    cuda_stream = 0
    device = torch.device("cuda", 0)

    def __init__(self, *_: Any, **__: Any) -> None:
        """Whatever it was to be made of."""

    def __enter__(self) -> Idle:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was entered."""

    def query(self) -> bool:
        return True

    def record(self, *_: Any) -> None:
        """Nothing is queued."""

    wait = synchronize = wait_stream = wait_event = record_event = record


def properties_of(gpu: TargetGpu) -> SimpleNamespace:
    """The answer of torch.cuda.get_device_properties: the names that follow from a data sheet, and no clock."""
    limits = limits_of(gpu.capability)
    return SimpleNamespace(
        name=gpu.name,
        major=gpu.capability[0],
        minor=gpu.capability[1],
        total_memory=gpu.memory_bytes,
        multi_processor_count=gpu.sm_count,
        L2_cache_size=gpu.l2_bytes,
        warp_size=THREADS_PER_WARP,
        max_threads_per_multi_processor=limits.max_threads_per_sm,
        regs_per_multiprocessor=limits.registers_per_sm,
        shared_memory_per_block=_SHARED_MEMORY_PER_BLOCK_BYTES,
        shared_memory_per_block_optin=limits.shared_memory_per_block_bytes,
        shared_memory_per_multiprocessor=limits.shared_memory_per_sm_bytes,
        is_integrated=0,
        is_multi_gpu_board=0,
    )


@contextmanager
def facts_of(gpu: TargetGpu) -> Iterator[None]:
    """Inside, torch.cuda tells host code of that GPU what it asks before a launch, and still that there is none."""
    answers = _torch_cuda_answers(gpu)
    names = ("get_device_properties", "get_device_capability", "get_device_name", "current_device")
    with mock.patch.multiple(torch.cuda, **{name: answers[name] for name in names}):
        yield


@contextmanager
def standing_in_for(gpu: TargetGpu) -> Iterator[None]:
    """Inside, Triton compiles for that GPU and torch.cuda tells of it. Afterwards everything is as it was.

    A GPU that is here is neither asked nor used. Raises Unavailable for an unknown compute capability.
    """
    import torch._dynamo  # a second, and it looks all functions of torch up: later, it would find the answers below

    answers = _torch_cuda_answers(gpu)
    previous = getattr(driver, "_active", None)
    with (
        mock.patch.multiple(torch.cuda, **{name: a for name, a in answers.items() if hasattr(torch.cuda, name)}),
        mock.patch.object(torch.version, "cuda", torch.version.cuda or _CUDA_VERSION),
    ):
        driver.set_active(Driver(gpu))
        try:
            yield
        finally:
            driver.set_active(previous)  # None lets it look for a GPU when it is next asked


def _torch_cuda_answers(gpu: TargetGpu) -> dict[str, Any]:
    properties = properties_of(gpu)
    nothing, idle = _answering(None), Idle()
    return {
        "is_available": _answering(True),
        "is_initialized": _answering(True),
        "init": nothing,
        "_lazy_init": nothing,
        "device_count": _answering(1),
        "current_device": _answering(0),
        "set_device": nothing,
        "_exchange_device": _answering(0),
        "_maybe_exchange_device": _answering(0),
        "get_device_properties": _answering(properties),
        "get_device_capability": _answering(gpu.capability),
        "get_device_name": _answering(gpu.name),
        "get_arch_list": _answering([f"sm_{gpu.capability[0]}{gpu.capability[1]}"]),
        "is_bf16_supported": _answering(gpu.capability >= (8, 0)),
        "mem_get_info": _answering((gpu.memory_bytes, gpu.memory_bytes)),
        "is_current_stream_capturing": _answering(False),
        "synchronize": nothing,
        "empty_cache": nothing,
        "current_stream": _answering(idle),
        "default_stream": _answering(idle),
        "stream": _answering(nullcontext()),
        "Stream": Idle,
        "Event": Idle,
    }


def _as_triton_tells(gpu: TargetGpu) -> dict[str, int]:
    limits = limits_of(gpu.capability)
    return {
        "max_shared_mem": limits.shared_memory_per_block_bytes,
        "max_num_regs": limits.registers_per_sm,
        "multiprocessor_count": gpu.sm_count,
        "warpSize": THREADS_PER_WARP,
    }


def _answering(answer: Any) -> Callable[..., Any]:
    return lambda *_, **__: answer
