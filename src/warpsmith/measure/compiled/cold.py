"""What it takes to compile a source from nothing: seconds of the compiler, and how many kernels its launches need.

For a process that does nothing else. Must not know how launches are seen (recording.py).
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from triton import knobs

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import Compilation, Contender
from warpsmith.measure.compiled.launches import record_call
from warpsmith.measure.compiled.recording import Recording
from warpsmith.measure.worker.failures import told
from warpsmith.measure.worker.loading import load_implementation, load_target, loaded_apart
from warpsmith.measure.worker.protocol import MeasureCompilation

#: Chosen: what disturbs a compiler only adds, so the least of a few samples is steady.
SAMPLES = 3


def measure_compilation(question: MeasureCompilation, device: torch.device) -> Compilation:
    """SAMPLES cold compilations of the passes at the question's case, and the kernels of its passes at all its cases.

    A pass backward counts with the forward pass before it. Kernels run only where an autotuner tries them. A source
    that launches none of its own has no specializations. Raises what leaves the process unfit to go on; any other
    failure is told in the answer.
    """
    sha256, case = question.source.sha256, question.case
    try:
        cold_s = tuple(_cold_s(question, device) for _ in range(SAMPLES))
        return Compilation(
            source_sha256=sha256, case=case, cold_s=cold_s, specializations=_specializations(question, device)
        )
    except Exception as error:  # the compiler and the user's code may fail in any way
        return Compilation(source_sha256=sha256, case=case, unavailable=told(error))


def _cold_s(question: MeasureCompilation, device: torch.device) -> float:
    with _from_nothing():
        return round(sum(seen.compile_s for seen in _recordings(question, (question.case,), device)), 4)


def _specializations(question: MeasureCompilation, device: torch.device) -> dict[str, int]:
    """Distinct kernels by jit function: one for each key of Triton's cache, as that is what is compiled once."""
    kernels: dict[str, set[str]] = {}
    with _from_nothing():
        for seen in _recordings(question, question.cases, device):
            for jit_function, keys in seen.specializations.items():
                kernels.setdefault(jit_function, set()).update(keys)
    return {jit_function: len(keys) for jit_function, keys in sorted(kernels.items())}


def _recordings(question: MeasureCompilation, cases: Sequence[Case], device: torch.device) -> Iterator[Recording]:
    target = load_target(question.target.path)
    contender = Contender(name="candidate", source=question.source)
    implementation = load_implementation(target, contender, question.target.root)
    for case in cases:
        for mode in question.passes:
            mode = Mode.FULL if mode is Mode.BACKWARD else mode
            yield record_call(implementation, target, case, mode, device=device, seed=question.seed, launch=False)


@contextmanager
def _from_nothing() -> Iterator[None]:
    """Inside, Triton's cache is empty, and sources are loaded anew: their jit functions know no kernel yet."""
    with tempfile.TemporaryDirectory(prefix="warpsmith_cold_") as folder, knobs.cache.scope(), loaded_apart(folder):
        knobs.cache.dir = folder
        yield
