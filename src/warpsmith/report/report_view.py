"""A report's facts arranged for reading: the headline, the table of cases, the three-way table, limits.

Pure; shared by the Markdown and the HTML report, so that both say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.contracts.aim import Objective
from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import ModeProfile
from warpsmith.contracts.result import AblatedPart, FinalOutcome
from warpsmith.contracts.variant import Variant
from warpsmith.contracts.verdict import CaseSpeedup, Outcome, TargetResult, Verdict
from warpsmith.report import aim_view, profile_view, quantities, sureness_view
from warpsmith.report.advice import advice
from warpsmith.report.answers import answers
from warpsmith.report.context import ReportContext
from warpsmith.report.correctness_view import output_lines
from warpsmith.report.rejection import in_short
from warpsmith.report.rows import ProviderRow, provider_order

OUTCOME_MEANS: dict[FinalOutcome, str] = {
    FinalOutcome.APPLIED: "applied",
    FinalOutcome.NO_IMPROVEMENT: "no improvement found; the kernel stays as it was",
    FinalOutcome.REVERTED: "reverted; the tests failed on the winner and the original is back",
    FinalOutcome.NOT_CONFIRMED: "not confirmed; measured afresh the win did not hold, and the kernel stays as it was",
}

INCONCLUSIVE_AFRESH = "not confirmed; measured afresh the win is inconclusive, and the kernel stays as it was"

#: Of an outcome, told where a variant has it.
INCONCLUSIVE = "Inconclusive: the interval does not tell whether the bar is reached, though it was measured longer."


@dataclass(frozen=True)
class ModeTable:
    """The cases of one mode, tuning first, then held-out."""

    mode: Mode
    tuning: tuple[CaseSpeedup, ...]
    held_out: tuple[CaseSpeedup, ...]
    shares: tuple[float, float] | None


@dataclass(frozen=True)
class ThreeWayTable:
    """Original, optimized and baselines at the tuning cases of one mode; a (time, memory) pair a provider."""

    mode: Mode
    providers: tuple[str, ...]
    lines: tuple[tuple[str, tuple[str, ...]], ...]
    footnotes: tuple[str, ...]


def values(context: ReportContext) -> dict[str, object]:
    """What both report templates are handed."""
    return {
        "context": context,
        "headline": headline(context),
        "summary": (*summary(context), *aim_view.aim_lines(context.request.aim, _target(context))),
        "answers": answers(context),
        "parts_told": parts_told(context.search.parts),
        "conclusions": profile_view.conclusions(context.profile),
        "mode_tables": mode_tables(context),
        "three_way": three_way_tables(context),
        "told": what_came_of_it,
        "lessons": lessons,
        "sureness": sureness_view.sureness(context),
        "correctness": sureness_view.correctness(context),
        "output_lines": output_lines(context.correctness),
        "advice": advice(context),
        "limits": limits(context),
        "cost_notes": sureness_view.cost_notes(context),
        "within_a_row": quantities.WITHIN_A_ROW,
        "inconclusive": _inconclusive(context),
        "origin": quantities.origin_told(context.profile.origin, context.profile.device),
    }


def _target(context: ReportContext) -> TargetResult | None:
    """By the fresh measurement where there was one, else as the search ended."""
    confirmation = context.result.confirmation
    return context.search.target if confirmation is None else confirmation.target


def headline(context: ReportContext) -> str:
    """The outcome in one line, with its figure and GPU where there is one."""
    kernel, confirmation = context.request.kernel, context.result.confirmation
    if context.result.outcome is FinalOutcome.APPLIED and confirmation is not None and confirmation.goal is not None:
        gain = quantities.ratio_interval(confirmation.goal)
        if confirmation.objective is Objective.MEMORY:
            less = f"{quantities.ratio(confirmation.goal.value)} less peak memory"
            return f"{kernel}: applied, {less} in {confirmation.goal_mode.value} on {context.profile.device.name}"
        return f"{kernel}: applied, {gain} as fast in {confirmation.goal_mode.value} on {context.profile.device.name}"
    if context.result.outcome is FinalOutcome.NOT_CONFIRMED and _is_inconclusive(confirmation):
        return f"{kernel}: {INCONCLUSIVE_AFRESH}"
    unsure = [f"v{variant.number}" for variant in context.variants if _is_inconclusive(variant.verdict)]
    if context.result.outcome is FinalOutcome.NO_IMPROVEMENT and unsure:
        return f"{kernel}: no improvement found, {' and '.join(unsure)} inconclusive; the kernel stays as it was"
    return f"{kernel}: {OUTCOME_MEANS[context.result.outcome]}"


def _is_inconclusive(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.outcome is Outcome.INCONCLUSIVE


def summary(context: ReportContext) -> tuple[str, str, str]:
    """Three lines: what came out, how far from the ceiling it is, what was tried."""
    count = len(context.variants)
    tried = f"Tried {count} variant{'' if count == 1 else 's'}; stopped: {context.search.stop_reason.rstrip('.')}."
    winner = context.winner
    made_of = " on ".join(quantities.words(each.strategy) for each, _ in reversed(context.winning_changes))
    what = f"Winner: v{winner.number}, {made_of}." if winner else "No variant beat the original."
    return f"{what} {_sentence(context.result.reason)}", _ceiling_line(context), tried


def _ceiling_line(context: ReportContext) -> str:
    """Before and after where the winner was measured afresh, else what the profile says of the original."""
    shares = {mode: context.share_before_and_after(mode) for mode in context.modes}
    known = {mode.value: each for mode, each in shares.items() if each is not None}
    if not known:
        return _profile_line(context)
    told = (f"{mode} {quantities.percent(a)} and {quantities.percent(b)}" for mode, (a, b) in known.items())
    return f"Share of the ceiling, original and winner: {', '.join(told)}."


def _profile_line(context: ReportContext) -> str:
    shares = [f"{m.mode.value} {_share(m)} ({quantities.words(m.bottleneck.value)})" for m in context.profile.modes]
    return f"Share of the ceiling that the original reaches: {', '.join(shares)}."


def _share(mode: ModeProfile) -> str:
    if mode.share_of_ceiling is not None:
        return f"at {quantities.percent(mode.share_of_ceiling)}"
    return "is not known" if any(h.time_ms is not None for h in mode.headrooms) else "was not timed"


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def mode_tables(context: ReportContext) -> tuple[ModeTable, ...]:
    tables = []
    for mode in context.modes:
        cases = [c for c in context.speedups if c.mode is mode]
        tuning = tuple(c for c in cases if c.role is Role.TUNING)
        held_out = tuple(c for c in cases if c.role is Role.HELD_OUT)
        if cases:
            tables.append(ModeTable(mode, tuning, held_out, context.share_before_and_after(mode)))
    return tuple(tables)


def three_way_tables(context: ReportContext) -> tuple[ThreeWayTable, ...]:
    tables = []
    for mode in Mode:
        rows = [row for row in context.rows if row.mode is mode and row.role is Role.TUNING]
        if rows:
            tables.append(_three_way(mode, rows))
    return tuple(tables)


def _three_way(mode: Mode, rows: list[ProviderRow]) -> ThreeWayTable:
    providers = tuple(sorted({row.provider for row in rows}, key=provider_order))
    by_key = {(row.case, row.provider): row for row in rows}
    lines = tuple(
        (case, tuple(_three_way_cell(by_key.get((case, provider))) for provider in providers))
        for case in dict.fromkeys(row.case for row in rows)
    )
    usual = next((row.method for row in rows if row.provider == ORIGINAL), None)
    others = {
        row.provider: "" if row.method is usual else f" by {quantities.method(row.method.value)},"
        for row in rows
        if row.apart or row.method is not usual
    }
    footnotes = [f"{name} was timed{how} in a comparison of its own." for name, how in others.items()]
    return ThreeWayTable(mode, providers, lines, tuple(footnotes))


def _three_way_cell(row: ProviderRow | None) -> str:
    if row is None:
        return "not measured"
    if row.time_ms is None:
        return f"none: {row.unavailable}"
    peak = "" if row.peak_bytes is None else f", {quantities.size(row.peak_bytes)}"
    return f"{quantities.time_interval(row.time_ms)}{peak}"


def what_came_of_it(variant: Variant) -> str:
    """A variant's end in a few words: its reasons where it was judged, else how far it came."""
    if variant.verdict is not None:
        return "; ".join(variant.verdict.reasons) or variant.verdict.outcome.value
    if variant.examination is not None:
        return in_short(variant.examination)
    return variant.detail or f"{quantities.words(variant.status.value)}, no result yet"


