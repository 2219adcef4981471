"""How a strategy's predictions came out over all recorded runs."""

from __future__ import annotations

from pydantic import Field

from warpsmith.contracts.base import Contract, Document


class StrategyRecord(Contract):
    """One strategy over recorded runs. A run that tries it twice counts with its first try.

    `applicable` of the `tried` had something to do; `measured` of these have a speed-up, `accepted` were accepted.
    `gain` is the geometric mean of the measured speed-ups over what each built on, `measured_over_middle` that of the
    measured over the middle of the predicted range; both are None where none was measured.
    """

    strategy: str
    tried: int = Field(ge=1)
    applicable: int
    measured: int
    accepted: int
    within: int
    gain: float | None
    measured_over_middle: float | None


class TrackRecord(Document):
    """src/warpsmith/diagnose/track_record.json. `runs` names each run that it was made of."""

    runs: tuple[str, ...]
    strategies: tuple[StrategyRecord, ...]
