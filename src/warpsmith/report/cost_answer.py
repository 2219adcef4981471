"""What a winner costs beside its gain, in a sentence a metric: memory, compiling, host time, lines to read. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from warpsmith.contracts.verdict import GuardrailResult
from warpsmith.report import quantities
from warpsmith.report.context import ReportContext
from warpsmith.report.diff import change_size

#: Chosen: names of a module's new functions and values that one line can take.
NAMES_SHOWN = 6
#: A figure that grew by less is told as the same: half of what two digits of a per cent show.
SAME = 0.0005


def what_it_costs(context: ReportContext) -> str:
    confirmation = context.result.confirmation
    if not context.applied or confirmation is None:
        return "Nothing: the kernel is as it was."
    rails = confirmation.guardrails
    groups = ("largest memory of a call", "cold compile time", "host time a call", "specializations")
    told = [line for group in groups if (line := _worst([r for r in rails if r.metric.startswith(group)], group))]
    unknown = [group for group in groups if not any(r.metric.startswith(group) for r in rails)]
    if unknown:
        told.append(f"Not measured: {', '.join(unknown)}.")
    return " ".join([*told, _to_read(context)])


def _worst(rails: Iterable[GuardrailResult], group: str) -> str | None:
    """The one of a group that grew most, or that none of it grew."""
    found = list(rails)
    if not found:
        return None
    worst = max(found, key=_growth)
    name, growth = f"{group[:1].upper()}{group[1:]}", _growth(worst)
    before, after = (quantities.measured(value, worst.unit) for value in (worst.baseline, worst.variant))
    where = worst.metric.rpartition(", ")[2] if ", " in worst.metric else ""
    place = "" if where in ("", "all cases") else f" at {quantities.case_label(where)}"
    if group == "largest memory of a call":  # its case is the largest, and the mode is told before it
        place = f" in {worst.metric.removeprefix(f'{group} in ').partition(',')[0]}"
    if growth <= SAME:
        return f"{name}: no more than before."
    return f"{name}: {before} before, {after} after{place} ({100 * growth:+.1f}%)."


def _growth(rail: GuardrailResult) -> float:
    if rail.baseline == 0:
        return float("inf") if rail.variant > 0 else 0.0
    return rail.variant / rail.baseline - 1


def _to_read(context: ReportContext) -> str:
    """Readability: what there is to read and to keep up beside the kernel."""
    size = change_size(context.diff)
    told = f"To read: {quantities.count(size.added, 'line')} more and {size.removed} fewer"
    if size.names:
        shown = ", ".join(f"`{name}`" for name in size.names[:NAMES_SHOWN])
        more = f" and {len(size.names) - NAMES_SHOWN} more" if len(size.names) > NAMES_SHOWN else ""
        told += f", with {quantities.count(len(size.names), 'new name')} in the module ({shown}{more})"
    if context.winner is not None and any(variant.chosen_settings for variant, _ in context.winning_changes):
        told += "; a table of settings by GPU and shape, to be searched anew when the kernel's code changes"
    return f"{told}."
