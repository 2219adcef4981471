"""What of a profile is worth telling beside others, and of which passes the figures mislead."""

from __future__ import annotations

from profiling.kept import Kept
from warpsmith.contracts.case import Mode

#: Chosen: what an opportunity must be predicted to bring of its pass to stand in the table; less is noise.
WORTH_TELLING = 0.005
#: Chosen: passes that take so many times as long apart as together do work apart that they do once together.
REPEATS = 1.15


def repeated(kept: Kept) -> float | None:
    """Forward and backward over the whole call, by their times at the tuning cases, where that is REPEATS or more."""
    times: dict[Mode, float] = {}
    for mode in kept.profile.modes:
        times[mode.mode] = sum(h.weight * h.time_ms for h in mode.headrooms if h.time_ms is not None)
    if set(times) != set(Mode) or not times[Mode.FULL]:
        return None
    ratio = (times[Mode.FORWARD] + times[Mode.BACKWARD]) / times[Mode.FULL]
    return ratio if ratio >= REPEATS else None
