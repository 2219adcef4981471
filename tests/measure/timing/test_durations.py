from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doubling import CASE, CPU, double, fails, side, target_of
from torch import Tensor

from warpsmith.contracts.case import Mode
from warpsmith.contracts.counters import Durations, KernelDuration
from warpsmith.contracts.measurement import SourceRef
from warpsmith.contracts.target import Inputs
from warpsmith.measure.handlers import handlers
from warpsmith.measure.timing.durations import CALLS, WARM_UP_CALLS, Unsteady, kernels_of, measure_durations
from warpsmith.measure.timing.runners import PROFILER_ATTEMPTS, Span
from warpsmith.measure.worker.protocol import MeasureDurations, TargetRef, WorkerError

ROOT = Path(__file__).resolve().parents[3]

#: What one operation takes in the simulation, in µs.
OPERATION_US = 10.0


def measured(call: Callable[[Inputs], Any], mode: Mode = Mode.FORWARD, **of_target: Any) -> Durations:
    return measure_durations(side("a", call), target_of(**of_target), CASE, mode, seed=0, device=CPU)


def names(found: Durations) -> list[str]:
    assert found.unavailable is None
    return [kernel.name for kernel in found.kernels]


def span(name: str, start_us: float, end_us: float) -> Span:
    return Span(name, start_us, end_us)


def test_the_kernels_of_a_call_come_in_order_with_a_sample_a_call() -> None:
    calls = [
        [span("Memset (Device)", 0.0, 1.0), span("first", 2.0, 5.5), span("first", 6.0, 7.0)],
        [span("Memset (Device)", 100.0, 101.5), span("first", 102.0, 106.0), span("first", 107.0, 109.0)],
    ]

    assert kernels_of(calls) == (
        KernelDuration(name="Memset (Device)", samples_us=(1.0, 1.5)),
        KernelDuration(name="first", samples_us=(3.5, 4.0)),
        KernelDuration(name="first", samples_us=(1.0, 2.0)),
    )


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ([span("a", 0, 1)], r"2 \(a, b\) in call 1, 1 \(a\) in 3"),
        ([span("b", 0, 1), span("a", 1, 2)], r"2 \(a, b\) in call 1, 2 \(b, a\) in 3"),
        ([span("a", 0, 1), span("b", 1, 2), span("b", 2, 3)], r"2 \(a, b\) in call 1, 3 \(a, b, b\) in 3"),
    ],
)
def test_calls_of_different_kernels_are_told(other: list[Span], told: str) -> None:
    usual = [span("a", 0, 1), span("b", 1, 2)]
    with pytest.raises(Unsteady, match=told):
        kernels_of([usual, usual, other, usual])


@pytest.mark.parametrize(("mode", "kernels"), [(Mode.FORWARD, 3), (Mode.BACKWARD, 1), (Mode.FULL, 4)])
def test_each_mode_has_the_kernels_of_its_own_passes(cuda: Any, mode: Mode, kernels: int) -> None:
    def call(inputs: Inputs) -> Tensor:
        cuda.work(None, "Memset (Device)")
        cuda.work(None, "copy")
        return double(inputs)

    found = measured(call, mode)

    assert (found.case, found.mode) == (CASE, mode)
    assert names(found) == [*["Memset (Device)", "copy"] * (mode is not Mode.BACKWARD), "kernel", "kernel"][:kernels]
    assert all(kernel.samples_us == pytest.approx([OPERATION_US] * CALLS) for kernel in found.kernels)


@pytest.mark.parametrize(("overwrites", "restored"), [((), []), (("x",), ["restore"])])
def test_inputs_are_restored_and_l2_flushed_before_each_call_and_outside_of_it(
    cuda: Any, overwrites: tuple[str, ...], restored: list[str]
) -> None:
    found = measured(double, overwrites=overwrites)

    assert names(found) == ["kernel"]
    around = [*restored, "flush", "mark", "mark"] * (CALLS + 1)
    assert cuda.log[-len(around) :] == around


def test_what_first_calls_do_is_not_measured(cuda: Any) -> None:
    made: list[int] = []

    def call(inputs: Inputs) -> Tensor:
        made.append(1)
        if len(made) <= WARM_UP_CALLS:
            cuda.work(None, "compile")
        return double(inputs)

    assert names(measured(call)) == ["kernel"]


def test_a_call_whose_kernels_differ_from_run_to_run_is_unavailable(cuda: Any) -> None:
    made: list[int] = []

    def call(inputs: Inputs) -> Tensor:
        made.append(1)
        if len(made) == WARM_UP_CALLS + 5:
            cuda.work(None, "now and then")
        return double(inputs)

    found = measured(call)

    told = "calls launch different kernels: 1 (kernel) in call 1, 2 (now and then, kernel) in 4"
    assert found == Durations(case=CASE, mode=Mode.FORWARD, unavailable=told)


def test_a_profile_without_kernels_is_made_again(cuda: Any) -> None:
    cuda.empty_profiles = PROFILER_ATTEMPTS - 1

    assert names(measured(double)) == ["kernel"]


def test_a_profiler_that_sees_nothing_is_unavailable(cuda: Any) -> None:
    cuda.empty_profiles = PROFILER_ATTEMPTS

    found = measured(double)

    assert found.kernels == ()
    assert found.unavailable == (
        f"the profiler shows the kernels of 0 of {CALLS + 1} calls: "
        "CUPTI is missing, another profiler has it, or the call launches nothing"
    )


def test_a_profiler_that_does_not_start_is_unavailable(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(**options: Any) -> None:
        raise RuntimeError("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED")

    monkeypatch.setattr("warpsmith.measure.timing.runners.profile", refuses)

    told = str(measured(double).unavailable)

    assert told.startswith("the profiler does not start: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: ")


def test_a_call_that_fails_is_unavailable_with_its_status(cuda: Any) -> None:
    assert measured(fails).unavailable == "runtime_failed: ValueError: no such shape"


def test_a_broken_context_is_raised(cuda: Any) -> None:
    def breaks(inputs: Inputs) -> Tensor:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        measured(breaks)


def test_a_target_that_cannot_be_used_is_raised(cuda: Any) -> None:
    with pytest.raises(WorkerError, match="make_inputs returned list"):
        measured(double, make_inputs=lambda case, device, generator: [])


def test_a_source_that_cannot_be_loaded_is_unavailable_with_its_status(tmp_path: Path) -> None:
    source = tmp_path / "broken.py"
    source.write_text("def broken(:\n", encoding="utf-8")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    target = TargetRef(path=str(ROOT / "benchmark" / "benchmark_vector_add.py"), root=str(ROOT), sha256="0" * 64)
    question = MeasureDurations(
        target=target, source=SourceRef(path=str(source), sha256=digest), case=CASE, mode=Mode.FORWARD
    )

    found = handlers()["durations"](question)

    assert isinstance(found, Durations)
    assert found.kernels == ()
    assert str(found.unavailable).startswith("import_failed: ")
