"""What a candidate must leave alone: whatever a timer, a comparison or another contender relies on.

Owns who is to blame for a change, in the gate and among contenders that were timed together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from warpsmith.contracts.measurement import ORIGINAL, CheckFailure
from warpsmith.measure.correctness.bout import Bout
from warpsmith.measure.correctness.surroundings import Change
from warpsmith.measure.worker.implementation import Implementation

#: Chosen: one patch shows under all the names by which modules know it.
_MOST_TOLD = 4


def bystanders(bout: Bout) -> Iterator[CheckFailure]:
    """Nothing replaced, switched, reseeded or left running, since before it was loaded, that the original leaves."""
    for name in sorted(bout.found.random - bout.known.random):
        message = f"draws from or seeds {name}, which the original leaves alone"
        yield CheckFailure(check="bystanders", message=message)
    changes = bout.surroundings.changes() if bout.surroundings is not None else []
    for change in changes[:_MOST_TOLD]:
        yield CheckFailure(check="bystanders", message=change.message)


def blamed(changes: Iterable[Change], sides: Sequence[Implementation]) -> dict[str, str]:
    """Contender -> what it changed while it was loaded and run among others.

    Code that stands in another's place is its source's; code of nobody's source is put down to every source but the
    original. Switches, and threads of unknown code, are not told here: the original and baselines have theirs.
    """
    told: dict[str, str] = {}
    files = {each.source_path for each in sides if each.source_path is not None}
    variants = [each for each in sides if each.source_path is not None and each.name != ORIGINAL]
    for change in changes:
        if change.origin in files:
            guilty = [each for each in variants if each.source_path == change.origin]
        else:
            guilty = variants if change.is_code else []
        for each in guilty:
            told.setdefault(each.name, f"wrong_result: {change.message}")
    return told
