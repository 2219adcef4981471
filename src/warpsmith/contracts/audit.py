"""What reading a kernel's source tells: functions, launches, knobs, opportunities. Every finding has a line."""

from __future__ import annotations

from enum import Enum

from warpsmith.contracts.base import Contract


class Tier(int, Enum):
    """How much a kernel does in one go."""

    ELEMENT_WISE = 1
    REDUCTION = 2
    FUSED = 3


class KnobKind(str, Enum):
    NUM_WARPS = "num_warps"
    NUM_STAGES = "num_stages"
    MAXNREG = "maxnreg"
    #: a block that must be at least as wide as a row
    BLOCK_COVERING = "block_covering"
    #: a block that steps along an axis, free to change
    BLOCK_TILING = "block_tiling"
    #: multiplies the SM count from which the host derives how many programs loop over the rows
    PROGRAMS_PER_SM = "programs_per_sm"
    #: how many programs loop over the rows: a number that replaces what the source computes
    PROGRAMS = "programs"
    #: a constexpr that is the num_stages of a `tl.range` inside the kernel
    LOOP_STAGES = "loop_stages"
    #: a constexpr that is the size of a group of tiles in `tl.swizzle2d`: their order alone
    TILE_GROUP = "tile_group"
    #: a constexpr that is the warp_specialize of a `tl.range` inside the kernel: 0 or 1
    WARP_SPECIALIZE = "warp_specialize"
    #: a constexpr that decides whether streamed loads are cached in L2 alone: 0 or 1
    PAST_L1 = "past_l1"


class KnobOrigin(str, Enum):
    """How the source sets a knob today."""

    LITERAL = "literal"
    FORMULA = "formula"
    HELPER = "helper"
    PARAMETER = "parameter"
    SM_COUNT = "sm_count"
    ABSENT = "absent"
    #: in the configs of Triton's autotune decorator
    AUTOTUNE = "autotune"
    #: computed by a heuristics decorator, after whatever the launch says
    HEURISTICS = "heuristics"
    #: kept on an autograd function's `ctx` by the forward pass
    CONTEXT = "context"
    OTHER = "other"


class Knob(Contract):
    """A value that changes speed and not the result, at one launch.

    `id` is "<jit function>.<name>". `variable` is the host function's variable that carries it, and
    `anchor_line` the line of the statement after which an override takes effect (for an absent launch
    keyword, the launch itself). `tunable` is False where it cannot be changed, with `why_not`. `listed` are
    the values that the configs of an autotune decorator give it, in ascending order, where they can be read.
    """

    id: str
    kind: KnobKind
    jit_function: str
    host_function: str
    name: str
    origin: KnobOrigin
    variable: str | None
    line: int
    anchor_line: int
    expression: str
    tunable: bool
    why_not: str | None = None
    listed: tuple[int, ...] = ()

    @property
    def is_unset_cap(self) -> bool:
        """Whether it is a cap on registers that the source does not set: open to a search, no part of the source."""
        return self.kind is KnobKind.MAXNREG and self.origin is KnobOrigin.ABSENT

    @property
    def is_set_by_decorator(self) -> bool:
        """Whether a decorator sets it, whatever the host code says: a table in the host code cannot give it."""
        return self.origin in (KnobOrigin.AUTOTUNE, KnobOrigin.HEURISTICS)


class LaunchSite(Contract):
    """Where a jit function is launched."""

    jit_function: str
    host_function: str
    line: int
    grid: str


class JitFunction(Contract):
    name: str
    line: int
    tier: Tier
    has_loop: bool
    loads: int
    stores: int
    atomics: int
    reductions: int


class OpportunityKind(str, Enum):
    NEEDLESS_INITIALISATION = "needless_initialisation"
    #: rows that are loaded once
    STREAM_ONCE = "stream_once"
    #: what is stored once and not read again by the same kernel
    STORED_ONCE = "stored_once"
    ONE_PROGRAM_PER_SM = "one_program_per_sm"
    UNPIPELINED_LOOP = "unpipelined_loop"
    STEPPED_WARPS = "stepped_warps"
    #: a block is fixed, or far wider than the rows it covers
    SHORT_ROWS = "short_rows"
    UNCOALESCED = "uncoalesced"
    LOOP_INVARIANT_LOAD = "loop_invariant_load"
    REPEATED_PASS = "repeated_pass"
    WIDE_ARITHMETIC = "wide_arithmetic"
    HOST_SYNCHRONIZATION = "host_synchronization"
    CONTIGUOUS_COPY = "contiguous_copy"
    PERFORMANCE_TODO = "performance_todo"
    #: more bytes cross device memory than must: seen by counters, not in the source
    EXCESS_TRAFFIC = "excess_traffic"
    #: tiles that share operands are started far from each other
    UNGROUPED_TILES = "ungrouped_tiles"
    #: one program a row, where several short ones could share a tile
    ROW_A_PROGRAM = "row_a_program"
    #: arithmetic that fewer instructions do: a root to divide by, exp, a division in a loop
    COSTLY_FUNCTION = "costly_function"
    #: operands of a matrix product that are converted to float32 only for it
    WIDENED_DOT = "widened_dot"
    #: a loop with matrix products in which every warp does everything
    UNSPECIALIZED_LOOP = "unspecialized_loop"
    #: the same with one product, whose operands come by tensor descriptors alone
    UNSPECIALIZED_TMA_LOOP = "unspecialized_tma_loop"


class Opportunity(Contract):
    """A concrete thing to try, and the line it is about."""

    kind: OpportunityKind
    function: str
    line: int
    what: str
    why: str


class PatternKind(str, Enum):
    """How a kernel accesses memory and computes: neither good nor bad by itself."""

    MASK = "mask"
    STRIDE = "stride"
    EVICTION_POLICY = "eviction policy"
    CAST = "cast"
    SAVED_FOR_BACKWARD = "saved for backward"
    RECOMPUTED = "recomputed"
    IN_PLACE = "in place"
    ONLINE = "online algorithm"
    ATOMIC = "atomic"
    #: stored by one launch of a call and loaded by a later one
    INTERMEDIATE = "intermediate in memory"


class Pattern(Contract):
    """One way in which a function accesses memory or computes, with the lines where it shows."""

    kind: PatternKind
    function: str
    lines: tuple[int, ...]
    what: str


class SourceAudit(Contract):
    tier: Tier
    jit_functions: tuple[JitFunction, ...]
    launches: tuple[LaunchSite, ...]
    knobs: tuple[Knob, ...]
    opportunities: tuple[Opportunity, ...]
    patterns: tuple[Pattern, ...] = ()
    #: what the scan does not understand, by name and line
    not_covered: tuple[str, ...] = ()

    def knob(self, knob_id: str) -> Knob:
        """The knob of that id. Raises KeyError."""
        for knob in self.knobs:
            if knob.id == knob_id:
                return knob
        raise KeyError(knob_id)
