"""Owns one call of a mode at one place, as a rule of prices sees it: its kernels, and what of its headroom is whose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.contracts.audit import Opportunity
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.contracts.profile import Bottleneck
from warpsmith.diagnose.counted import DRAM_PCT, average, counted_bytes
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.excess import excess_ratio
from warpsmith.diagnose.kernels import COPY, FILL, KernelTime, kernel_times, overhead_us, scaled, share_of_own
from warpsmith.diagnose.occupancy import Occupancy
from warpsmith.diagnose.places import Place, row_loops
from warpsmith.diagnose.roofline import copy_ceiling_gb_s


@dataclass(frozen=True)
class Call:
    """`kernels` are the call's, or those of the nearest place at which they were seen, scaled by the least bytes.

    There are none where no place of the mode shows them; `seen_at` is the case that does. `excess` is counted over
    least bytes, and `dram_share` of its peak is what DRAM was busy then, None where none was counted. `bytes_us` is the
    time of the least bytes at the copy ceiling, `plot_axis` the axis of a row's width.
    """

    place: Place
    bottleneck: Bottleneck
    bytes_us: float
    kernels: tuple[KernelTime, ...]
    seen_at: str | None
    excess: float | None
    dram_share: float | None
    loops: frozenset[str]
    plot_axis: str

    @property
    def kernels_seen(self) -> bool:
        return bool(self.kernels)

    @property
    def fills_us(self) -> tuple[float, ...]:
        return tuple(k.us for k in self.kernels if k.name == FILL)

    @property
    def copies_us(self) -> tuple[float, ...]:
        return tuple(k.us for k in self.kernels if k.name == COPY)

    @property
    def waits(self) -> bool:
        """Whether latency is what holds it back."""
        return self.bottleneck in (Bottleneck.LATENCY_BOUND, Bottleneck.GRID_TOO_SMALL)

    @property
    def width(self) -> int | None:
        return self.place.case.axes.get(self.plot_axis)

    @property
    def rows(self) -> int:
        """Rows of the case: the product of its other axes."""
        return math.prod(size for axis, size in self.place.case.axes.items() if axis != self.plot_axis)

    def launches_of(self, opportunity: Opportunity) -> list[tuple[LaunchRecord, Occupancy]]:
        """The launches that the opportunity's function is, or makes; all of them where it is none of theirs."""
        pairs = list(zip(self.place.launches, self.place.occupancies, strict=True))
        return [p for p in pairs if opportunity.function in (p[0].jit_function, p[0].host_function)] or pairs

    def headroom_of(self, opportunity: Opportunity) -> float:
        """Microseconds that its kernels' own work is above the ceiling: fills and copies apart, by their time."""
        names = frozenset(record.jit_function for record, _ in self.launches_of(opportunity))
        beside_us = overhead_us(self.kernels)
        return max(0.0, self.place.headroom_us - beside_us) * share_of_own(self.kernels, names)

    def time_of(self, opportunity: Opportunity) -> float:
        """Microseconds of the call that are its kernels'."""
        names = frozenset(record.jit_function for record, _ in self.launches_of(opportunity))
        return max(0.0, self.place.time_us - overhead_us(self.kernels)) * share_of_own(self.kernels, names)


def calls(at: Sequence[Place], bottleneck: Bottleneck, evidence: Evidence) -> tuple[Call, ...]:
    """The calls at the places of one mode."""
    return tuple(_call(place, at, bottleneck, evidence) for place in at)


def _call(place: Place, at: Sequence[Place], bottleneck: Bottleneck, evidence: Evidence) -> Call:
    seen = min((p for p in at if kernel_times(p)), key=lambda p: _far(p, place), default=None)
    by = 1.0 if seen is None or seen is place else _bytes(place) / _bytes(seen)
    return Call(
        place=place,
        bottleneck=bottleneck,
        bytes_us=_bytes_us(place, evidence.device),
        kernels=scaled(kernel_times(seen), by) if seen else (),
        seen_at=seen.case.name if seen else None,
        excess=excess_ratio(counted) if (counted := _counted(place, at)) is not None else None,
        dram_share=None if counted is None else _dram_share(counted, evidence.device),
        loops=row_loops(place.launches, evidence.audit, evidence.device.sm_count),
        plot_axis=evidence.spec.plot_axis,
    )


def _bytes_us(place: Place, device: DeviceFacts) -> float:
    ceiling_gb_s = copy_ceiling_gb_s(place.cost, device)
    return place.cost.bytes_moved / (1e3 * ceiling_gb_s) if ceiling_gb_s else 0.0


def _counted(place: Place, at: Sequence[Place]) -> Place | None:
    """Itself, else the place nearest in least bytes, of those counted: what is moved too often is so at any size."""
    return min((p for p in at if excess_ratio(p) is not None), key=lambda p: _far(p, place), default=None)


def _dram_share(place: Place, device: DeviceFacts) -> float | None:
    """By its own counter, else the counted bytes over the time as a share of the copy ceiling."""
    busy_pct, moved = average(place.rows, DRAM_PCT), counted_bytes(place.rows)
    if busy_pct is not None:
        return busy_pct / 100
    ceiling_gb_s = copy_ceiling_gb_s(place.cost, device)
    return moved / (place.time_ms * 1e6) / ceiling_gb_s if moved is not None and ceiling_gb_s else None


def _bytes(place: Place) -> int:
    return max(1, place.cost.bytes_moved)


def _far(one: Place, other: Place) -> float:
    return abs(math.log(_bytes(one) / _bytes(other)))
