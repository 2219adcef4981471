"""Owns the decision on one candidate: the rules in order, the first that applies decides. Pure.

Must not know how anything was measured, nor what is done with a verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.measurement import Timing
from warpsmith.contracts.verdict import CaseSpeedup, GuardrailResult, Outcome, Verdict
from warpsmith.verdict.evidence import Evidence
from warpsmith.verdict.guardrails import (
    compile_guardrails,
    host_time_guardrails,
    memory_guardrails,
    pass_guardrails,
)
from warpsmith.verdict.metrics import Metrics, metrics_of, target_of
from warpsmith.verdict.objectives import Gains, enough, told_speed
from warpsmith.verdict.peaks import unweighed
from warpsmith.verdict.statistics import Comparison, compare, goal_of, holm
from warpsmith.verdict.thresholds import Thresholds

#: Chosen: simulated, a 95% interval over 4 rounds covers 87%, over 6 or more at least 94%.
MIN_ROUNDS = 8
#: Failures that a reason spells out; the rest are counted.
TOLD_FAILURES = 3


def decide(evidence: Evidence, thresholds: Thresholds) -> Verdict:
    """The verdict, with every reason in plain words."""
    if failed := _correctness_failures(evidence) or _run_failures(evidence):
        return _unmeasured(evidence, Outcome.REJECTED, failed)
    if missing := _nothing_to_compare(evidence):
        return _unmeasured(evidence, Outcome.INCONCLUSIVE, missing)
    comparisons = [compare(t, evidence.original, evidence.candidate, seed=evidence.seed) for t in evidence.timings]
    cases = _case_speedups(comparisons, evidence.goal_mode, thresholds)
    weights = evidence.goal_weights
    speed = goal_of(
        [c for c in comparisons if c.mode is evidence.goal_mode and c.case.name in weights], evidence.weights
    )
    guardrails = _guardrails(evidence, cases, thresholds)
    metrics = metrics_of(evidence, speed)
    outcome, reasons = _outcome(evidence, metrics, cases, guardrails, thresholds)
    return Verdict(
        outcome=outcome,
        reasons=reasons,
        goal_mode=evidence.goal_mode,
        noise_floor=evidence.noise_floor,
        cases=cases,
        guardrails=guardrails,
        objective=evidence.objective,
        target=target_of(evidence, cases),
        **metrics.by_objective(evidence.objective),
    )


def too_few_rounds(timings: Sequence[Timing], *sides: str) -> tuple[str, ...]:
    """The comparisons whose rounds do not make an interval of these sides to decide by, each told in words."""
    few: list[str] = []
    for timing in timings:
        if (rounds := len(timing.shared_rounds(*sides))) < MIN_ROUNDS:
            why = "fitted the time cap" if timing.capped else "were measured"
            failed = "".join(f"; {name} fails: {told}" for name, told in timing.failures.items() if name in sides)
            where = f"{timing.case.name}, {timing.mode.value}"
            few.append(f"only {rounds} rounds {why} at {where}, of at least {MIN_ROUNDS}{failed}")
    return tuple(few)


def told_noise_floor(noise_floor: float, thresholds: Thresholds) -> str | None:
    """What to tell of a noise floor that raises the bar; None where the minimum effect stands."""
    if 2 * noise_floor <= thresholds.minimum_effect:
        return None
    return f"noise floor {noise_floor:.2%}: a win must exceed {thresholds.bar(noise_floor) - 1:.2%}"


def _outcome(
    evidence: Evidence,
    metrics: Metrics,
    cases: Sequence[CaseSpeedup],
    guardrails: Sequence[GuardrailResult],
    thresholds: Thresholds,
) -> tuple[Outcome, tuple[str, ...]]:
    then = "kept as inconclusive after a longer run" if evidence.longer else "to be measured longer once"
    if few := too_few_rounds(evidence.timings, evidence.original, evidence.candidate):
        more = len(few) - TOLD_FAILURES
        rest = (f"and {more} more comparisons of too few rounds",) if more > 0 else ()
        return Outcome.INCONCLUSIVE, (*(f"{told}: {then}" for told in few[:TOLD_FAILURES]), *rest)
    goal = metrics.speed
    regressed = [c for c in cases if c.mode is evidence.goal_mode and c.regressed]
    if regressed:
        somewhere_faster = any(c.mode is evidence.goal_mode and c.speedup.low > 1 for c in cases)
        outcome = Outcome.MIXED if somewhere_faster else Outcome.REJECTED
        return outcome, (
            *(_told_regression(c, thresholds) for c in regressed),
            f"over the tuning cases {told_speed(goal)}",
        )
    if broken := [g for g in guardrails if not g.ok]:
        return Outcome.REJECTED, (*(_told_guardrail(g) for g in broken), f"over the tuning cases {told_speed(goal)}")
    sides = evidence.original, evidence.candidate
    missing = unweighed(evidence.memories, evidence.goal_mode, evidence.goal_weights, *sides)
    why = f"{evidence.goal_mode.value} was not weighed at {', '.join(missing)}"
    return enough(evidence.objective, Gains(goal, metrics.memory, evidence.noise_floor, then, why), thresholds)


def _case_speedups(
    comparisons: Sequence[Comparison], goal_mode: Mode, thresholds: Thresholds
) -> tuple[CaseSpeedup, ...]:
    """One family of tests over all cases of all modes; outside the goal the guardrail is the pass trade-off."""
    limits = {True: thresholds.case_regression, False: thresholds.pass_tradeoff}
    adjusted = holm([c.regression_p(limits[c.mode is goal_mode]) for c in comparisons])
    return tuple(
        CaseSpeedup(
            case=c.case.name,
            role=c.case.role,
            mode=c.mode,
            baseline_ms=c.baseline_ms,
            variant_ms=c.contender_ms,
            speedup=c.speedup,
            regression_p=p,
            regressed=p < thresholds.significance,
        )
        for c, p in zip(comparisons, adjusted, strict=True)
    )


def _guardrails(
    evidence: Evidence, cases: Sequence[CaseSpeedup], thresholds: Thresholds
) -> tuple[GuardrailResult, ...]:
    sides = evidence.original, evidence.candidate
    return (
        *pass_guardrails(cases, evidence.goal_mode, thresholds),
        *memory_guardrails(evidence.memories, *sides, thresholds),
        *host_time_guardrails(evidence.host_times, *sides, thresholds),
        *(compile_guardrails(*evidence.compilations, thresholds) if evidence.compilations else ()),
    )


def _correctness_failures(evidence: Evidence) -> tuple[str, ...]:
    if evidence.correctness.passed:
        return ()
    failures = evidence.correctness.failures
    if not failures:
        return ("wrong or unproven: no case was checked",)
    more = len(failures) - TOLD_FAILURES
    told = tuple(f"wrong result: {failure}" for failure in failures[:TOLD_FAILURES])
    return (*told, f"and {more} more failures of the correctness gate") if more > 0 else told


def _run_failures(evidence: Evidence) -> tuple[str, ...]:
    """Where the candidate did not run or compile; but for timings only where the original did."""
    name, original = evidence.candidate, evidence.original
    timed = [
        (t.case, t.mode, t.failures.get(name, "it was not timed, and nothing says why"))
        for t in evidence.timings
        if name in t.failures or (t.shared_rounds(original) and not t.shared_rounds(name))
    ]
    measured = [
        (m.case, m.mode, m.failures[name]) for m in evidence.memories if name in m.failures and original in m.peak_bytes
    ]
    hosted = [
        (h.case, h.mode, h.failures[name])
        for h in evidence.host_times
        if name in h.failures and original in h.samples_us
    ]
    failed = (*timed, *measured, *hosted)
    failures = tuple(f"{name} fails at {case.name}, {mode.value}: {why}" for case, mode, why in failed)
    if evidence.compilations is None:
        return failures
    before, after = evidence.compilations
    if before.unavailable is None and after.unavailable is not None:
        failures += (f"{name} fails to compile from an empty cache: {after.unavailable}",)
    return failures


def _nothing_to_compare(evidence: Evidence) -> tuple[str, ...]:
    original = evidence.original
    failed = tuple(
        f"no comparison: {original} itself fails at {t.case.name}, {t.mode.value}: {t.failures[original]}"
        if original in t.failures
        else f"no comparison: {original} and {evidence.candidate} share no round at {t.case.name}, {t.mode.value}"
        for t in evidence.timings
        if not t.shared_rounds(original, evidence.candidate)
    )
    if failed or evidence.goal_timings:
        return failed
    return (f"no tuning case was timed in the goal mode, {evidence.goal_mode.value}",)


def _unmeasured(evidence: Evidence, outcome: Outcome, reasons: tuple[str, ...]) -> Verdict:
    return Verdict(
        outcome=outcome,
        reasons=reasons,
        goal_mode=evidence.goal_mode,
        noise_floor=evidence.noise_floor,
        objective=evidence.objective,
    )


def _told_regression(case: CaseSpeedup, thresholds: Thresholds) -> str:
    role = "held-out case" if case.role is Role.HELD_OUT else "case"
    return (
        f"{role} {case.case} regressed in {case.mode.value}: {case.baseline_ms:.4g} to {case.variant_ms:.4g} ms, "
        f"{told_speed(case.speedup)}, more than {thresholds.case_regression:.0%} slower "
        f"(adjusted p {case.regression_p:.3f})"
    )


def _told_guardrail(result: GuardrailResult) -> str:
    was, now = _figure(result.baseline, result.unit), _figure(result.variant, result.unit)
    return f"{result.metric}: {was} to {now}; allowed is {result.limit}"


def _figure(value: float, unit: str) -> str:
    return f"{value / 1e6:.1f} MB" if unit == "bytes" else f"{value:.4g} {unit}"
