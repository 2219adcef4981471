"""When a search ends."""

from __future__ import annotations

import pytest

from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.request import Request
from warpsmith.contracts.variant import Variant, VariantStatus
from warpsmith.contracts.verdict import Interval, Outcome, Verdict
from warpsmith.verdict.stopping import stop_reason

REQUEST = Request(kernel="k", run_id="r", created_at="2026-11-29T00:00:00Z")
STALLED = "2 measured variants in a row were under 1% better than the best so far"


def interval(value: float) -> Interval:
    return Interval(value=value, low=value, high=value)


def judged(goal: float, outcome: Outcome = Outcome.ACCEPTED, over_best: float | None = None) -> Variant:
    verdict = Verdict(
        outcome=outcome,
        reasons=(),
        goal_mode=Mode.FULL,
        goal=interval(goal),
        over_best=None if over_best is None else interval(over_best),
    )
    return unjudged(VariantStatus.JUDGED, verdict)


def unjudged(status: VariantStatus, verdict: Verdict | None = None) -> Variant:
    return Variant(
        number=1,
        strategy="s",
        title="t",
        based_on=0,
        hypothesis="h",
        predicted_low=1.0,
        predicted_high=1.1,
        origin=Origin(kind=OriginKind.MEASURED),
        status=status,
        verdict=verdict,
    )


def test_a_search_that_has_just_begun_goes_on() -> None:
    assert stop_reason([], REQUEST, [1.5], 0.0) is None


def test_the_variant_budget_counts_every_variant() -> None:
    variants = [unjudged(VariantStatus.INAPPLICABLE)] * 8

    assert stop_reason(variants[:7], REQUEST, [], 0.0) is None
    assert stop_reason(variants, REQUEST, [1.5], 0.0) == "variant budget used: 8 of 8"


def test_the_time_budget_ends_a_search() -> None:
    assert stop_reason([], REQUEST, [1.5], 1800.0) == "time budget used: 1800 s of 1800 s"


def test_the_target_ends_a_search_once_an_accepted_variant_reaches_it() -> None:
    request = REQUEST.model_copy(update={"target_speedup": 1.3})

    assert stop_reason([judged(1.29), judged(1.4, Outcome.MIXED)], request, [1.5], 0.0) is None
    assert stop_reason([judged(1.31)], request, [1.5], 0.0) == "target reached: 1.310×, asked for 1.300×"


@pytest.mark.parametrize(
    "variants",
    [
        [judged(1.3), judged(1.305), judged(1.308)],
        [judged(1.3), judged(1.0, Outcome.REJECTED), judged(1.5, Outcome.MIXED)],
        [judged(1.3), judged(1.9, over_best=1.005), judged(1.9, over_best=0.9)],
        [judged(0.9, Outcome.REJECTED), unjudged(VariantStatus.COMPILE_FAILED), judged(1.0, Outcome.REJECTED)],
    ],
)
def test_two_measured_variants_without_a_step_end_a_search(variants: list[Variant]) -> None:
    assert stop_reason(variants, REQUEST, [1.01], 0.0) == STALLED


@pytest.mark.parametrize(
    "variants",
    [
        [judged(1.3), judged(1.305), judged(1.35)],
        [judged(1.3), judged(1.305), unjudged(VariantStatus.INAPPLICABLE), unjudged(VariantStatus.FAILED)],
        [judged(0.9, Outcome.REJECTED), judged(1.2)],
    ],
)
def test_a_step_or_what_was_not_measured_is_no_second_stall(variants: list[Variant]) -> None:
    assert stop_reason(variants, REQUEST, [], 0.0) is None


def test_a_stalled_search_goes_on_while_a_strategy_that_predicts_more_is_untried() -> None:
    stalled = [judged(1.3), judged(1.3), judged(1.3)]

    assert stop_reason(stalled, REQUEST, [1.0, 1.02], 0.0) is None
    assert stop_reason(stalled, REQUEST, [1.0, 1.01], 0.0) == STALLED
