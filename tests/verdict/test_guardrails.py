"""Metrics outside the goal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import HostTime, Memory
from warpsmith.verdict.guardrails import host_time_guardrails, memory_guardrails
from warpsmith.verdict.thresholds import Thresholds

Cases = Callable[..., Case]
SIDES = "original", "v1"


def test_memory_that_grows_where_less_is_needed_than_elsewhere_is_not_felt(case: Cases) -> None:
    small = Memory(case=case(1), mode=Mode.FULL, peak_bytes={"original": 10, "v1": 50})
    large = Memory(case=case(2), mode=Mode.FULL, peak_bytes={"original": 100, "v1": 104})

    (result,) = memory_guardrails((small, large), *SIDES, Thresholds())

    assert (result.baseline, result.variant, result.ok) == (100, 104, True)
    assert result.metric == "largest peak memory in full, 2x4096-bf16"


def test_memory_is_judged_mode_by_mode(case: Cases) -> None:
    forward = Memory(case=case(), mode=Mode.FORWARD, peak_bytes={"original": 10, "v1": 20})
    full = Memory(case=case(), mode=Mode.FULL, peak_bytes={"original": 100, "v1": 100})

    assert [r.ok for r in memory_guardrails((forward, full), *SIDES, Thresholds())] == [False, True]


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
