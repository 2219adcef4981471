"""Observations, kept raw. Statistics are made of them in `verdict`, never stored in their place."""

from __future__ import annotations

from enum import Enum

from pydantic import Field, model_validator

from warpsmith.contracts.base import Contract, Settings, Sha256
from warpsmith.contracts.case import Case, Mode

#: What every contender is compared with, and the name of the winner when it is measured afresh.
ORIGINAL, OPTIMIZED = "original", "optimized"

#: The module-level dictionary of a tunable source: knob id -> value. Empty, the source behaves as the original.
SETTINGS_NAME = "WARPSMITH_SETTINGS"


class SourceRef(Contract):
    """A kernel source file, known by its content."""

    path: str
    sha256: Sha256


class Contender(Contract):
    """One side of a comparison: a source (with settings, if it is a tunable one) or a baseline provider."""

    name: str
    source: SourceRef | None = None
    settings: Settings = Field(default_factory=dict)


class TimingMethod(str, Enum):
    GRAPH = "graph"
    EVENTS = "events"


class Block(Contract):
    """Consecutive samples of one contender. `round` pairs the blocks that ran next to each other."""

    contender: str
    round: int
    samples_ms: tuple[float, ...] = Field(min_length=1)
    sm_clock_mhz: int | None = None
    throttle_reasons: tuple[str, ...] = ()


class Timing(Contract):
    """Interleaved blocks of several contenders at one case and mode, in the order they ran.

    Each sample is milliseconds a call. `method` is the same for every contender. `same_addresses` says
    whether all sides ran at equal pointers (None where that cannot be known). A contender that could not
    run is in `failures` and has no block.
    """

    case: Case
    mode: Mode
    method: TimingMethod
    method_reason: str | None = None
    calls_per_sample: int
    input_sets: int
    #: L2 was flushed before every sample, outside its events; else the rotation of input sets turned it over
    l2_flushed: bool = False
    same_addresses: bool | None
    blocks: tuple[Block, ...]
    failures: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _no_block_of_a_failed_contender(self) -> Timing:
        ran = {block.contender for block in self.blocks}
        if both := ran & set(self.failures):
            raise ValueError(f"contenders both timed and failed: {sorted(both)}")
        return self


class Memory(Contract):
    """Peak bytes allocated during one call, above its inputs (and what was allocated before it)."""

    case: Case
    mode: Mode
    peak_bytes: dict[str, int]
    failures: dict[str, str] = Field(default_factory=dict)


class HostTime(Contract):
    """Microseconds of host time a call, launch included, device work not waited for. Samples by contender."""

    case: Case
    mode: Mode
    samples_us: dict[str, tuple[float, ...]]


class OutputError(Contract):
    """Errors of one output or gradient against float64, of the candidate and of the original.

    `scale` is the root mean square of the reference. NaN where the reference has none fails outright.
    """

    output: str
    rms: float
    p9999: float
    max: float
    original_rms: float
    original_p9999: float
    original_max: float
    scale: float
    floor: float
    elements: int = Field(ge=0)


class CaseCheck(Contract):
    """One case through the correctness gate. `failures` is empty exactly when it passed."""

    case: Case
    errors: tuple[OutputError, ...]
    failures: tuple[str, ...]


class Correctness(Contract):
    """A candidate's source through the gate at every case asked for."""

    source_sha256: Sha256
    checks: tuple[CaseCheck, ...]

    @property
    def passed(self) -> bool:
        return bool(self.checks) and not any(check.failures for check in self.checks)

    @property
    def failures(self) -> tuple[str, ...]:
        return tuple(f"{c.case.name}: {failure}" for c in self.checks for failure in c.failures)


class CounterRow(Contract):
    """Hardware counters of one kernel launch, by ncu metric name, in base units (bytes, ns, %)."""

    kernel: str
    grid: str
    block: str
    metrics: dict[str, float]


class Counters(Contract):
    """ncu's view of one case and mode, or why there is none and what would mend it."""

    case: Case
    mode: Mode
    rows: tuple[CounterRow, ...] = ()
    ncu_version: str | None = None
    missing_metrics: tuple[str, ...] = ()
    unavailable: str | None = None
    remedy: str | None = None
