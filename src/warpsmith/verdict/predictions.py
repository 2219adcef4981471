"""Owns how good predictions were: each one's range against what was measured, and over all of them. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

from warpsmith.contracts.result import PredictionCheck, PredictionSummary
from warpsmith.contracts.variant import Variant


def check_predictions(variants: Iterable[Variant]) -> PredictionSummary:
    """Of the variants whose speed-up was measured; a prediction's middle is the geometric mean of its ends."""
    checks = tuple(
        PredictionCheck(
            number=variant.number,
            predicted_low=variant.predicted_low,
            predicted_high=variant.predicted_high,
            measured=speedup.value,
            place=variant.against_prediction(speedup.value),
        )
        for variant in variants
        if variant.verdict is not None and (speedup := variant.verdict.speedup) is not None
    )
    ratios = [each.measured / math.sqrt(each.predicted_low * each.predicted_high) for each in checks]
    return PredictionSummary(
        checks=checks, measured_over_middle=round(statistics.geometric_mean(ratios), 6) if ratios else None
    )
