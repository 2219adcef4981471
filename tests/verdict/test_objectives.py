"""Verdicts by what a run is after: memory, balanced, a regime, weights, a figure to reach."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from synthetic import make_case

from warpsmith.contracts.aim import Objective, TargetMetric
from warpsmith.contracts.case import Case, Mode, Role
from warpsmith.contracts.measurement import Correctness, Memory, Timing
from warpsmith.contracts.verdict import Interval, Outcome, Verdict
from warpsmith.verdict.decision import decide
from warpsmith.verdict.evidence import Evidence
from warpsmith.verdict.standing import beats_best
from warpsmith.verdict.thresholds import Thresholds

Maker = Callable[..., Timing]
CASES = (make_case(1024), make_case(2048))
Judge = Callable[..., Verdict]


def memory(case: Case, **peak_bytes: int) -> Memory:
    return Memory(case=case, mode=Mode.FULL, peak_bytes=peak_bytes)


@pytest.fixture
def judged(correctness: Callable[..., Correctness], noisy: Maker) -> Judge:
    """The verdict on v1 by its speed-up and its peak in bytes, at each of CASES; the original has 1000 everywhere."""

    def verdict(
        objective: Objective, speedups: tuple[float, float], peaks: tuple[int, int] | None = None, **more: object
    ) -> Verdict:
        timings = tuple(
            noisy({"original": 0.1, "best": 0.1, "v1": 0.1 / gain}, seed=index, case=case)
            for index, (case, gain) in enumerate(zip(CASES, speedups, strict=True))
        )
        found = zip(CASES, peaks or (), strict=False)
        memories = tuple(memory(case, original=100_000, best=90_000, v1=peak) for case, peak in found)
        evidence = Evidence("v1", None, Mode.FULL, correctness(), timings, memories, noise_floor=0.001)
        return decide(replace(evidence, objective=objective, **more), Thresholds())  # type: ignore[arg-type]

    return verdict


def test_memory_is_won_by_exact_peaks_whatever_the_speed_brings(judged: Judge) -> None:
    verdict = judged(Objective.MEMORY, (1.0, 0.995), (80_000, 50_000))

    ratio = round(math.sqrt(100 / 80 * 100 / 50), 6)
    assert verdict.outcome is Outcome.ACCEPTED
    assert verdict.goal == Interval(value=ratio, low=ratio, high=ratio)
    assert verdict.speedup is not None and verdict.speedup.value == pytest.approx(math.sqrt(0.995), rel=0.003)
    assert verdict.reasons[0] == (
        f"peak memory: the original's peak memory is {ratio:.3f}× the variant's over the tuning cases, at or above the "
        "bar of 1.010×"
    )


def test_speed_alone_wins_nothing_where_the_objective_is_memory(judged: Judge) -> None:
    verdict = judged(Objective.MEMORY, (1.5, 1.5), (100_000, 99_500))

    assert verdict.outcome is Outcome.REJECTED
    assert verdict.reasons[0].startswith("no gain in peak memory: the original's peak memory is 1.003×")


def test_less_memory_that_is_paid_for_with_time_is_rejected(judged: Judge) -> None:
    assert judged(Objective.MEMORY, (0.9, 0.9), (50_000, 50_000)).outcome is Outcome.REJECTED
    assert judged(Objective.BALANCED, (0.9, 0.9), (50_000, 50_000)).outcome is Outcome.REJECTED


@pytest.mark.parametrize("objective", [Objective.MEMORY, Objective.BALANCED])
def test_peaks_that_were_not_weighed_decide_nothing(judged: Judge, objective: Objective) -> None:
    verdict = judged(objective, (1.2, 1.2), (50_000,))

    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.reasons == ("peak memory is not known: full was not weighed at 2048x4096-bf16",)


@pytest.mark.parametrize(
    ("speedup", "peak", "outcome"),
    [
        (1.2, 100_000, Outcome.ACCEPTED),
        (1.2, 104_000, Outcome.ACCEPTED),
        (1.2, 106_000, Outcome.REJECTED),
        (1.0, 80_000, Outcome.ACCEPTED),
        (0.99, 80_000, Outcome.ACCEPTED),
        (1.0, 99_900, Outcome.REJECTED),
    ],
)
def test_balanced_takes_a_gain_in_either_where_the_other_is_within_its_guardrail(
    judged: Judge, speedup: float, peak: int, outcome: Outcome
) -> None:
    verdict = judged(Objective.BALANCED, (speedup, speedup), (peak, peak))

    assert verdict.outcome is outcome
    assert verdict.memory is not None and verdict.memory.value == pytest.approx(100_000 / peak, abs=1e-6)


def test_balanced_names_both_metrics(judged: Judge) -> None:
    reasons = judged(Objective.BALANCED, (1.2, 1.2), (100_000, 100_000)).reasons

    assert reasons[0].startswith("speed: 1.199×") and "no gain in peak memory" in reasons[1]


def test_the_objective_speed_asks_nothing_of_memory_and_says_nothing_of_it(judged: Judge) -> None:
    verdict = judged(Objective.SPEED, (1.2, 1.2))

    assert verdict.outcome is Outcome.ACCEPTED
    assert not {"objective", "speed", "memory", "memory_over_best", "target"} & verdict.model_dump().keys()


def test_only_what_counts_makes_the_goal_and_the_rest_is_guarded(judged: Judge) -> None:
    only = {CASES[0].name: 1.0}
    gained = judged(Objective.SPEED, (1.2, 1.0), weights=only)
    regressed = judged(Objective.SPEED, (1.2, 0.9), weights=only)

    assert gained.goal is not None and gained.goal.value == pytest.approx(1.2, rel=0.003)
    assert [c.case for c in gained.cases] == [c.name for c in CASES]
    assert (gained.outcome, regressed.outcome) == (Outcome.ACCEPTED, Outcome.MIXED)
    assert "2048x4096-bf16 regressed" in regressed.reasons[0]


def test_weights_that_were_asked_for_take_the_place_of_the_cases_own(judged: Judge) -> None:
    weights: Mapping[str, float] = {CASES[0].name: 3.0, CASES[1].name: 1.0}
    verdict = judged(Objective.SPEED, (1.2, 1.0), weights=weights)

    assert verdict.goal is not None and verdict.goal.value == pytest.approx(1.2**0.75, rel=0.003)


@pytest.mark.parametrize(
    ("target", "met", "told"),
    [
        ("full < 90 us", True, "measured 83.3"),
        ("full < 80 us", False, "at 2048x4096-bf16"),
        ("full < 60 us at M=1024", True, "at 1024x4096-bf16"),
        ("speedup > 1.5", True, "measured 1.5"),
        ("speedup > 1.5 at M=2048", False, "measured 1.2"),
        ("peak memory < 75 KB", False, "measured 80 KB at 1024x4096-bf16"),
        ("peak memory < 75 KB at M=2048", True, "measured 50 KB at 2048x4096-bf16"),
        ("forward < 90 us", False, "forward was not measured at 1024x4096-bf16, 2048x4096-bf16"),
    ],
)
def test_a_target_is_met_by_the_figure_that_was_measured_at_its_worst_case(
    judged: Judge, target: str, met: bool, told: str
) -> None:
    verdict = judged(Objective.SPEED, (2.0, 1.2), (80_000, 50_000), target=TargetMetric.parse(target))

    assert verdict.target is not None
    assert verdict.target.met is met
    assert str(verdict.target).startswith(f"{'met' if met else 'not met'}: {target}")
    assert told in str(verdict.target)


def standing(objective: Objective, speed: float, memory: float | None = None, **more: object) -> Verdict:
    def exact(value: float) -> Interval:
        return Interval(value=value, low=value, high=value)

    over = {"over_best": exact(speed), "memory_over_best": None if memory is None else exact(memory)}
    fields = {"outcome": Outcome.ACCEPTED, "reasons": (), "goal_mode": Mode.FULL, "noise_floor": 0.001, **over, **more}
    return Verdict.model_validate({**fields, "objective": objective, "goal": exact(1.5)})


@pytest.mark.parametrize(
    ("verdict", "beats"),
    [
        (standing(Objective.SPEED, 1.0021), True),
        (standing(Objective.SPEED, 1.0019), False),
        (standing(Objective.SPEED, 1.2, outcome=Outcome.REJECTED), False),
        (standing(Objective.MEMORY, 1.005), False),
        (standing(Objective.MEMORY, 1.02), True),
        (standing(Objective.BALANCED, 1.1, 1.0), True),
        (standing(Objective.BALANCED, 1.1, 0.9), False),
        (standing(Objective.BALANCED, 0.99, 1.2), True),
        (standing(Objective.BALANCED, 0.9, 1.2), False),
        (standing(Objective.BALANCED, 1.0, 1.0), False),
    ],
)
def test_the_best_moves_for_a_clear_gain_of_the_objective(verdict: Verdict, beats: bool) -> None:
    assert beats_best(verdict, is_first=False, thresholds=Thresholds()) is beats
    assert beats_best(verdict, is_first=True, thresholds=Thresholds()) is (verdict.outcome is Outcome.ACCEPTED)


def test_a_held_out_case_is_spoken_of_where_no_tuning_case_meets_the_target(
    correctness: Callable[..., Correctness], noisy: Maker
) -> None:
    held_out = make_case(7, role=Role.HELD_OUT)
    timings = (
        noisy({"original": 0.1, "v1": 0.05}, case=CASES[0]),
        noisy({"original": 0.1, "v1": 0.08}, case=held_out),
    )
    evidence = Evidence("v1", None, Mode.FULL, correctness(), timings, target=TargetMetric.parse("full < 90 us at M=7"))

    target = decide(evidence, Thresholds()).target
    assert target is not None
    assert (target.met, target.case) == (True, held_out.name)
