"""From timings and memory to rows."""

from __future__ import annotations

import measured_fixtures as measured

from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.measurement import TimingMethod
from warpsmith.contracts.verdict import Interval
from warpsmith.report.rows import ProviderRow, provider_rows

CASE = measured.TUNING[0]


def row(provider: str, **changes: object) -> ProviderRow:
    values = {
        "provider": provider,
        "case": "2048x2048-bf16",
        "role": Role.TUNING,
        "mode": Mode.FORWARD,
        "time_ms": Interval(value=2.0, low=2.0, high=2.0),
        "method": TimingMethod.GRAPH,
        "rounds": 2,
        "samples": 6,
    }
    return ProviderRow.model_validate({**values, **changes})


def test_a_row_holds_time_memory_and_how_much_was_measured() -> None:
    timing = measured.timing(CASE, Mode.FORWARD, {"torch": [(1.0, 2.0, 3.0)] * 2, "original": [(2.0,)] * 2})

    assert provider_rows([timing], [measured.memory(CASE, Mode.FORWARD, torch=4096)]) == (
        row("original", samples=2),
        row("torch", peak_bytes=4096),
    )


def test_memory_of_another_mode_is_not_taken() -> None:
    timing = measured.timing(CASE, Mode.FORWARD, {"original": [(1.0, 2.0, 3.0)] * 2})

    assert provider_rows([timing], [measured.memory(CASE, Mode.FULL, original=4096)]) == (row("original"),)


def test_a_contender_that_failed_has_a_reason_and_no_time() -> None:
    timing = measured.timing(CASE, Mode.FORWARD, {}, failures={"liger": "out of memory"})

    assert provider_rows([timing]) == (row("liger", time_ms=None, rounds=0, samples=0, unavailable="out of memory"),)


def test_of_two_comparisons_of_a_case_the_first_counts() -> None:
    together = measured.timing(CASE, Mode.FORWARD, {"original": [(1.0, 2.0, 3.0)] * 2})
    apart = measured.timing(CASE, Mode.FORWARD, {"original": [(9.0,)], "torch": [(2.0,)]}, method=TimingMethod.EVENTS)

    assert provider_rows([together, apart]) == (
        row("original"),
        row("torch", method=TimingMethod.EVENTS, rounds=1, samples=1, apart=True),
    )
