"""Owns when a search ends. Pure: the time that passed and what is still untried are handed in."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.request import Request
from warpsmith.contracts.variant import Variant, VariantStatus
from warpsmith.contracts.verdict import TargetResult

#: Chosen: a gain over the best so far below this is a stall; two measured stalls in a row end the search.
LEAST_STEP = 0.01
STALLS = 2


def stop_reason(
    variants: Sequence[Variant],
    request: Request,
    untried_predictions: Sequence[float],
    elapsed_s: float,
    target: TargetResult | None = None,
) -> str | None:
    """Why the search ends now, or None to go on.

    `variants` in the order they were tried. `untried_predictions` are the speed-ups over the best so far that
    strategies not yet tried may bring at most; `elapsed_s` is the time since the search began. `target` is what the
    best so far, at first the original, makes of the target metric.
    """
    least = request.target_speedup
    reached = [v.verdict.speedup.value for v in variants if v.accepted and v.verdict is not None and v.verdict.speedup]
    if least is not None and reached and max(reached) >= least:
        return f"target reached: {max(reached):.3f}×, asked for {least:.3f}×"
    if target is not None and target.met:
        return f"target {target}"
    if len(variants) >= request.max_variants:
        return f"variant budget used: {len(variants)} of {request.max_variants}"
    if elapsed_s >= request.time_budget_s:
        return f"time budget used: {elapsed_s:.0f} s of {request.time_budget_s:.0f} s"
    if _stalls(variants) >= STALLS and not any(p > 1 + LEAST_STEP for p in untried_predictions):
        return f"{STALLS} measured variants in a row were under {LEAST_STEP:.0%} better than the best so far"
    return None


def _stalls(variants: Sequence[Variant]) -> int:
    """Measured variants since the last that improved on the best before it by the least step.

    What could not be applied, failed or compiled to the same machine code was not measured and is passed over.
    """
    best, stalls = 1.0, 0
    for variant in variants:
        verdict = variant.verdict
        if variant.status is not VariantStatus.JUDGED or verdict is None or verdict.goal is None:
            continue
        gain = verdict.over_best.value if verdict.over_best is not None else verdict.goal.value / best
        if verdict.memory is not None:  # either counts
            gain = max(gain, (verdict.memory_over_best or verdict.memory).value)
        stalls = 0 if variant.accepted and gain >= 1 + LEAST_STEP else stalls + 1
        if variant.accepted:
            best = max(best, verdict.goal.value)
    return stalls
