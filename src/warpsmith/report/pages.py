"""The pages that people read: profile, notes of a variant, comparison, report. Contracts in, text out.

Owns what each page is handed; the words and the layout are the templates'.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.audit import SourceAudit
from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import Origin
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.variant import Variant
from warpsmith.report import offline_view, profile_view, quantities, report_view
from warpsmith.report.context import ReportContext
from warpsmith.report.quantities import origin_told
from warpsmith.report.rejection import rejection_of
from warpsmith.report.templates import render
from warpsmith.report.webpage import render_html

__all__ = ["render_comparison", "render_html", "render_profile", "render_report", "render_variant_notes"]


def render_profile(profile: Profile) -> str:
    """profile.md: the page that a person reads before saying yes."""
    values = {
        "profile": profile,
        "origin": origin_told(profile.origin, profile.device),
        "bottleneck_means": profile_view.BOTTLENECK_MEANS,
        "tier": profile_view.TIER_MEANS[profile.audit.tier],
        "tables": profile_view.baseline_tables(profile),
        "overhead_sentences": profile_view.overhead_sentences(profile),
        "within_a_row": quantities.WITHIN_A_ROW,
        "host_time_drifts": quantities.HOST_TIME_DRIFTS,
        "counter_columns": [title for _, title, _ in profile_view.COUNTER_COLUMNS],
        "counter_cells": profile_view.counter_cells,
        "launches": profile_view.launch_lines(profile),
        "offline_launches": offline_view.offline_lines(profile),
        "jit_functions": _jit_function_lines(profile.audit),
    }
    return render("profile.md.j2", values)


def _jit_function_lines(audit: SourceAudit) -> list[tuple[str, int, str, str]]:
    """Name, line, tier, and what it does in a few words."""
    lines = []
    for function in audit.jit_functions:
        counts = (("load", function.loads), ("store", function.stores), ("reduction", function.reductions))
        parts = [f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts if count]
        if function.atomics:
            parts.append(f"{function.atomics} atomics")
        parts.append("a loop" if function.has_loop else "no loop")
        lines.append((function.name, function.line, profile_view.TIER_MEANS[function.tier], ", ".join(parts)))
    return lines


def render_variant_notes(variant: Variant, diff: str | None, *, origin: Origin | None = None) -> str:
    """<kernel>_vN_notes.md. Before the result it holds hypothesis and prediction; afterwards, what came of them."""
    values = {
        "variant": variant,
        "rejection": rejection_of(variant.examination) if variant.examination else None,
        "diff": diff,
        "modes": list(Mode),
        "origin": origin_told(origin) if origin else None,
    }
    return render("variant-notes.md.j2", values)


def render_comparison(
    variants: Sequence[Variant], winner: int | None, stop_reason: str, *, origin: Origin | None = None
) -> str:
    """comparison.md: every variant, accepted or not, its prediction beside its result."""
    values = {
        "variants": variants,
        "winner": next((v for v in variants if v.number == winner), None),
        "stop_reason": stop_reason,
        "told": report_view.what_came_of_it,
        "predictions": report_view.predictions_told(variants),
        "origin": origin_told(origin) if origin else None,
        "within_a_row": quantities.WITHIN_A_ROW,
    }
    return render("comparison.md.j2", values)


def render_report(context: ReportContext) -> str:
    """report.md: its first line says the outcome."""
    return render("report.md.j2", report_view.values(context))
