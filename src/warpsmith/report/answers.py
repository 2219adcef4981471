"""What a maintainer asks first of a run, answered in words: what changed, what it brings, how sure, at what cost.

Pure; the tables further down a report have the figures case by case. Must not know how a page is laid out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warpsmith.contracts.aim import Objective
from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.device import OriginKind
from warpsmith.contracts.measurement import OPTIMIZED, ORIGINAL
from warpsmith.contracts.result import FinalOutcome
from warpsmith.contracts.verdict import CaseSpeedup, Verdict
from warpsmith.report import quantities
from warpsmith.report.context import ReportContext
from warpsmith.report.cost_answer import what_it_costs
from warpsmith.report.diff import change_size


@dataclass(frozen=True)
class Answer:
    """Code is between backticks."""

    question: str
    told: str


def answers(context: ReportContext) -> tuple[Answer, ...]:
    return (
        Answer("What changed", _what_changed(context)),
        Answer("How much it brings, where", _how_much(context)),
        Answer("How sure", _how_sure(context)),
        Answer("What it costs", what_it_costs(context)),
        Answer("How to undo it", _undo(context)),
    )


def _what_changed(context: ReportContext) -> str:
    source, winner = f"`{context.profile.source}`", context.winner
    if winner is None:
        return f"Nothing: {source} is as it was."
    by_number = {variant.number: variant for variant in context.variants}
    below = by_number.get(winner.based_on)
    on = f", on top of v{below.number}, {below.title}" if below else ""
    size = change_size(context.diff)
    lines = f" {quantities.count(size.added, 'line')} added, {size.removed} removed." if context.diff else ""
    if context.applied:
        return f"v{winner.number}, {winner.title}{on}, in {source}.{lines}"
    became = {
        FinalOutcome.REVERTED: "was put in and taken out again when the kernel's tests failed on it",
        FinalOutcome.NOT_CONFIRMED: "was not put in",
    }[context.result.outcome]
    return f"Nothing: {source} is as it was. The winner of the search, v{winner.number}, {winner.title}{on}, {became}."


def _how_much(context: ReportContext) -> str:
    confirmation = context.result.confirmation
    if confirmation is None:
        return _best_of_the_search(context)
    goal = [c for c in context.speedups if c.mode is confirmation.goal_mode]
    tuning, held_out = (_of_role(goal, role) for role in (Role.TUNING, Role.HELD_OUT))
    told = [] if context.applied else ["Nothing, as it is not in the kernel. Measured afresh:"]
    told.append(_gain(confirmation, tuning))
    others = [f"{mode.value} {_ends(_of_role(_of_mode(context, mode), Role.TUNING))}" for mode in _others(context)]
    if others:
        told.append(f"At the same cases {', '.join(others)}.")
    if held_out:
        told.append(f"At {quantities.count(len(held_out), 'held-out case')} {_range(held_out)}.")
    told += [_slower(context.speedups), *_beside_baselines(context, confirmation.goal_mode)]
    return " ".join(told)


def _gain(confirmation: Verdict, tuning: Sequence[CaseSpeedup]) -> str:
    mode = confirmation.goal_mode.value
    if confirmation.goal is None:
        return f"In {mode} the goal metric could not be measured."
    gain = quantities.ratio_interval(confirmation.goal)
    if confirmation.objective is Objective.MEMORY:
        return f"The original's peak memory in {mode} is {gain} the winner's; its time is {_range(tuning)}."
    memory = "" if confirmation.memory is None else f", with {quantities.ratio(confirmation.memory.value)} less memory"
    return f"{gain} as fast in {mode}{memory} over {quantities.count(len(tuning), 'tuning case')}: {_range(tuning)}."


def _best_of_the_search(context: ReportContext) -> str:
    timed = [v for v in context.variants if v.verdict is not None and v.verdict.goal is not None]
    if not timed:
        return "Nothing: no variant came as far as being timed."
    best = max(timed, key=lambda v: v.verdict.goal.value if v.verdict and v.verdict.goal else 0.0)
    assert best.verdict is not None
    figure = quantities.ratio_interval(best.verdict.goal)
    reasons = "; ".join(best.verdict.reasons)
    return f"Nothing. The best that was timed, v{best.number}, {best.title}, was at {figure} in the search: {reasons}."


def _range(cases: Sequence[CaseSpeedup]) -> str:
    """From the least to the most, and at which cases."""
    if not cases:
        return "not measured"
    least, most = min(cases, key=lambda c: c.speedup.value), max(cases, key=lambda c: c.speedup.value)
    if least is most:
        return f"{quantities.ratio(most.speedup.value)} at {quantities.case_label(most.case)}"
    ends = (f"{quantities.ratio(c.speedup.value)} ({quantities.case_label(c.case)})" for c in (least, most))
    return f"from {' to '.join(ends)}"


def _ends(cases: Sequence[CaseSpeedup]) -> str:
    if not cases:
        return "not measured"
    values = [c.speedup.value for c in cases]
    return " to ".join(dict.fromkeys(quantities.ratio(value) for value in (min(values), max(values))))


def _slower(cases: Sequence[CaseSpeedup]) -> str:
    slower = [c for c in cases if c.speedup.high < 1]
    if not slower:
        return f"None of the {len(cases)} pairs of case and mode is measurably slower."
    worst = min(slower, key=lambda c: c.speedup.value)
    place = f"{quantities.case_label(worst.case)} in {worst.mode.value}"
    count = f"{len(slower)} of the {len(cases)} pairs of case and mode {'is' if len(slower) == 1 else 'are'}"
    return f"{count} measurably slower, at most {place} at {quantities.ratio(worst.speedup.value)}."


def _beside_baselines(context: ReportContext, mode: Mode) -> list[str]:
    """At how many tuning cases the winner is the fastest of all that were timed. Nothing without a baseline."""
    times: dict[str, dict[str, float]] = {}
    for row in context.rows:
        if row.mode is mode and row.role is Role.TUNING and row.time_ms is not None and row.provider != ORIGINAL:
            times.setdefault(row.case, {})[row.provider] = row.time_ms.value
    compared = [found for found in times.values() if OPTIMIZED in found and len(found) > 1]
    if not compared:
        return []
    fastest = sum(found[OPTIMIZED] == min(found.values()) for found in compared)
    names = sorted({name for found in compared for name in found} - {OPTIMIZED})
    where = f"{fastest} of {quantities.count(len(compared), 'tuning case')} in {mode.value}"
    return [f"Faster than {', '.join(names)} at {where}."]


def _how_sure(context: ReportContext) -> str:
    told = [_confirmed(context)]
    if context.search.noise_floor is not None:
        told.append(f"The noise floor of the goal is {100 * context.search.noise_floor:.2f}%.")
    if context.correctness is not None:
        failed, count = sum(bool(c.failures) for c in context.correctness.checks), len(context.correctness.checks)
        told.append(
            f"Wrong at {failed} of {count} cases." if failed else f"Correct at all {count} cases against float64."
        )
        unclean = [each for each in context.correctness.sanitizations if not each.clean]
        told += [f"{str(each)[:1].upper()}{str(each)[1:]}." for each in unclean]
    if (tests := context.result.tests) is not None:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in tests.counts.items())
        told.append(f"The kernel's own tests {'passed' if tests.passed else 'failed'}: {counts}.")
    if context.profile.origin.kind is not OriginKind.MEASURED:
        told.append(f"Every figure is {quantities.origin_told(context.profile.origin, context.profile.device)}.")
    return " ".join(told)


def _confirmed(context: ReportContext) -> str:
    confirmation = context.result.confirmation
    if confirmation is None:
        timed = [v for v in context.variants if v.verdict is not None]
        of_all = f"{len(timed)} of {quantities.count(len(context.variants), 'variant')}"
        return f"{of_all} came as far as being timed, in turn with the original; nothing had to be measured afresh."
    afresh = "in new processes, on inputs that no search has seen"
    if context.result.outcome is not FinalOutcome.NOT_CONFIRMED:
        return f"Measured afresh {afresh}; the goal in three of them."
    winner = context.winner.verdict if context.winner else None
    was = (
        f"The search had found {quantities.ratio_interval(winner.goal)}" if winner and winner.goal else "The search won"
    )
    return f"{was}; measured afresh {afresh}, it is {confirmation.outcome.value}: {'; '.join(confirmation.reasons)}."


def _undo(context: ReportContext) -> str:
    if context.revert_commands:
        return " and then ".join(f"`{command}`" for command in context.revert_commands)
    return "There is nothing to undo."


def _others(context: ReportContext) -> tuple[Mode, ...]:
    return tuple(mode for mode in context.modes if mode is not context.request.goal and _of_mode(context, mode))


def _of_mode(context: ReportContext, mode: Mode) -> list[CaseSpeedup]:
    return [c for c in context.speedups if c.mode is mode]


def _of_role(cases: Iterable[CaseSpeedup], role: Role) -> list[CaseSpeedup]:
    return [c for c in cases if c.role is role]
