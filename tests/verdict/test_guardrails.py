"""Metrics outside the goal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import Compilation, HostTime, Memory
from warpsmith.contracts.verdict import GuardrailResult
from warpsmith.verdict.guardrails import compile_guardrails, host_time_guardrails, memory_guardrails
from warpsmith.verdict.thresholds import Thresholds

Cases = Callable[..., Case]
SIDES = "original", "v1"


def test_memory_that_grows_where_less_is_needed_than_elsewhere_is_not_felt(case: Cases) -> None:
    small = Memory(case=case(1), mode=Mode.FULL, peak_bytes={"original": 10, "v1": 50})
    large = Memory(case=case(2), mode=Mode.FULL, peak_bytes={"original": 100, "v1": 104})

    (result,) = memory_guardrails((small, large), *SIDES, Thresholds())

    assert (result.baseline, result.variant, result.ok) == (100, 104, True)
    assert result.metric == "largest memory of a call in full, 2x4096-bf16"


def test_memory_is_judged_mode_by_mode(case: Cases) -> None:
    forward = Memory(case=case(), mode=Mode.FORWARD, peak_bytes={"original": 10, "v1": 20})
    full = Memory(case=case(), mode=Mode.FULL, peak_bytes={"original": 100, "v1": 100})

    assert [r.ok for r in memory_guardrails((forward, full), *SIDES, Thresholds())] == [False, True]


def test_memory_is_held_against_all_that_a_call_needs_inputs_included(case: Cases) -> None:
    peaks = {"original": 10, "v1": 14}
    memory = Memory(case=case(), mode=Mode.FULL, peak_bytes=peaks, held_bytes={"original": 90, "v1": 90})

    (result,) = memory_guardrails((memory,), *SIDES, Thresholds())

    assert (result.baseline, result.variant, result.ok) == (100, 104, True)
    assert result.limit == "at most 5% more, inputs included"


def test_memory_where_there_was_none_is_growth_without_bound(case: Cases) -> None:
    memory = Memory(case=case(), mode=Mode.FULL, peak_bytes={"original": 0, "v1": 1})

    assert [r.ok for r in memory_guardrails((memory,), *SIDES, Thresholds())] == [False]


def test_memory_that_was_not_measured_on_both_sides_has_no_result(case: Cases) -> None:
    memory = Memory(case=case(), mode=Mode.FULL, peak_bytes={"original": 10})

    assert memory_guardrails((memory,), *SIDES, Thresholds()) == ()


@pytest.mark.parametrize(
    ("original_us", "variant_us", "ok"),
    [(10.0, 12.5, True), (100.0, 104.0, True), (20.0, 24.0, False), (20.0, 10.0, True)],
)
def test_host_time_breaks_only_with_both_the_share_and_the_microseconds(
    case: Cases, original_us: float, variant_us: float, ok: bool
) -> None:
    samples = {"original": (original_us,) * 3, "v1": (variant_us, 900.0, variant_us)}

    host_time = HostTime(case=case(), mode=Mode.FULL, samples_us=samples)

    assert [r.ok for r in host_time_guardrails((host_time,), *SIDES, Thresholds())] == [ok]


def host_time(case: Case, original: Sequence[float], candidate: Sequence[float], chunk: int | None = 2) -> HostTime:
    samples = {"original": tuple(original), "v1": tuple(candidate)}
    return HostTime(case=case, mode=Mode.FULL, samples_us=samples, calls_per_chunk=chunk)


def chunks(*levels: float) -> list[float]:
    """Two calls a chunk, the second disturbed."""
    return [us for level in levels for us in (level, 3 * level)]


@pytest.mark.parametrize(
    ("candidate", "ok"),
    [
        (chunks(24, 48, 24, 24), False),  # 20% more in each
        (chunks(24, 48, 24, 18), False),  # in three of four
        (chunks(24, 48, 20, 19), True),
        (chunks(40, 90, 20, 19), True),  # a busy second
        (chunks(21, 42, 21, 21), True),
    ],
)
def test_host_time_is_compared_chunk_by_chunk_as_a_busy_host_slows_what_runs_then(
    case: Cases, candidate: list[float], ok: bool
) -> None:
    (result,) = host_time_guardrails((host_time(case(), chunks(20, 40, 20, 20), candidate),), *SIDES, Thresholds())
    assert result.ok is ok
    assert (result.metric.partition(",")[0], result.baseline) == ("host time a call (median of chunks)", 20.0)


def test_host_time_without_chunks_fails_only_where_least_and_quartile_both_grew(case: Cases) -> None:
    lucky = host_time(case(), (10.0,) + (30.0,) * 7, (29.0,) * 8, None)
    busy = host_time(case(), (20.0,) * 8, (20.5,) + (30.0,) * 7, None)
    costly = host_time(case(), (20.0,) * 8, (24.0,) * 8, None)
    assert [r.ok for r in host_time_guardrails((lucky, busy, costly), *SIDES, Thresholds())] == [True, True, False]


def compilation(case: Case, *cold_s: float, **specializations: int) -> Compilation:
    return Compilation(source_sha256="0" * 64, case=case, cold_s=cold_s, specializations=specializations)


def test_compilation_is_compared_by_its_least_sample_and_by_its_kernels_in_all(case: Cases) -> None:
    original = compilation(case(), 9.0, 1.0, 2.0, forward=1, backward=2)
    variant = compilation(case(), 1.5, 9.0, forward=6)

    assert compile_guardrails(original, variant, Thresholds()) == (
        GuardrailResult(
            metric="cold compile time (least of 2), 8192x4096-bf16",
            baseline=1.0,
            variant=1.5,
            unit="s",
            limit="at most 50% or 0.2 s more",
            ok=True,
        ),
        GuardrailResult(
            metric="specializations, all cases",
            baseline=3,
            variant=6,
            unit="kernels",
            limit="at most 2 times as many",
            ok=True,
        ),
    )


@pytest.mark.parametrize(
    ("original_s", "variant_s", "ok"), [(0.1, 0.25, True), (1.0, 1.4, True), (1.0, 1.6, False), (2.0, 0.5, True)]
)
def test_cold_compile_time_breaks_only_with_both_the_share_and_the_seconds(
    case: Cases, original_s: float, variant_s: float, ok: bool
) -> None:
    sides = compilation(case(), original_s, kernel=1), compilation(case(), variant_s, kernel=1)

    assert [r.ok for r in compile_guardrails(*sides, Thresholds())] == [ok, True]


def test_more_than_twice_the_specializations_break_the_guardrail(case: Cases) -> None:
    sides = compilation(case(), 1.0, kernel=3), compilation(case(), 1.0, kernel=7)

    assert [r.ok for r in compile_guardrails(*sides, Thresholds())] == [True, False]


def test_a_compilation_that_was_not_measured_on_both_sides_has_no_result(case: Cases) -> None:
    missing = Compilation(source_sha256="0" * 64, case=case(), unavailable="compile_failed: no")

    assert compile_guardrails(missing, compilation(case(), 1.0, kernel=1), Thresholds()) == ()
