"""Observations, kept raw. Statistics are made of them in `verdict`, never stored in their place."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from pydantic import Field, model_validator

from warpsmith.contracts.base import Contract, Settings, Sha256
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.mutants import MutantCheck
from warpsmith.contracts.sanitizing import Sanitization

#: What every contender is compared with, and the name of the winner when it is measured afresh.
ORIGINAL, OPTIMIZED = "original", "optimized"

#: The module-level dictionary of a tunable source: knob id -> value. Empty, the source behaves as the original.
SETTINGS_NAME = "WARPSMITH_SETTINGS"


#: Chosen: far more than any plan has use for.
MOST_ROUNDS = 10_000

#: Milliseconds a call. What takes no time, or days, was not measured.
SampleMs = Annotated[float, Field(gt=0, lt=1e9)]


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
    """How device time is read: replays of CUDA graphs, the profiler's kernel durations, pairs of events."""

    GRAPH = "graph"
    PROFILER = "profiler"
    EVENTS = "events"


class L2(str, Enum):
    """What a timed call finds in the L2 cache: nothing of its inputs, or as much of them as fits."""

    COLD = "cold"
    WARM = "warm"


class TimingPlan(Contract):
    """How much is measured. In every round each contender runs one block.

    `rounds` is the least number of rounds. Where `most_rounds` is more, a pilot tells how many of them bring the 95%
    interval to +-`half_width` (a fraction), within `cap_s` seconds; then the number is fixed and the pilot put aside.
    Inputs, outputs and captures are made anew every `rounds_a_placement` rounds, elsewhere in memory.
    """

    rounds: int = Field(default=16, ge=1, le=MOST_ROUNDS)
    most_rounds: int = Field(default=48, ge=1, le=MOST_ROUNDS)
    half_width: float = Field(default=0.0025, ge=1e-5, le=1)
    cap_s: float = Field(default=6.0, gt=0, le=3600)
    block_ms: float = Field(default=2.0, gt=0, le=10_000)
    rounds_a_placement: int = Field(default=1, ge=1, le=MOST_ROUNDS)

    @model_validator(mode="after")
    def _at_least_the_least(self) -> TimingPlan:
        if self.most_rounds < self.rounds:
            raise ValueError(f"most_rounds {self.most_rounds} is below rounds {self.rounds}")
        return self


class Block(Contract):
    """Consecutive samples of one contender. `round` pairs the blocks that ran next to each other.

    `process` tells apart the worker processes of a comparison that was made in several, one after the other.
    """

    contender: str
    round: int
    process: int = 0
    samples_ms: tuple[SampleMs, ...] = Field(min_length=1)
    sm_clock_mhz: int | None = None
    throttle_reasons: tuple[str, ...] = ()


class Timing(Contract):
    """Interleaved blocks of several contenders at one case and mode, in the order they ran.

    Each sample is milliseconds a call, the mean of `calls_per_sample` calls. `method` is the same for every contender;
    `method_reason` says why it is not graph replay where that was not asked for. `l2_flushed`: cold by a flush
    before every sample, outside what is timed; else the rotation over `input_sets` turned L2 over (or `l2` is warm).
    `same_addresses` says whether the outputs of all sources lay at equal pointers in every round (None where that
    cannot be known).
    `pilot` has the blocks that settled the number of rounds; no figure is made of them. `capped`: the time cap kept
    the rounds below what the pilot asked for. `clock_unread` says why blocks have no SM clock. A contender that could
    not run is in `failures`, with its status before the colon, and has no block. One that ran in a process has a block
    in each of its rounds.
    """

    case: Case
    mode: Mode
    method: TimingMethod
    method_reason: str | None = None
    l2: L2 = L2.COLD
    calls_per_sample: int
    input_sets: int
    l2_flushed: bool = False
    same_addresses: bool | None
    blocks: tuple[Block, ...]
    pilot: tuple[Block, ...] = ()
    capped: bool = False
    clock_unread: str | None = None
    failures: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _no_block_of_a_failed_contender(self) -> Timing:
        ran = {block.contender for block in self.blocks}
        if both := ran & set(self.failures):
            raise ValueError(f"contenders both timed and failed: {sorted(both)}")
        return self

    @model_validator(mode="after")
    def _rounds_are_whole(self) -> Timing:
        rounds_of: dict[tuple[int, str], set[int]] = {}
        for block in self.blocks:
            rounds_of.setdefault((block.process, block.contender), set()).add(block.round)
        rounds_in: dict[int, set[int]] = {}
        for (process, _), rounds in rounds_of.items():
            rounds_in.setdefault(process, set()).update(rounds)
        if torn := sorted(name for (process, name), rounds in rounds_of.items() if rounds != rounds_in[process]):
            raise ValueError(f"contenders without a block in rounds that others ran: {torn}")
        return self

    def shared_rounds(self, *contenders: str) -> frozenset[int]:
        """The rounds in which every one of them has a block."""
        ran = [frozenset(block.round for block in self.blocks if block.contender == each) for each in contenders]
        return frozenset.intersection(*ran)


