"""Owns the estimate of how many variants a search will try, and the reason for it."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.profile import Recommendation
from warpsmith.diagnose.recommend import SETTINGS


def expected_variants(
    recommendations: Sequence[Recommendation], max_variants: int, *, measured: bool = True
) -> tuple[int, str]:
    """One for each that predicts anything, and another sweep where a rewrite may change which settings are best.

    With nothing measured, one for each: none of them predicts anything.
    """
    promising = [r.strategy for r in recommendations if r.predicted_high > 1 or not measured]
    again = any(name != SETTINGS for name in promising)
    wanted = max(1, len(promising)) + int(again)
    if not promising:
        why = "nothing is predicted to bring anything: one sweep of the settings to make sure"
    else:
        names = [name.replace("_", " ") for name in promising]
        listed = ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]
        may = "may bring something" if measured else "can be tried; nothing was run to say what pays"
        why = f"{listed} {may}"
        why += ", and after a rewrite other settings may be the best" if again else ""
    if wanted > max_variants:
        why += f"; that is {wanted}, of which the request allows {max_variants}"
    return min(max_variants, wanted), why