def lessons(variant: Variant) -> tuple[str, ...]:
    """What it taught beyond how it ended."""
    ended = {what_came_of_it(variant), *(variant.verdict.reasons if variant.verdict else ())}
    return tuple(each for each in variant.learnings if each.removeprefix(f"{variant.status.value}: ") not in ended)


def _inconclusive(context: ReportContext) -> str | None:
    """What that outcome means, where a variant has it."""
    verdicts = [variant.verdict for variant in context.variants if variant.verdict is not None]
    return INCONCLUSIVE if any(verdict.outcome is Outcome.INCONCLUSIVE for verdict in verdicts) else None


def limits(context: ReportContext) -> tuple[str, ...]:
    """Where the result holds: GPU, hull of the searched shapes, dtypes, versions."""
    device, environment = context.profile.device, context.profile.device.environment
    tuning = dict.fromkeys(b.case for b in context.profile.baselines if b.role is Role.TUNING)
    has_table = context.winner is not None and bool(context.winner.chosen_settings)
    bound = (
        "; on a GPU of another compute capability or SM count the winner's table leaves the original expressions"
        if has_table
        else ""
    )
    hull = "; outside their hull the table leaves the original expressions" if has_table else ""
    lines = [
        f"GPU: {device.name}, compute capability {device.capability[0]}.{device.capability[1]}, "
        f"{device.sm_count} SMs{bound}."
    ]
    if tuning:
        lines.append(f"Searched on: {', '.join(map(quantities.case_label, tuning))}{hull}.")
    lines.append(
        f"Versions: driver {environment.driver}, CUDA {environment.cuda}, torch {environment.torch}, "
        f"triton {environment.triton}, ptxas {environment.ptxas or 'unknown'}"
        f"{', ' + environment.packages_told if environment.packages else ''}."
    )
    if context.shared_with:
        processes = ", ".join(map(str, context.shared_with))
        lines.append(f"Other processes computed on the GPU during the run ({processes}): figures may be off.")
    return tuple(lines)


def parts_told(parts: Sequence[AblatedPart]) -> str | None:
    """What each part of the search's winner brought when it was removed once; None where it had one part alone."""
    if not parts:
        return None
    brings = [p.detail or (quantities.ratio_interval(p.gain) if p.needed else "nothing beyond noise") for p in parts]
    told = "; ".join(f"{part.name}: {each}" for part, each in zip(parts, brings, strict=True))
    return f"Each part was removed once in the search, and timed beside the whole. It brings: {told}."
