from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
import torch

from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.counters import Durations
from warpsmith.contracts.measurement import L2, SourceRef, TimingMethod, TimingPlan
from warpsmith.contracts.target import Target
from warpsmith.measure.counters.kernel_names import short_name
from warpsmith.measure.counters.ncu import count
from warpsmith.measure.handlers import handlers
from warpsmith.measure.timing.compare import time_contenders
from warpsmith.measure.timing.durations import CALLS, measure_durations
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.protocol import Count, MeasureDurations, TargetRef

pytestmark = pytest.mark.gpu

CASE = Case(axes={"M": 8192, "N": 4096}, dtype=DType.BFLOAT16)
FORWARD, BACKWARD = "_rms_norm_forward_kernel", "_rms_norm_backward_kernel"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())


def measured(implementation: Implementation, target: Target, mode: Mode) -> Durations:
    found = measure_durations(implementation, target, CASE, mode, seed=0, device=device())
    assert found.unavailable is None
    assert all(len(kernel.samples_us) == CALLS for kernel in found.kernels)
    return found


def names(found: Durations) -> list[str]:
    return [short_name(kernel.name) for kernel in found.kernels]


def asked(root: Path) -> tuple[TargetRef, SourceRef]:
    file, source = root / "benchmark" / "benchmark_rms_norm.py", root / "optimization/rms_norm/original_rms_norm.py"
    return (
        TargetRef(path=str(file), root=str(root), sha256=sha256(file)),
        SourceRef(path=str(source), sha256=sha256(source)),
    )


def test_each_mode_has_its_own_kernels_in_launch_order(original: Implementation, target: Target) -> None:
    assert names(measured(original, target, Mode.FORWARD)) == [FORWARD]

    backward = names(measured(original, target, Mode.BACKWARD))
    assert FORWARD not in backward
    assert backward.count(BACKWARD) == 1
    assert [name for name in backward[backward.index(BACKWARD) :] if name.startswith("reduce_kernel<")]
    assert names(measured(original, target, Mode.FULL)) == [FORWARD, *backward]


def test_durations_add_up_to_what_the_profiler_times(original: Implementation, target: Target) -> None:
    found = measured(original, target, Mode.BACKWARD)
    timing = time_contenders(
        [original],
        target,
        CASE,
        Mode.BACKWARD,
        plan=TimingPlan(rounds=4, most_rounds=4),
        method=TimingMethod.PROFILER,
        l2=L2.COLD,
        seed=0,
        device=device(),
    )

    timed_us = 1000 * median(sample for block in timing.blocks for sample in block.samples_ms)
    assert sum(median(kernel.samples_us) for kernel in found.kernels) == pytest.approx(timed_us, rel=0.1)


@pytest.mark.parametrize("mode", list(Mode))
def test_counters_and_durations_name_the_same_kernels(
    original: Implementation, target: Target, root: Path, mode: Mode
) -> None:
    target_ref, source = asked(root)
    counters = count(Count(target=target_ref, source=source, case=CASE, mode=mode))
    if counters.unavailable is not None:
        pytest.skip(f"{counters.unavailable}; {counters.remedy}")

    kernels = [name for name in names(measured(original, target, mode)) if not name.startswith(("Memset", "Memcpy"))]
    assert [short_name(row.kernel) for row in counters.rows] == kernels


def test_where_ncu_refuses_there_are_still_durations(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ncu = tmp_path / "ncu"
    ncu.write_text("#!/bin/sh\necho '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'\nexit 1\n")
    ncu.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    target_ref, source = asked(root)
    answering = handlers()

    counters = answering["count"](Count(target=target_ref, source=source, case=CASE, mode=Mode.FORWARD))
    durations = answering["durations"](MeasureDurations(target=target_ref, source=source, case=CASE, mode=Mode.FORWARD))

    assert "administrators only" in counters.unavailable
    assert isinstance(durations, Durations)
    assert names(durations) == [FORWARD]


def test_a_call_of_other_kernels_now_and_then_is_unavailable(
    variant: Callable[..., Implementation], target: Target
) -> None:
    empty = "    y = torch.empty_like(rows)\n"
    times = "    rms_norm_forward.times = getattr(rms_norm_forward, 'times', 0) + 1\n"
    fitful = variant((empty, f"{empty}{times}    if rms_norm_forward.times % 5 == 0:\n        y.zero_()\n"))

    found = measure_durations(fitful, target, CASE, Mode.FORWARD, seed=0, device=device())

    assert found.kernels == ()
    assert str(found.unavailable).startswith("calls launch different kernels: ")
