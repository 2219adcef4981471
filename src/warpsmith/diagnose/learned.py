"""Owns what recorded runs teach of predictions: the kept record beside this file, and ranges that it corrects.

Must not know how a strategy is carried out. benchmark/strategies.py writes the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Baseline, ModeProfile, Recommendation
from warpsmith.contracts.track_record import StrategyRecord, TrackRecord
from warpsmith.diagnose.architectures import is_of_one_architecture
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.pricing import Price
from warpsmith.diagnose.recommend import SETTINGS, goal_passes, recommend, speedup_at_ceiling
from warpsmith.verdict.track_record import corrected_range, correction
from warpsmith.workspace.documents import read_document

KEPT = Path(__file__).with_name("track_record.json")


@cache
def kept_record() -> TrackRecord:
    return read_document(KEPT, TrackRecord)


def recommended(
    evidence: Evidence,
    modes: Sequence[ModeProfile],
    goal: Mode,
    baselines: Sequence[Baseline],
    prices: Sequence[Price],
) -> tuple[Recommendation, ...]:
    """What today's rules recommend, corrected by the kept record."""
    found = recommend(evidence, modes, goal, baselines, prices)
    most = speedup_at_ceiling(goal_passes(evidence, modes, goal, baselines, prices))
    return corrected(found, kept_record().strategies, most)


def corrected(
    recommendations: Sequence[Recommendation], records: Iterable[StrategyRecord], most: float
) -> tuple[Recommendation, ...]:
    """The same strategies by what their results teach: settings first, then the surest gain, then the largest, those of
    one architecture last.

    `most` is the speed-up of the goal at the ceiling of its open passes. Ranges and order are as they were where no
    strategy has results enough.
    """
    by_name = {record.strategy: record for record in records}
    moved = [_corrected(each, by_name.get(each.strategy), most) for each in recommendations]
    if moved == list(recommendations):
        return tuple(recommendations)
    return tuple(sorted(moved, key=_rank))


def _rank(recommendation: Recommendation) -> tuple[bool, bool, float, float]:
    name, low, high = recommendation.strategy, recommendation.predicted_low, recommendation.predicted_high
    return name != SETTINGS, is_of_one_architecture(name), -low, -high


def _corrected(recommendation: Recommendation, record: StrategyRecord | None, most: float) -> Recommendation:
    factor = correction(record) if record else None
    if record is None or factor is None:
        return recommendation
    before = (recommendation.predicted_low, recommendation.predicted_high)
    low, high = corrected_range(*before, factor, most)
    if (low, high) == before:
        return recommendation
    told = (
        f"{before[0]:.2f} to {before[1]:.2f}× by its price, corrected by {record.measured} recorded results, which "
        f"were {record.measured_over_middle:.3f}× the middle of what was predicted"
    )
    why = f"{recommendation.why.rstrip('.')}. {told[0].upper()}{told[1:]}"
    return recommendation.model_copy(update={"why": why, "predicted_low": low, "predicted_high": high})
