"""What is kept of a kernel that warpsmith went through by itself: how it ended, and what that rests on."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

from warpsmith.contracts.base import Contract, Document, Sha256
from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.measurement import Timing
from warpsmith.contracts.variant import Variant, VariantStatus
from warpsmith.contracts.verdict import Interval, Outcome, Verdict
from warpsmith.workspace.documents import write_bytes

SUFFIX = ".json.gz"


class Tried(Contract):
    """A variant in short: predicted and measured are speed-ups over the original in the goal mode."""

    number: int
    strategy: str
    based_on: int
    predicted_low: float
    predicted_high: float
    measured: Interval | None
    status: VariantStatus
    outcome: Outcome | None
    reasons: tuple[str, ...]

    @classmethod
    def of(cls, variant: Variant) -> Tried:
        verdict = variant.verdict
        return cls(
            number=variant.number,
            strategy=variant.strategy,
            based_on=variant.based_on,
            predicted_low=variant.predicted_low,
            predicted_high=variant.predicted_high,
            measured=verdict.speedup if verdict else None,
            status=variant.status,
            outcome=verdict.outcome if verdict else None,
            reasons=verdict.reasons if verdict else (variant.detail or "no reason was recorded",),
        )


class Optimized(Document):
    """One kernel, profiled and optimized, and its winner measured afresh. `of` is the package that it is from.

    `searched` is the verdict by which the winner won, `confirmed` that on its being measured afresh. `timings` are all
    that `confirmed` rests on, raw: the original beside the winner at every case and mode. Without a winner none of
    these is there. `sittings_s` are the seconds of each command that went on with it.
    """

    kernel: str
    of: str
    warpsmith: str
    run_id: str
    sittings_s: tuple[float, ...]
    device: DeviceFacts
    goal: Mode
    source_sha256: Sha256
    noise_floor: float | None
    stop_reason: str
    tried: tuple[Tried, ...]
    winner: int | None = None
    winner_sha256: Sha256 | None = None
    changes: tuple[str, ...] = ()
    diff: str = ""
    searched: Verdict | None = None
    confirmed: Verdict | None = None
    timings: tuple[Timing, ...] = ()

    @property
    def is_gain(self) -> bool:
        """Whether there is a winner that is faster when it is measured afresh. Else the original stays."""
        return self.confirmed is not None and self.confirmed.outcome is Outcome.ACCEPTED


def path_of(directory: Path, kernel: str) -> Path:
    return directory / f"{kernel}{SUFFIX}"


def write_kept(directory: Path, kept: Optimized) -> None:
    """The same bytes for the same content."""
    directory.mkdir(parents=True, exist_ok=True)
    packed = gzip.compress(kept.model_dump_json().encode("utf-8"), mtime=0)
    write_bytes(path_of(directory, kept.kernel), packed)


def read_kept(directory: Path, kernels: Sequence[str]) -> dict[str, Optimized]:
    """Those of the kernels that are there, in that order.

    Raises UsageError where they were not all made on one model of GPU with the same software: a mean over them would
    be of nothing.
    """
    there = {kernel: path_of(directory, kernel) for kernel in kernels}
    found = {kernel: _read(path) for kernel, path in there.items() if path.is_file()}
    for other in list(found.values())[1:]:
        first = next(iter(found.values()))
        then = first.device.environment.model_dump(mode="json")
        if changes := other.device.environment.changes_since(then):
            raise UsageError(f"{other.kernel} was not measured as {first.kernel} was: {'; '.join(changes)}")
    return found


def _read(path: Path) -> Optimized:
    return Optimized.model_validate_json(gzip.decompress(path.read_bytes()))
