"""The rules of a verdict, each decided by the figures that should decide it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from warpsmith.contracts.case import Case, Mode, Role
from warpsmith.contracts.measurement import Compilation, Correctness, HostTime, Memory, Timing
from warpsmith.contracts.verdict import GuardrailResult, Outcome, Verdict
from warpsmith.verdict.decision import MIN_ROUNDS, decide, told_noise_floor
from warpsmith.verdict.evidence import Evidence
from warpsmith.verdict.statistics import pooled
from warpsmith.verdict.thresholds import Thresholds

Maker = Callable[..., Timing]
Cases = Callable[..., Case]
Weigh = Callable[..., Verdict]


@pytest.fixture
def evidence(correctness: Callable[..., Correctness]) -> Evidence:
    return Evidence("v1", None, Mode.FULL, correctness(), noise_floor=0.001)


@pytest.fixture
def weigh(evidence: Evidence, noisy: Maker, case: Cases) -> Weigh:
    """The verdict on a candidate with these speed-ups at the tuning cases in the goal mode."""

    def verdict(*speedups: float, noise: float = 0.003, **changes: object) -> Verdict:
        timings = tuple(
            noisy({"original": 0.1, "v1": 0.1 / gain}, noise=noise, seed=index, case=case(1024 * (index + 1)))
            for index, gain in enumerate(speedups)
        )
        more = changes.pop("timings", ())
        return decide(replace(evidence, timings=timings + more, **changes), Thresholds())  # type: ignore[operator,arg-type]

    return verdict


def test_a_clear_gain_is_accepted_with_its_figures(weigh: Weigh) -> None:
    verdict = weigh(1.2, 1.1)

    assert verdict.outcome is Outcome.ACCEPTED
    assert verdict.goal is not None and verdict.goal.value == pytest.approx(math.sqrt(1.2 * 1.1), rel=0.003)
    assert verdict.reasons == (
        f"{verdict.goal.value:.3f}× [{verdict.goal.low:.3f}, {verdict.goal.high:.3f}] the original over the tuning "
        "cases, at or above the bar of 1.010× (minimum effect 1.0%)",
    )
    assert [(c.case, c.regressed) for c in verdict.cases] == [("1024x4096-bf16", False), ("2048x4096-bf16", False)]


def test_a_wrong_result_is_rejected_whatever_the_speed(weigh: Weigh, correctness: Callable[..., Correctness]) -> None:
    verdict = weigh(3.0, correctness=correctness("dx: rms 0.3", "dw: NaN", "a", "b", "c"))

    assert verdict.outcome is Outcome.REJECTED
    assert verdict.goal is None
    assert verdict.reasons == (
        "wrong result: 8192x4096-bf16, values: dx: rms 0.3",
        "wrong result: 8192x4096-bf16, values: dw: NaN",
        "wrong result: 8192x4096-bf16, values: a",
        "and 2 more failures of the correctness gate",
    )


def test_a_candidate_that_no_case_checked_is_rejected(weigh: Weigh) -> None:
    verdict = weigh(2.0, correctness=Correctness(source_sha256="0" * 64, checks=()))

    assert (verdict.outcome, verdict.reasons) == (Outcome.REJECTED, ("wrong or unproven: no case was checked",))


def test_a_candidate_that_fails_at_one_case_is_rejected_by_name(weigh: Weigh, timing: Maker, case: Cases) -> None:
    broken = timing({"original": [1.0]}, case=case(7, role=Role.HELD_OUT), failures={"v1": "illegal address"})

    verdict = weigh(2.0, timings=(broken,))

    assert verdict.outcome is Outcome.REJECTED
    assert verdict.reasons == ("v1 fails at 7x4096-bf16, full: illegal address",)


def test_a_candidate_that_runs_out_of_memory_where_the_original_does_not_is_rejected(weigh: Weigh, case: Cases) -> None:
    memory = Memory(case=case(), mode=Mode.FULL, peak_bytes={"original": 10}, failures={"v1": "out of memory"})

    assert weigh(2.0, memories=(memory,)).reasons == ("v1 fails at 8192x4096-bf16, full: out of memory",)


def test_a_candidate_that_fails_when_called_in_a_row_as_the_original_is_rejected(weigh: Weigh, case: Cases) -> None:
    failures = {"v1": "runtime_failed: ValueError: again"}
    host = HostTime(case=case(), mode=Mode.FORWARD, samples_us={"original": (20.0,)}, failures=failures)

    assert weigh(2.0, host_times=(host,)).reasons == (
        "v1 fails at 8192x4096-bf16, forward: runtime_failed: ValueError: again",
    )


def compilation(case: Case, cold_s: float | None) -> Compilation:
    """None: it does not compile."""
    if cold_s is None:
        return Compilation(source_sha256="0" * 64, case=case, unavailable="compile_failed: no")
    return Compilation(source_sha256="0" * 64, case=case, cold_s=(cold_s,), specializations={"kernel": 1})


@pytest.mark.parametrize(
    ("original_s", "variant_s", "outcome", "reason"),
    [
        (1.0, None, Outcome.REJECTED, "v1 fails to compile from an empty cache: compile_failed: no"),
        (None, None, Outcome.ACCEPTED, None),
        (1.0, 1.1, Outcome.ACCEPTED, None),
        (
            1.0,
            1.6,
            Outcome.REJECTED,
            "cold compile time (least of 1), 8192x4096-bf16: 1 s to 1.6 s; allowed is at most 50% or 0.2 s more",
        ),
    ],
)
def test_a_winner_has_to_compile_from_an_empty_cache_in_about_the_time_that_the_original_takes(
    weigh: Weigh,
    case: Cases,
    original_s: float | None,
    variant_s: float | None,
    outcome: Outcome,
    reason: str | None,
) -> None:
    verdict = weigh(1.5, compilations=(compilation(case(), original_s), compilation(case(), variant_s)))

    assert verdict.outcome is outcome
    assert reason is None or verdict.reasons[0] == reason


def test_without_a_comparison_there_is_no_verdict(weigh: Weigh, timing: Maker) -> None:
    failing = timing({"v1": [1.0]}, failures={"original": "timeout"})

    assert weigh().outcome is Outcome.INCONCLUSIVE
    assert weigh().reasons == ("no tuning case was timed in the goal mode, full",)
    assert weigh(1.5, timings=(failing,)).reasons == (
        "no comparison: original itself fails at 8192x4096-bf16, full: timeout",
    )


def test_one_case_slower_by_more_than_the_guardrail_is_mixed_and_named(weigh: Weigh) -> None:
    verdict = weigh(1.5, 0.95, 1.5)

    assert verdict.outcome is Outcome.MIXED
    assert [c.case for c in verdict.cases if c.regressed] == ["2048x4096-bf16"]
    assert verdict.reasons[0].startswith("case 2048x4096-bf16 regressed in full: 0.1001 to 0.1053 ms, 0.950× [")


def test_a_held_out_case_judges_but_is_no_part_of_the_goal(weigh: Weigh, noisy: Maker, case: Cases) -> None:
    held_out = noisy({"original": 0.1, "v1": 0.2}, case=case(64, role=Role.HELD_OUT))

    verdict = weigh(1.5, timings=(held_out,))

    assert verdict.outcome is Outcome.MIXED
    assert verdict.goal is not None and verdict.goal.value == pytest.approx(1.5, rel=0.003)
    assert verdict.reasons[0].startswith("held-out case 64x4096-bf16 regressed")


def test_slower_by_less_than_the_guardrail_is_no_regression(weigh: Weigh) -> None:
    assert weigh(1.5, 0.985).outcome is Outcome.ACCEPTED


def test_slower_wherever_it_is_not_equal_is_rejected_not_mixed(weigh: Weigh) -> None:
    assert weigh(0.9, 0.8).outcome is Outcome.REJECTED


def test_a_regression_is_found_among_as_many_tests_as_a_large_target_has(weigh: Weigh) -> None:
    verdict = weigh(*([1.05] * 119), 0.9)

    assert [c.case for c in verdict.cases if c.regressed] == ["122880x4096-bf16"]


def test_one_pass_that_pays_for_the_other_is_rejected(weigh: Weigh, noisy: Maker) -> None:
    forward = noisy({"original": 0.1, "v1": 0.115}, mode=Mode.FORWARD)

    verdict = weigh(1.5, timings=(forward,))

    assert verdict.outcome is Outcome.REJECTED
    assert verdict.reasons[0].startswith("forward time at its worst case, 8192x4096-bf16: 0.09995 ms to 0.115 ms;")
    assert [g.ok for g in verdict.guardrails] == [False]


def test_a_pass_slower_within_the_trade_off_is_allowed(weigh: Weigh, noisy: Maker) -> None:
    assert weigh(1.5, timings=(noisy({"original": 0.1, "v1": 0.108}, mode=Mode.FORWARD),)).outcome is Outcome.ACCEPTED


def test_memory_and_host_time_are_guardrails_of_a_winner(weigh: Weigh, case: Cases) -> None:
    memory = Memory(case=case(), mode=Mode.FULL, peak_bytes={"original": 100, "v1": 106})
    host = HostTime(case=case(), mode=Mode.FORWARD, samples_us={"original": (20.0,), "v1": (24.0,)})

    verdict = weigh(1.5, memories=(memory,), host_times=(host,))

    assert verdict.outcome is Outcome.REJECTED
    assert verdict.guardrails == (
        GuardrailResult(
            metric="largest memory of a call in full, 8192x4096-bf16",
            baseline=100,
            variant=106,
            unit="bytes",
            limit="at most 5% more, inputs included",
            ok=False,
        ),
        GuardrailResult(
            metric="host time a call (lower quartile), 8192x4096-bf16 forward",
            baseline=20,
            variant=24,
            unit="us",
            limit="at most 10% or 3 us more",
            ok=False,
        ),
    )


def test_equal_speed_is_no_gain(weigh: Weigh) -> None:
    verdict = weigh(1.0, 1.0)

    assert verdict.outcome is Outcome.REJECTED
    assert verdict.reasons[0].startswith("no gain: ")


def test_an_interval_across_the_bar_is_inconclusive_and_says_whether_it_was_measured_longer(weigh: Weigh) -> None:
    first, longer = weigh(1.005, noise=0.02), weigh(1.005, noise=0.02, longer=True)

    assert (first.outcome, longer.outcome) == (Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE)
    assert first.reasons[0].endswith("is reached: to be measured longer once")
    assert longer.reasons[0].endswith("is reached: kept as inconclusive after a longer run")


def test_a_gain_above_the_bar_whose_interval_reaches_one_is_inconclusive(weigh: Weigh) -> None:
    verdict = weigh(1.06, noise=0.08)

    assert verdict.goal is not None and verdict.goal.low < 1 and verdict.goal.value > 1.01
    assert verdict.outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(("capped", "why"), [(True, "fitted the time cap"), (False, "were measured")])
@pytest.mark.parametrize(
    ("longer", "then"), [(False, "to be measured longer once"), (True, "kept as inconclusive after a longer run")]
)
@pytest.mark.parametrize("gain", [2.0, 1.0, 0.5])
def test_too_few_rounds_decide_nothing_and_name_the_case(
    weigh: Weigh, noisy: Maker, case: Cases, gain: float, capped: bool, why: str, longer: bool, then: str
) -> None:
    few = noisy({"original": 0.1, "v1": 0.1 / gain}, rounds=5, case=case(7)).model_copy(update={"capped": capped})

    verdict = weigh(1.5, timings=(few,), longer=longer)

    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.reasons == (f"only 5 rounds {why} at 7x4096-bf16, full, of at least 8: {then}",)


def test_the_rounds_that_count_are_those_that_both_sides_ran(weigh: Weigh, timing: Maker, case: Cases) -> None:
    few = {"original": [0.1] * (MIN_ROUNDS - 1), "v1": [0.05] * (MIN_ROUNDS - 1)}
    apart = pooled(timing(few, case=case(7)), timing({"original": [0.1] * MIN_ROUNDS}, case=case(7)))
    together = timing({"original": [0.1] * MIN_ROUNDS, "v1": [0.05] * MIN_ROUNDS}, case=case(7))

    assert weigh(timings=(apart,)).outcome is Outcome.INCONCLUSIVE
    assert weigh(timings=(together,)).outcome is Outcome.ACCEPTED


def test_a_candidate_that_is_neither_timed_nor_failed_is_rejected_and_so_named(
    weigh: Weigh, timing: Maker, case: Cases
) -> None:
    absent = timing({"original": [0.1] * MIN_ROUNDS}, case=case(7))

    verdict = weigh(1.5, timings=(absent,))

    assert verdict.outcome is Outcome.REJECTED
    why = "v1 fails at 7x4096-bf16, full: it was not timed, and nothing says why"
    assert verdict.reasons == (why,)


@pytest.mark.parametrize("rest", [{}, {"original": [0.1] * MIN_ROUNDS}])
def test_sides_that_share_no_round_are_not_compared(
    weigh: Weigh, timing: Maker, case: Cases, rest: dict[str, list[float]]
) -> None:
    alone = timing({"v1": [0.1] * MIN_ROUNDS}, case=case(7))
    apart = pooled(alone, timing(rest, case=case(7)))

    verdict = weigh(1.5, timings=(apart,))

    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.reasons == ("no comparison: original and v1 share no round at 7x4096-bf16, full",)


def test_a_best_that_is_missing_beside_the_candidate_gives_no_gain_over_it(weigh: Weigh) -> None:
    verdict = weigh(1.5, best="v0")

    assert (verdict.outcome, verdict.over_best) == (Outcome.ACCEPTED, None)


def test_held_out_cases_alone_make_no_goal(weigh: Weigh, noisy: Maker, case: Cases) -> None:
    held_out = noisy({"original": 0.1, "v1": 0.05}, case=case(64, role=Role.HELD_OUT))

    assert weigh(timings=(held_out,)).outcome is Outcome.INCONCLUSIVE


def test_a_win_must_pass_twice_the_noise_floor(weigh: Weigh) -> None:
    assert weigh(1.03, noise_floor=0.001).outcome is Outcome.ACCEPTED
    assert weigh(1.03, noise_floor=0.03).outcome is Outcome.REJECTED
    assert "twice the noise floor of 3.00%" in weigh(1.03, noise_floor=0.03).reasons[0]


@pytest.mark.parametrize(
    ("floor", "told"), [(0.005, None), (0.007, "noise floor 0.70%: a win must exceed 1.40%"), (0.0, None)]
)
def test_a_noise_floor_is_told_where_it_raises_the_bar(floor: float, told: str | None) -> None:
    assert told_noise_floor(floor, Thresholds()) == told


def test_the_gain_over_the_best_is_there_when_the_best_ran_beside(weigh: Weigh, noisy: Maker) -> None:
    beside = noisy({"original": 0.1, "v0": 0.08, "v1": 0.05})

    over_best = weigh(timings=(beside,), best="v0").over_best

    assert over_best is not None and over_best.value == pytest.approx(1.6, rel=0.003)
    assert weigh(1.5, timings=(beside,), best="v0").over_best is None


def test_a_verdict_is_the_same_bytes_every_time(weigh: Weigh) -> None:
    assert weigh(1.2, 0.9).model_dump_json() == weigh(1.2, 0.9).model_dump_json()
