"""Owns what a strategy's past results say of its next prediction. Pure: variants in, a record and a correction out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from warpsmith.contracts.track_record import StrategyRecord
from warpsmith.contracts.variant import REFINEMENTS, Variant, VariantStatus
from warpsmith.verdict.predictions import check_predictions
from warpsmith.verdict.statistics import geometric_mean

#: Chosen: with fewer results a prediction is left as it is.
LEAST_RESULTS = 3
#: Chosen: so many results that say nothing stand beside those there are; with as many, half of the correction is made.
_PRIOR_RESULTS = 3
#: Chosen: a correction makes the predicted gain at most so many times larger or smaller.
_MOST = 2.0


def track_record(runs: Iterable[Sequence[Variant]]) -> tuple[StrategyRecord, ...]:
    """By strategy, in the order in which they first appear. A run is its variants, whole."""
    first_tries: dict[str, list[tuple[Variant, Sequence[Variant]]]] = {}
    for run in runs:
        by_strategy: dict[str, Variant] = {}
        for variant in run:
            if variant.strategy not in REFINEMENTS:
                by_strategy.setdefault(variant.strategy, variant)
        for name, variant in by_strategy.items():
            first_tries.setdefault(name, []).append((variant, run))
    return tuple(_record(name, tries) for name, tries in first_tries.items())


def _record(name: str, tries: Sequence[tuple[Variant, Sequence[Variant]]]) -> StrategyRecord:
    variants = [variant for variant, _ in tries]
    predictions = check_predictions(variants)
    gains = [gain for variant, run in tries if (gain := gain_over_base(variant, run)) is not None]
    return StrategyRecord(
        strategy=name,
        tried=len(variants),
        applicable=sum(variant.status is not VariantStatus.INAPPLICABLE for variant in variants),
        measured=len(predictions.checks),
        accepted=sum(variant.accepted for variant in variants),
        within=sum(check.place == "within" for check in predictions.checks),
        gain=round(geometric_mean(gains), 6) if gains else None,
        measured_over_middle=predictions.measured_over_middle,
    )


def gain_over_base(variant: Variant, run: Iterable[Variant]) -> float | None:
    """Its measured speed-up over that of the variant it builds on; None where either was not measured."""
    speedups = {v.number: v.verdict.speedup for v in run if v.verdict is not None}
    own = speedups.get(variant.number)
    if variant.based_on == 0:
        return own.value if own else None
    base = speedups.get(variant.based_on)
    return own.value / base.value if own and base else None


def correction(record: StrategyRecord) -> float | None:
    """By what the middle of its next prediction is multiplied; None where too few results say anything."""
    if record.measured < LEAST_RESULTS or record.measured_over_middle is None:
        return None
    weight = record.measured / (record.measured + _PRIOR_RESULTS)
    return float(record.measured_over_middle**weight)


def corrected_range(low: float, high: float, factor: float, most: float) -> tuple[float, float]:
    """A predicted range whose middle is moved by `factor`, none of it beyond `most`, the speed-up at the ceiling.

    Both ends are raised to one power, so that a range that begins at 1, no gain, still does. A range that predicts no
    gain at all stays.
    """
    gain = math.log(low * high) / 2
    if gain <= 0:
        return low, high
    power = min(max((gain + math.log(factor)) / gain, 1 / _MOST), _MOST)
    moved = min(high**power, max(most, high))
    return min(low**power, moved), moved
