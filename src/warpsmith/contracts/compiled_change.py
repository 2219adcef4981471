"""What a change makes of a kernel's compiled code: its launches beside those of the base, for GPUs that need not be
there, and which differences are over a limit."""

from __future__ import annotations

from enum import Enum

from warpsmith.contracts.base import Contract, Document, Sha256
from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import Origin


class Fact(str, Enum):
    """What two compilations of one launch are compared by; of the last two, a limit alone speaks."""

    GRID = "grid"
    WARPS = "warps"
    STAGES = "stages"
    CLUSTER = "blocks a cluster"
    REGISTERS = "registers a thread"
    SPILLS = "spills a thread"
    SHARED_MEMORY = "shared memory a block"
    RESIDENT_WARPS = "resident warps an SM"
    SPECIALIZATIONS = "specializations"
    COMPILES = "compiles"


class CompiledLaunch(Contract):
    """One launch as it is compiled for one GPU. Registers, `spill_bytes` of a thread; `shared_bytes` of a block.

    `resident_warps` is how many an SM holds at once, `limiter` what keeps it from more: "registers", "shared memory",
    "warps" or "blocks". `fits_at_once`: the GPU holds the whole grid, so that the limit is not felt.
    """

    jit_function: str
    grid: tuple[int, ...]
    num_warps: int
    num_stages: int
    num_ctas: int
    registers: int
    spill_bytes: int
    shared_bytes: int
    resident_warps: int
    limiter: str
    fits_at_once: bool
    binary_sha256: Sha256


class LaunchPair(Contract):
    """The same launch of one call on both sides. None: that side does not make it."""

    case: str
    mode: Mode
    base: CompiledLaunch | None
    change: CompiledLaunch | None


class CallGap(Contract):
    """A call that one side or both have no launches of, and why. None: there is nothing against that side."""

    case: str
    mode: Mode
    base: str | None
    change: str | None


class CompiledRegression(Contract):
    """What is over a limit of warpsmith.yaml. `limit` says which; a figure is in the unit that its fact has.

    A place that is None is all of them; a figure that is None is not there: the launch is new, or does not compile.
    """

    fact: Fact
    limit: str
    jit_function: str | None = None
    case: str | None = None
    mode: Mode | None = None
    base: int | None = None
    change: int | None = None


class ComparedOn(Contract):
    """Both sides, compiled for one GPU. `specializations` counts different machine codes: (base, change).

    `notes` qualify launches, such as which configuration stands in for an autotuned one's.
    """

    gpu: str
    pairs: tuple[LaunchPair, ...]
    gaps: tuple[CallGap, ...]
    specializations: tuple[int, int]
    regressions: tuple[CompiledRegression, ...]
    notes: tuple[str, ...] = ()


class BaseRef(Contract):
    """What a change is compared with. `commit` is None where it is a file; `why` says how it was chosen, where it was.

    `missing` says that there is no such kernel in it; `source` and `source_sha256` are None then.
    """

    name: str
    commit: str | None = None
    why: str | None = None
    source: str | None = None
    source_sha256: Sha256 | None = None
    missing: str | None = None


class CompiledChange(Document):
    """The answer of `warpsmith check --base`. Nothing was run: its facts are predicted, and say nothing of speed.

    `limits` are those of warpsmith.yaml, with their defaults, by name.
    """

    kernel: str
    file: str
    file_sha256: Sha256
    base: BaseRef
    seed: int
    triton: str
    origin: Origin
    limits: dict[str, float]
    cases: tuple[str, ...]
    on: tuple[ComparedOn, ...]
    passed: bool
    notes: tuple[str, ...] = ()
