"""What to do next, by what a run found: what is left to win, what was not tried, what stood in the way.

Pure; every sentence rests on a figure or a reason that the report has. Must not know how a page is laid out.
"""

from __future__ import annotations

from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import Headroom
from warpsmith.contracts.result import FinalOutcome
from warpsmith.contracts.variant import Variant
from warpsmith.contracts.verdict import Outcome
from warpsmith.report import quantities
from warpsmith.report.context import ReportContext
from warpsmith.report.profile_view import promises

#: Chosen: from this share of the ceiling on, little is left of a pass.
NEAR_CEILING = 0.9


def advice(context: ReportContext) -> tuple[str, ...]:
    """A sentence or two a line, what is most urgent first."""
    return (
        *_by_outcome(context),
        *_left_to_win(context),
        *_not_tried(context),
        *_stopped_by_a_guardrail(context),
        *_undecided(context),
        *_launch_bound(context),
        *_elsewhere(context),
    )


def _by_outcome(context: ReportContext) -> tuple[str, ...]:
    kernel, winner = context.request.kernel, context.result.winner
    if context.result.outcome is FinalOutcome.REVERTED:
        return (
            f"See which test fails on `{kernel}_v{winner}.py`: where the test is right, the correctness cases of the "
            "target lack what it looks at, and a case like it keeps such a winner from being one.",
        )
    if context.result.outcome is FinalOutcome.NOT_CONFIRMED:
        return (
            f"Search again on a GPU that nothing else uses, with `warpsmith run {kernel} --fresh`: what was won in the "
            "search and not afresh is noise, or a gain that only some processes have.",
        )
    return ()


def _left_to_win(context: ReportContext) -> tuple[str, ...]:
    """A line a pass that has something left below its ceiling, at the case with most of it."""
    fresh_ms = {(c.case, c.mode): c.variant_ms for c in context.speedups} if context.applied else {}
    lines = []
    passes = [mode for mode in context.profile.modes if mode.mode in context.request.goal.passes]
    for mode in passes:
        left = [each for h in mode.headrooms if (each := _left(h, fresh_ms.get((h.case, mode.mode), h.time_ms)))]
        if not left:
            continue
        _, time_ms, headroom = max(left, key=lambda each: each[0])
        share = headroom.least_ms / time_ms
        if share >= NEAR_CEILING:
            lines.append(f"{mode.mode.value} is near its ceiling where most of its time goes: leave it alone.")
            continue
        lines.append(
            f"{mode.mode.value} has most left at {quantities.case_label(headroom.case)}: {quantities.time(time_ms)} a "
            f"call, where the ceiling allows {quantities.time(headroom.least_ms)} ({quantities.percent(share)})."
        )
    return tuple(lines)


def _left(headroom: Headroom, time_ms: float | None) -> tuple[float, float, Headroom] | None:
    """What the ceiling would save, weighted, with the time that it would be saved of. None where nothing was timed."""
    return None if time_ms is None else (headroom.weight * (time_ms - headroom.least_ms), time_ms, headroom)


def _not_tried(context: ReportContext) -> tuple[str, ...]:
    tried = {variant.strategy for variant in context.variants}
    left = [r for r in context.profile.recommendations if r.strategy not in tried and promises(r)]
    if not left:
        return ()
    told = ", ".join(
        f"{quantities.words(r.strategy)} ({quantities.predicted_range(r.predicted_low, r.predicted_high)})"
        for r in left
    )
    more = context.request.max_variants + len(left)
    command = f"warpsmith run {context.request.kernel} --fresh --max-variants {more}"
    return (f"The profile recommends what was not tried: {told}. `{command}` goes further.",)


def _stopped_by_a_guardrail(context: ReportContext) -> tuple[str, ...]:
    """Variants faster than what was found in the end, that a metric outside the goal kept out."""
    won = context.result.confirmation.goal if context.applied and context.result.confirmation else None
    bar = won.value if won else 1.0
    lines = []
    for variant in context.unsuccessful:
        verdict = variant.verdict
        if verdict is None or verdict.goal is None or verdict.goal.low <= bar:
            continue
        over = [rail.metric for rail in verdict.guardrails if not rail.ok]
        if over:
            lines.append(
                f"v{variant.number} is at {quantities.ratio(verdict.goal.value)} and was kept out by "
                f"{'; '.join(over)}. Where that is no loss to you, its limit stands in "
                "`warpsmith.yaml` under `guardrails`."
            )
    return tuple(lines)


def _undecided(context: ReportContext) -> tuple[str, ...]:
    unsure = [v for v in context.variants if v.verdict is not None and v.verdict.outcome is Outcome.INCONCLUSIVE]
    if not unsure:
        return ()
    names = " and ".join(_named(variant) for variant in unsure)
    is_are = "is" if len(unsure) == 1 else "are"
    return (f"{names} {is_are} undecided: a run on a GPU that nothing else uses, with its clocks locked, may tell.",)


def _launch_bound(context: ReportContext) -> tuple[str, ...]:
    bound = [row for row in context.profile.launch_overheads if row.is_launch_bound and row.provider == ORIGINAL]
    if not bound:
        return ()
    places = " and ".join(f"{quantities.case_label(row.case)} in {row.mode.value}" for row in bound)
    return (
        f"Calls in a row of {places} go at the host's pace: there a faster kernel changes nothing, and a CUDA graph or "
        "fewer launches do.",
    )


def _elsewhere(context: ReportContext) -> tuple[str, ...]:
    command = f"`warpsmith run {context.request.kernel} --fresh`"
    if context.applied and any(variant.chosen_settings for variant, _ in context.winning_changes):
        return (f"On another GPU the table of settings does nothing: run {command} there.",)
    return (f"What holds on {context.profile.device.name} need not hold on another GPU: run {command} there.",)


def _named(variant: Variant) -> str:
    return f"v{variant.number}, {variant.title}"
