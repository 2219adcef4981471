"""A stand-alone comparison: the kernel as it is beside other sources and the baseline providers."""

from __future__ import annotations

from enum import Enum

from warpsmith.contracts.base import Contract, Document, Sha256
from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.device import DeviceFacts, Origin
from warpsmith.contracts.measurement import L2, TimingMethod
from warpsmith.contracts.verdict import Interval


class Finding(str, Enum):
    """What a 95% interval of a speed-up says.

    One that contains 1 is no difference where all of it lies within the minimum effect, else inconclusive, as is one
    of too few rounds.
    """

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference"
    INCONCLUSIVE = "inconclusive"


class BenchRow(Contract):
    """One contender at one case and mode, with L2 cold or warm.

    `time_ms` is the median device time; it is None exactly where `unavailable` says why. `speedup` is over the original
    in the same comparison, None for the original itself. `gb_s` are the least bytes over the time, `share_of_ceiling`
    is of the copy (or matmul) ceiling. `peak_bytes` are above the inputs, `host_us` is the lower quartile of host time
    a call; they are None where not measured. Of the comparison: `method` and why it is not graph replay, whether all
    sides ran at equal addresses, its rounds, whether the time cap cut them; of this contender, how many blocks ran
    throttled and why.
    """

    case: str
    role: Role
    mode: Mode
    l2: L2
    contender: str
    time_ms: Interval | None
    speedup: Interval | None = None
    finding: Finding | None = None
    gb_s: float | None = None
    share_of_ceiling: float | None = None
    peak_bytes: int | None = None
    host_us: float | None = None
    method: TimingMethod | None = None
    method_reason: str | None = None
    same_addresses: bool | None = None
    rounds: int = 0
    capped: bool = False
    throttled_blocks: int = 0
    throttle_reasons: tuple[str, ...] = ()
    unavailable: str | None = None


class BenchResult(Document):
    """bench.json. `sources` is contender -> hash of its source.

    `excluded` says of a source or a provider why it was timed nowhere. `l2` and `method` are what was asked for: None
    is cold, and warm too where the working set fits; and the most exact method that a comparison allows. `notes` are
    for a person: what could not be answered, and what would answer it. `minimum_effect` is what findings go by: 0.01 is
    1%.
    """

    kernel: str
    source: str
    sources: dict[str, Sha256]
    providers: tuple[str, ...]
    cases: tuple[str, ...]
    modes: tuple[Mode, ...]
    l2: L2 | None
    method: TimingMethod | None
    device: DeviceFacts
    origin: Origin
    excluded: dict[str, str]
    rows: tuple[BenchRow, ...]
    notes: tuple[str, ...] = ()
    minimum_effect: float = 0.01
