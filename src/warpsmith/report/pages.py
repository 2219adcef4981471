"""The pages that people read: profile, notes of a variant, comparison, report. Contracts in, text out.

Owns what each page is handed; the words and the layout are the templates'.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.aim import Aim
from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import Origin
from warpsmith.contracts.launch import AccessKind
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.result import SearchResult
from warpsmith.contracts.variant import Variant
from warpsmith.report import (
    aim_view,
    audit_view,
    baseline_view,
    compiled_view,
    counter_view,
    device_view,
    offline_view,
    opportunity_view,
    profile_view,
    quantities,
    report_view,
)
from warpsmith.report.context import ReportContext
from warpsmith.report.quantities import origin_told
from warpsmith.report.rejection import rejection_of
from warpsmith.report.roofline_panels import roofline_panels
from warpsmith.report.templates import render
from warpsmith.report.webpage import render_html
from warpsmith.search.strategies import BRIEFS
from warpsmith.search.strategies.signs import speaking

__all__ = ["render_comparison", "render_html", "render_profile", "render_report", "render_variant_notes"]


def render_profile(profile: Profile) -> str:
    """profile.md: the page that a person reads before saying yes."""
    launches = compiled_view.launch_lines(profile)
    values = {
        "profile": profile,
        "origin": origin_told(profile.origin, profile.device),
        "aim_lines": aim_view.aim_lines(profile.aim),
        "mode_lines": profile_view.mode_lines(profile),
        "conclusions": profile_view.conclusions(profile),
        "first": profile_view.first_recommendation(profile),
        "settings_means": profile_view.SETTINGS_MEANS,
        "recommendations": profile_view.recommendation_lines(profile),
        "tells_gain": profile_view.tells_gain(profile),
        "is_open": profile_view.is_open(profile),
        "why_not_settings": profile_view.why_not_settings(profile),
        "is_unknown": profile_view.is_unknown(profile),
        "above_ceiling": profile_view.ABOVE_CEILING,
        "first_above": profile_view.first_above_ceiling(profile),
        "not_compiled": profile_view.not_compiled(profile),
        "tier_reached": profile_view.tier_reached(profile),
        "opportunities": opportunity_view.priced_lines(profile),
        "shown_first": opportunity_view.FIRST_SCREEN_OPPORTUNITIES,
        "unpriced": opportunity_view.unpriced_lines(profile),
        "headrooms": profile_view.headroom_lines(profile),
        "several_cases": len(profile_view.cases_of(profile)) > 1,
        "weights_differ": profile_view.weights_differ(profile),
        "has_roofline": bool(roofline_panels(profile)),
        "ceilings_origin": device_view.ceilings_origin(profile),
        "tables": baseline_view.baseline_tables(profile),
        "overhead_sentences": baseline_view.overhead_sentences(profile),
        "within_a_row": quantities.WITHIN_A_ROW,
        "host_time_drifts": quantities.HOST_TIME_DRIFTS,
        "counter_columns": [title for _, title, _ in counter_view.COUNTER_COLUMNS],
        "counter_lines": counter_view.counter_lines(profile),
        "duration_lines": list(counter_view.duration_lines(profile)),
        "launches": launches,
        "access_kinds": list(AccessKind),
        "accesses": compiled_view.access_lines(launches),
        "probes": compiled_view.probe_lines(profile.settings_probes),
        "offline_launches": offline_view.offline_lines(profile),
        "tier": audit_view.TIER_MEANS[profile.audit.tier],
        "jit_functions": audit_view.jit_function_lines(profile.audit),
        "knobs": audit_view.knobs_of_the_source(profile.audit),
        "patterns": audit_view.patterns_by_kind(profile.audit),
        "techniques": speaking(profile, BRIEFS.values()),
        "device_rows": device_view.device_rows(profile),
    }
    return render("profile.md.j2", values)


def render_variant_notes(variant: Variant, diff: str | None, *, origin: Origin | None = None) -> str:
    """<kernel>_vN_notes.md. Before the result it holds hypothesis and prediction; afterwards, what came of them."""
    values = {
        "variant": variant,
        "rejection": rejection_of(variant.examination) if variant.examination else None,
        "diff": diff,
        "modes": list(Mode),
        "place": aim_view.place_told(variant),
        "plots": aim_view.plot_titles(variant),
        "origin": origin_told(origin) if origin else None,
    }
    return render("variant-notes.md.j2", values)


def render_comparison(variants: Sequence[Variant], result: SearchResult, aim: Aim | None = None) -> str:
    """comparison.md: every variant, accepted or not, its prediction beside its result."""
    values = {
        "variants": variants,
        "winner": next((v for v in variants if v.number == result.winner), None),
        "stop_reason": result.stop_reason,
        "told": report_view.what_came_of_it,
        "predictions": result.predictions,
        "parts": result.parts,
        "predictions_told": aim_view.predictions_told(result.predictions),
        "aim_lines": aim_view.aim_lines(aim or Aim(), result.target),
        "origin": origin_told(result.origin),
        "within_a_row": quantities.WITHIN_A_ROW,
    }
    return render("comparison.md.j2", values)


def render_report(context: ReportContext) -> str:
    """report.md: its first line says the outcome."""
    return render("report.md.j2", report_view.values(context))
