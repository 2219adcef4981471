"""What must hold of the tuned kernels, asked of their samples: each a sentence, yes or no, and what it rests on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claiming import NONE_SLOWER, Claim, slower_of

from tuning.kept import TUNED, Exhausted, Tuned
from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.verdict import CaseSpeedup
from warpsmith.verdict.decision import MIN_ROUNDS, too_few_rounds
from warpsmith.verdict.statistics import Comparison, compare, median_ms

KNOWN = Path(__file__).resolve().parents[1] / "data" / "tuned" / "known_gains.json"
#: Chosen: both sides of a known gain were measured once, on another day, by another method.
AS_MUCH = 0.97
#: What is asked of a search: its choice within this of the exhaustive one's, for this part of its device time.
WITHIN, PART = 0.02, 0.2
#: The names of the two in the last comparison.
CHOSEN, EXHAUSTIVE = "search", "exhaustive"


@dataclass(frozen=True)
class KnownGain:
    """A gain that somebody found by hand. Times in microseconds."""

    kernel: str
    mode: Mode
    case: str
    what: str
    before_us: float
    after_us: float

    @property
    def speedup(self) -> float:
        return self.before_us / self.after_us


def known_gains(path: Path = KNOWN) -> tuple[KnownGain, ...]:
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return tuple(KnownGain(kernel, Mode(mode), *rest) for kernel, mode, *rest in kept["rows"])


def found_at(tuned: Tuned, mode: Mode, case: str) -> CaseSpeedup | None:
    """What the judgement says of one case and pass; None where there was no variant, or nothing was timed there."""
    every = tuned.verdict.cases if tuned.verdict is not None else ()
    return next((each for each in every if (each.mode, each.case) == (mode, case)), None)


def known_gains_found(kernels: Mapping[str, Tuned], known: Sequence[KnownGain]) -> Claim:
    failing: list[str] = []
    for gain in known:
        tuned = kernels.get(gain.kernel)
        at = None if tuned is None else found_at(tuned, gain.mode, gain.case)
        named = f"{gain.kernel} {gain.mode.value} {gain.case}, {gain.what}, {gain.speedup:.2f}×"
        if tuned is None:
            failing.append(f"{named}: {gain.kernel} was not tuned")
        elif at is None:
            failing.append(f"{named}: {tuned.detail or 'nothing was timed there'}")
        elif at.speedup.value < AS_MUCH * gain.speedup:
            failing.append(f"{named}: {at.speedup}")
    return Claim(
        asked=f"Every gain that settings alone are known to bring is found, to {1 - AS_MUCH:.0%}",
        found=f"{len(known)} known gains",
        failing=tuple(failing),
    )


def none_slower(kernels: Mapping[str, Tuned]) -> Claim:
    """Of all cases and modes one family, whatever became of the variant."""
    compared = [(name, each) for name in kernels for each in _comparisons(kernels, name)]
    wrong = [f"{name}: {tuned.status.value}, {tuned.detail}" for name, tuned in kernels.items() if _is_wrong(tuned)]
    few = [
        f"{name}: {told}" for name, each in kernels.items() for told in too_few_rounds(each.timings, ORIGINAL, TUNED)
    ]
    return Claim(
        asked=NONE_SLOWER,
        found=f"{len(compared)} comparisons of {len(kernels)} kernels",
        failing=(*wrong, *slower_of(compared), *few),
    )


def _comparisons(kernels: Mapping[str, Tuned], kernel: str) -> list[Comparison]:
    """The variant against the original. Each kernel's rounds are drawn independently of the others'."""
    seed = list(kernels).index(kernel)
    enough = (t for t in kernels[kernel].timings if len(t.shared_rounds(ORIGINAL, TUNED)) >= MIN_ROUNDS)
    return [compare(timing, ORIGINAL, TUNED, seed=seed) for timing in enough]


def _is_wrong(tuned: Tuned) -> bool:
    """Whether there was a variant that could not even be judged."""
    return bool(tuned.diff) and tuned.verdict is None


def as_good_as_exhaustive(comparisons: Sequence[Exhausted]) -> Claim:
    failing: list[str] = []
    for each in comparisons:
        named = f"{each.kernel} {each.mode.value} {each.case.name}"
        if (loss := loss_of(each)) > WITHIN:
            failing.append(f"{named}: {loss:.1%} behind the best of {each.n_runnable} settings")
        if (part := part_of(each)) > PART:
            failing.append(f"{named}: {part:.0%} of the exhaustive search's device time")
    return Claim(
        asked=f"The search's choice is within {WITHIN:.0%} of the best of an exhaustive search over the same space, "
        f"for at most {PART:.0%} of its device time",
        found=f"{len(comparisons)} comparisons",
        failing=tuple(failing) if comparisons else ("nothing was compared",),
    )


def loss_of(each: Exhausted) -> float:
    """How much slower the search's choice is than the exhaustive best, timed side by side; below 0 it is faster."""
    names = {block.contender for block in each.last.blocks} - {ORIGINAL, CHOSEN}
    best_ms = min(median_ms(each.last, name).value for name in names)
    return median_ms(each.last, CHOSEN).value / best_ms - 1


def part_of(each: Exhausted) -> float:
    return each.search_device_time_ms / each.exhaustive_device_time_ms
