"""What the kernels of one call did: hardware counters by ncu, durations by torch's profiler."""

from __future__ import annotations

from pydantic import Field

from warpsmith.contracts.base import Contract
from warpsmith.contracts.case import Case, Mode


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


class KernelDuration(Contract):
    """One kernel launch of a call, in order: its device time, a sample a call. `name` is the GPU function's."""

    name: str
    samples_us: tuple[float, ...] = Field(min_length=1)


class Durations(Contract):
    """The kernels of one call at one case and mode, by torch's profiler; or why they are not known.

    They tell where the time of a call goes, not how long it takes: the profiler lengthens short kernels.
    """

    case: Case
    mode: Mode
    kernels: tuple[KernelDuration, ...] = ()
    unavailable: str | None = None
