"""The profile: stage 1's answer, which stage 2 reads as JSON and a person as a page."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from warpsmith.contracts.aim import Aim
from warpsmith.contracts.audit import Opportunity, SourceAudit
from warpsmith.contracts.base import Contract, Document, RepositoryPath, Sha256
from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.counters import Counters, Durations
from warpsmith.contracts.device import DeviceFacts, Origin, OriginKind, TargetGpu
from warpsmith.contracts.launch import LaunchRecord, SettingsProbe
from warpsmith.contracts.measurement import L2
from warpsmith.contracts.verdict import Interval


class EvidenceTier(str, Enum):
    """What a diagnosis rests on, the best first."""

    COUNTERS = "ncu counters"
    DURATIONS = "kernel durations"
    #: of whole calls: what each kernel of them takes was not asked
    TIMINGS = "device times"
    COMPILED = "compiled code"
    SOURCE = "source and cost model"


class Bottleneck(str, Enum):
    NEAR_PEAK = "near_peak"
    MEMORY_BOUND = "memory_bound"
    COMPUTE_BOUND = "compute_bound"
    LATENCY_BOUND = "latency_bound"
    GRID_TOO_SMALL = "grid_too_small"
    BALANCED = "balanced"


class EvidenceRow(Contract):
    """A signal, what was observed, what that supports, and where the figure comes from."""

    signal: str
    observation: str
    supports: str
    source: str


class Baseline(Contract):
    """One provider at one case and mode. Times in milliseconds with a 95% interval; peak memory in bytes."""

    case: str
    role: Role
    mode: Mode
    provider: str
    time_ms: Interval | None
    peak_bytes: int | None
    gb_s: float | None
    ceiling_gb_s: float | None
    share_of_ceiling: float | None
    method: str | None
    unavailable: str | None = None


class LaunchOverhead(Contract):
    """Host time of a call, launch included, beside its device time, of one provider at one case and mode.

    Host time is the lower quartile of its calls, as what disturbs the host only ever adds; device time is the median.
    """

    case: str
    mode: Mode
    provider: str
    host_us: float
    device_us: float | None

    @property
    def is_launch_bound(self) -> bool:
        """Whether the GPU waits for the host when calls follow one another."""
        return self.device_us is not None and self.host_us > self.device_us


class Headroom(Contract):
    """What is left to win at one tuning case: the time taken, and the least possible at the nearer ceiling.

    `bound` says which ceiling that is. Where nothing was timed, `time_ms`, `share` and `headroom_us` are None.
    `counted_bytes` crossed device memory by the counters, `least_bytes` had to by the target's cost model, which also
    gives `flops`, the floating-point operations.
    """

    case: str
    weight: float
    bound: Literal["copy", "matmul"]
    least_ms: float
    least_bytes: int
    time_ms: float | None = None
    share: float | None = None
    headroom_us: float | None = None
    counted_bytes: float | None = None
    flops: float | int | None = None
    #: what the operations are of where that is not the dtype of the case, as `Cost.operands`
    operands: str | None = None


class ModeProfile(Contract):
    """One mode's diagnosis over its tuning cases. `headroom_us` is what the ceiling would save of a call, weighted.

    Where nothing was timed, `share_of_ceiling` and `headroom_us` are None and the class is a prediction. They are None
    too where the cost model claims more work than the time allows, or no matmul ceiling fits: an observation tells.
    """

    mode: Mode
    bottleneck: Bottleneck
    #: geometric mean of the tuning cases' shares of the copy (or matmul) ceiling
    share_of_ceiling: float | None
    headroom_us: float | None
    evidence: tuple[EvidenceRow, ...]
    #: what ncu's own rule would say and why ours differs, where it does
    ncu_disagreement: str | None = None
    #: the tier of the evidence that the class was read off
    tier: EvidenceTier | None = None
    headrooms: tuple[Headroom, ...] = ()
    #: a sentence or two: what holds it back by which figures, or that it is near its peak and to be left alone
    conclusion: str = ""


class PricedOpportunity(Contract):
    """An opportunity with what it may bring in one pass: microseconds a call, weighted over the tuning cases, and the
    speed-up of that pass. Predicted, by the rule in `basis`; the case at which most is saved is told with its speed-up.
    """

    opportunity: Opportunity
    mode: Mode
    low_us: float
    high_us: float
    predicted_low: float
    predicted_high: float
    basis: str
    case: str | None = None
    case_predicted_high: float | None = None


class TouchedOpportunity(Contract):
    """An opportunity of which no time tells the worth: the share of a call's least work that it concerns.

    It follows from sizes, grid and compiled code alone; `basis` says how.
    """

    opportunity: Opportunity
    share: float
    basis: str


class Recommendation(Contract):
    """A strategy worth trying, in order. Predicted speed-up of the goal metric, as a range."""

    strategy: str
    why: str
    predicted_low: float
    predicted_high: float
    lines: tuple[int, ...] = ()


class OfflineCompilation(Contract):
    """What the compiler here makes of the original for a GPU that need not be there. Nothing was launched.

    `unavailable` says why a case, or all of it, has no launches. `notes` qualify those that there are.
    """

    gpu: TargetGpu
    triton: str
    origin: Origin
    #: case name -> mode -> launches, in the form of `Profile.launches`
    launches: dict[str, dict[Mode, tuple[LaunchRecord, ...]]]
    unavailable: str | None = None
    notes: tuple[str, ...] = ()


class Profile(Document):
    """optimization/<kernel>/profile.json.

    `warm_baselines` are those whose working set fits L2, timed again with L2 warm where `baselines` are cold.
    `launch_overheads` are of each pass at the smallest tuning case, `no_launch_overhead` says why a pass has none.
    """

    kernel: str
    run_id: str
    goal: Mode
    source: RepositoryPath
    source_sha256: Sha256
    device: DeviceFacts
    origin: Origin
    baselines: tuple[Baseline, ...]
    #: case name -> mode -> launches of the original
    launches: dict[str, dict[Mode, tuple[LaunchRecord, ...]]]
    counters: tuple[Counters, ...]
    #: which tier of evidence was reached: ncu counters, kernel durations, device times, compiled code
    evidence_tier: str
    audit: SourceAudit
    modes: tuple[ModeProfile, ...]
    recommendations: tuple[Recommendation, ...]
    expected_variants: int
    observations: tuple[str, ...]
    offline: OfflineCompilation | None = None
    l2: L2 = L2.COLD
    warm_baselines: tuple[Baseline, ...] = ()
    launch_overheads: tuple[LaunchOverhead, ...] = ()
    no_launch_overhead: dict[Mode, str] = Field(default_factory=dict)
    #: the kernels of one call by torch's profiler, asked where ncu refuses
    durations: tuple[Durations, ...] = ()
    #: best first, those of the goal's passes before others
    opportunities: tuple[PricedOpportunity, ...] = ()
    #: where nothing was timed: what concerns most of a call first
    touched: tuple[TouchedOpportunity, ...] = ()
    settings_probes: tuple[SettingsProbe, ...] = ()
    expected_variants_why: str = ""
    #: what a reader must know of the GPU: that another was asked for, that others are there
    device_notes: tuple[str, ...] = ()
    #: what the run is after beyond the goal's mode; in the file only where it was asked for
    aim: Aim = Aim()

    @model_serializer(mode="wrap")
    def _without_an_aim_that_was_not_asked_for(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = serialize(self)
        if self.aim == Aim():
            content.pop("aim", None)
        return content

    @property
    def is_predicted(self) -> bool:
        """Whether nothing was run: no GPU, and no recording of one."""
        return self.origin.kind is OriginKind.PREDICTED

    def mode_profile(self, mode: Mode) -> ModeProfile:
        """The diagnosis of that mode. Raises KeyError where the target lacks it."""
        return {profile.mode: profile for profile in self.modes}[mode]
