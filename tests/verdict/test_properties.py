"""What a person relies on, over many simulated comparisons with a known truth and under every disturbance.

The seeds are fixed, so that each share is the same on every run.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from synthetic import (
    DISTURBANCES,
    ROUNDS,
    SIDES,
    Disturbance,
    Floats,
    clock_ramp,
    linear_drift,
    make_case,
    quiet,
    simulated,
)

from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import CaseCheck, Correctness, Timing, TimingPlan
from warpsmith.contracts.verdict import Interval, Outcome, Verdict
from warpsmith.stages.judge import LONGER
from warpsmith.verdict.decision import MIN_ROUNDS, decide
from warpsmith.verdict.evidence import Evidence
from warpsmith.verdict.statistics import Comparison, compare, expanded_tails, holm, rounds_needed
from warpsmith.verdict.thresholds import Thresholds

#: A share of 95% is then known to 1.1%, one standard error, so that only a defect is outside the band.
SIMULATIONS = 400
BAND = (0.92, 0.98)
#: Enough where coverage is counted and no single interval is looked at.
RESAMPLES = 300

#: Verdicts of each kind: 95% of them are 57.
JUDGED = 60
#: As many as the timing engine runs.
PILOT_ROUNDS = 6
#: What the number of rounds is chosen for, and the most there are.
HALF_WIDTH, MOST_ROUNDS = 0.002, 48
#: 6%, which a t-test of trimmed means at 5% comes to so far out in the tail, and over so many families 1.5
#: standard errors.
FAMILIES, FAMILY_WISE = 300, 0.08
GUARDRAIL = Thresholds().case_regression

#: From a comparison and a seed to the 95% interval of the speed-up.
Procedure = Callable[[Timing, int], Interval]

every_disturbance = pytest.mark.parametrize("disturbance", DISTURBANCES.values(), ids=DISTURBANCES.keys())


@functools.cache
def identical_sides(disturbance: Disturbance, rounds: int = ROUNDS) -> tuple[Timing, ...]:
    return tuple(simulated(disturbance, seed, rounds=rounds) for seed in range(SIMULATIONS))


def the_procedure(timing: Timing, seed: int) -> Interval:
    return compare(timing, *SIDES, seed=seed, resamples=RESAMPLES).speedup


def coverage(procedure: Procedure, timings: Sequence[Timing]) -> float:
    """The share of comparisons of identical sides whose interval has 1 in it."""
    intervals = [procedure(timing, seed) for seed, timing in enumerate(timings)]
    return sum(found.low <= 1 <= found.high for found in intervals) / len(intervals)


def verdict_on(*timings: Timing) -> Verdict:
    correctness = Correctness(source_sha256="0" * 64, checks=(CaseCheck(case=make_case(), errors=(), failures=()),))
    return decide(Evidence(SIDES[1], None, Mode.FULL, correctness, timings, noise_floor=0.001), Thresholds())


def outcomes(disturbance: Disturbance, slowdown: float) -> list[Outcome]:
    """As they are decided: as many rounds as the pilot asks for, and what stays inconclusive measured longer once."""
    found = []
    for seed in range(JUDGED):
        outcome = verdict_on(planned(disturbance, seed, slowdown, TimingPlan())).outcome
        if outcome is Outcome.INCONCLUSIVE:
            outcome = verdict_on(planned(disturbance, JUDGED + seed, slowdown, LONGER)).outcome
        found.append(outcome)
    return found


def planned(disturbance: Disturbance, seed: int, slowdown: float, plan: TimingPlan) -> Timing:
    pilot = simulated(disturbance, 10_000 + seed, slowdown=slowdown, rounds=PILOT_ROUNDS)
    needed = rounds_needed(pilot.blocks, SIDES, plan.half_width)
    return simulated(disturbance, seed, slowdown=slowdown, rounds=max(plan.rounds, min(needed, plan.most_rounds)))


def within(share: float) -> bool:
    return BAND[0] <= share <= BAND[1]


@every_disturbance
def test_a_95_percent_interval_has_the_truth_in_it_95_percent_of_the_time(disturbance: Disturbance) -> None:
    assert within(coverage(the_procedure, identical_sides(disturbance)))


@pytest.mark.parametrize("counts", [(3, 12), (12, 1)])
def test_sides_with_different_numbers_of_samples_are_compared_as_fairly(counts: tuple[int, int]) -> None:
    timings = [simulated(quiet, seed, counts=counts) for seed in range(SIMULATIONS)]

    assert within(coverage(the_procedure, timings))


def over_samples(timing: Timing, seed: int) -> Interval:
    """A bootstrap over samples as if they were independent, sides apart."""
    generator, drawn = np.random.default_rng(seed), []
    for side in SIDES:
        samples = np.concatenate([b.samples_ms for b in timing.blocks if b.contender == side])
        drawn.append(np.median(samples[generator.integers(0, len(samples), (RESAMPLES, len(samples)))], axis=1))
    return _percentiles(np.log(drawn[0] / drawn[1]), (0.025, 0.975))


def unpaired(timing: Timing, seed: int) -> Interval:
    """A bootstrap over rounds that draws those of either side by themselves."""
    generator, drawn = np.random.default_rng(seed), []
    for side in SIDES:
        medians = np.array([np.median(b.samples_ms) for b in timing.blocks if b.contender == side])
        drawn.append(np.median(medians[generator.integers(0, len(medians), (RESAMPLES, len(medians)))], axis=1))
    return _percentiles(np.log(drawn[0] / drawn[1]), expanded_tails(ROUNDS))


def untrimmed(timing: Timing, seed: int) -> Interval:
    """The mean over rounds of the same ratios."""
    logs = compare(timing, *SIDES, resamples=1).log_ratios
    draws = np.random.default_rng(seed).integers(0, len(logs), (RESAMPLES, len(logs)))
    return _percentiles(logs[draws].mean(axis=1), expanded_tails(ROUNDS))


def _percentiles(logs: Floats, tails: tuple[float, float]) -> Interval:
    low, high = np.exp(np.quantile(logs, tails))
    return Interval(value=float(np.exp(np.median(logs))), low=float(low), high=float(high))


@pytest.mark.parametrize(
    ("procedure", "fooled_by"),
    [
        (over_samples, "quiet"),
        (over_samples, "two_modes"),
        (over_samples, "autocorrelation"),
        (unpaired, "linear_drift"),
        (unpaired, "clock_ramp"),
        (untrimmed, "one_sided_spikes"),
    ],
)
def test_a_procedure_that_gets_one_thing_wrong_fails_the_same_property(procedure: Procedure, fooled_by: str) -> None:
    assert not within(coverage(procedure, identical_sides(DISTURBANCES[fooled_by])))


def test_fewer_rounds_than_a_decision_needs_make_an_interval_that_promises_too_much() -> None:
    least = identical_sides(quiet, MIN_ROUNDS)

    assert within(coverage(the_procedure, least))
    assert not within(coverage(the_procedure, identical_sides(quiet, MIN_ROUNDS // 2)))


@every_disturbance
def test_a_copy_is_never_accepted_nor_called_a_regression(disturbance: Disturbance) -> None:
    verdicts = [verdict_on(timing) for timing in identical_sides(disturbance)[:JUDGED]]

    assert {verdict.outcome for verdict in verdicts} <= {Outcome.REJECTED, Outcome.INCONCLUSIVE}
    assert not any(case.regressed for verdict in verdicts for case in verdict.cases)


@every_disturbance
def test_a_gain_of_two_percent_is_accepted(disturbance: Disturbance) -> None:
    assert outcomes(disturbance, 1 / 1.02).count(Outcome.ACCEPTED) >= 57


@every_disturbance
def test_a_slow_down_of_five_percent_is_a_regression(disturbance: Disturbance) -> None:
    assert outcomes(disturbance, 1.05).count(Outcome.REJECTED) >= 57


@every_disturbance
@pytest.mark.parametrize("slowdown", [1 / 1.005, 1.005])
def test_half_a_percent_is_never_accepted(disturbance: Disturbance, slowdown: float) -> None:
    assert Outcome.ACCEPTED not in outcomes(disturbance, slowdown)


@pytest.mark.parametrize("disturbance", [linear_drift, clock_ramp])
def test_one_side_after_the_other_is_fooled_by_drift_where_sides_in_turn_are_not(disturbance: Disturbance) -> None:
    apart = [verdict_on(simulated(disturbance, seed, interleaved=False)) for seed in range(40)]
    in_turn = [verdict_on(simulated(disturbance, seed)) for seed in range(40)]

    assert sum(verdict.outcome is Outcome.ACCEPTED or verdict.cases[0].regressed for verdict in apart) >= 30
    assert not any(verdict.outcome is Outcome.ACCEPTED or verdict.cases[0].regressed for verdict in in_turn)


def fixed_by_a_pilot(timing: Timing, seed: int) -> Interval:
    """The first rounds tell how many of the others there are."""
    pilot = [block for block in timing.blocks if block.round < PILOT_ROUNDS]
    return the_procedure(_rounds_of(timing, max(MIN_ROUNDS, rounds_needed(pilot, SIDES, HALF_WIDTH))), seed)


def until_narrow(timing: Timing, seed: int) -> Interval:
    """Rounds until the interval happens to be as narrow as asked for."""
    for rounds in range(4, MOST_ROUNDS):
        found = the_procedure(_rounds_of(timing, rounds), seed)
        if found.high - found.low <= 2 * HALF_WIDTH:
            return found
    return the_procedure(_rounds_of(timing, MOST_ROUNDS), seed)


def _rounds_of(timing: Timing, rounds: int) -> Timing:
    """The first rounds after the pilot."""
    wanted = range(PILOT_ROUNDS, PILOT_ROUNDS + min(rounds, MOST_ROUNDS))
    return timing.model_copy(update={"blocks": tuple(b for b in timing.blocks if b.round in wanted)})


def test_a_number_of_rounds_that_a_pilot_fixed_keeps_the_promise_and_peeking_breaks_it() -> None:
    timings = identical_sides(quiet, PILOT_ROUNDS + MOST_ROUNDS)[:300]

    assert within(coverage(fixed_by_a_pilot, timings))
    assert not within(coverage(until_narrow, timings))


#: From comparisons that are slower by exactly the guardrail to the p-values that are held against 5%.
Family = Callable[[Sequence[Comparison]], Sequence[float]]


def by_holm(family: Sequence[Comparison]) -> Sequence[float]:
    return holm([each.regression_p(GUARDRAIL) for each in family])


def unadjusted(family: Sequence[Comparison]) -> Sequence[float]:
    return [each.regression_p(GUARDRAIL) for each in family]


def by_percentiles(family: Sequence[Comparison]) -> Sequence[float]:
    """The share of resampled estimates within the guardrail, whose tails are too light for few rounds."""
    return holm([(1 + np.sum(-each.log_speedups <= math.log1p(GUARDRAIL))) / (1 + RESAMPLES) for each in family])


@pytest.mark.parametrize("rounds", [MIN_ROUNDS, ROUNDS])
def test_a_regression_is_seen_where_there_is_none_in_about_one_family_of_twenty(
    timing: Callable[..., Timing], rounds: int
) -> None:
    assert _false_alarms(timing, by_holm, rounds) <= FAMILY_WISE


@pytest.mark.parametrize(("test", "rounds"), [(unadjusted, ROUNDS), (by_percentiles, MIN_ROUNDS)])
def test_a_test_that_gets_one_thing_wrong_raises_more_false_alarms(
    timing: Callable[..., Timing], test: Family, rounds: int
) -> None:
    assert _false_alarms(timing, test, rounds) > FAMILY_WISE


def _false_alarms(timing: Callable[..., Timing], test: Family, rounds: int) -> float:
    """The share of families of ten cases in which one is called a regression. Every ratio scatters by 0.4%."""
    alarms = 0
    for seed in range(FAMILIES):
        logs = 0.004 * np.random.default_rng(seed).standard_normal((10, rounds))
        slower = (1 + GUARDRAIL) * np.exp(logs)
        family = [
            compare(timing({"a": [1.0] * rounds, "b": row.tolist()}), "a", "b", seed=index, resamples=RESAMPLES)
            for index, row in enumerate(slower)
        ]
        alarms += min(test(family)) < Thresholds().significance
    return alarms / FAMILIES