class Memory(Contract):
    """Peak bytes allocated during one call, above its inputs (and what was allocated before it).

    `held_bytes`: what is there before the call, its inputs and, for a backward pass, what the forward pass saved.
    """

    case: Case
    mode: Mode
    peak_bytes: dict[str, int]
    held_bytes: dict[str, int] = Field(default_factory=dict)
    failures: dict[str, str] = Field(default_factory=dict)

    def needed(self, contender: str) -> int:
        """All that a call of this contender needs, inputs included where they were weighed."""
        return self.held_bytes.get(contender, 0) + self.peak_bytes[contender]


class Memories(Contract):
    """One case in every mode that was asked for, all in one process that did nothing else."""

    memories: tuple[Memory, ...]


class Compilation(Contract):
    """What it takes to compile one source, Triton's cache empty.

    `cold_s` are seconds of the compiler for all that the passes at `case` launch, once a sample. `specializations`
    counts the distinct kernels, by jit function, that the passes launch over all the cases that were asked for.
    `unavailable` says why there is neither, its status before the colon.
    """

    source_sha256: Sha256
    case: Case
    cold_s: tuple[float, ...] = ()
    specializations: dict[str, int] = Field(default_factory=dict)
    unavailable: str | None = None


class HostTime(Contract):
    """Microseconds of host time a call, launch included, device work not waited for. Samples by contender.

    Each contender runs a chunk of so many calls in turn: those of one number ran next to each other. None where that is
    not known. A contender that fails is in `failures`, with its status before the colon, and has no samples.
    """

    case: Case
    mode: Mode
    samples_us: dict[str, tuple[float, ...]]
    calls_per_chunk: int | None = None
    failures: dict[str, str] = Field(default_factory=dict)


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


class Element(Contract):
    """The element of a result that is furthest off, with its values as text (NaN and infinity are none in JSON)."""

    index: tuple[int, ...]
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{list(self.index)}: expected {self.expected}, found {self.found}"


class CheckFailure(Contract):
    """One reason against a candidate: which check found it, in which output or gradient, and the worst element."""

    check: str
    message: str
    part: str | None = None
    worst: Element | None = None

    def __str__(self) -> str:
        return f"{self.part}: {self.message}" if self.part else self.message


class CaseCheck(Contract):
    """One case through the correctness gate. `failures` is empty exactly when it passed.

    `skipped` says of checks why they could not be made at this case. The gate ends with the first check that fails.
    """

    case: Case
    errors: tuple[OutputError, ...]
    failures: tuple[CheckFailure, ...]
    skipped: dict[str, str] = Field(default_factory=dict)


class Correctness(Contract):
    """A candidate's source through the gate at every case asked for.

    `mutants` is made where the candidate is the original itself, `sanitizations` where compute-sanitizer was asked.
    Empty, they say nothing.
    """

    source_sha256: Sha256
    checks: tuple[CaseCheck, ...]
    mutants: tuple[MutantCheck, ...] = ()
    sanitizations: tuple[Sanitization, ...] = ()

    @property
    def passed(self) -> bool:
        return bool(self.checks) and not any(check.failures for check in self.checks)

    @property
    def failures(self) -> tuple[str, ...]:
        """Each in short: case, check, sentence."""
        return tuple(f"{c.case.name}, {each.check}: {each}" for c in self.checks for each in c.failures)

    @property
    def failures_told(self) -> str:
        """The first failure, and how many more there are. Only where it did not pass."""
        first, *more = self.failures or ("no case was checked",)
        return f"{first}; and {len(more)} more" if more else first
