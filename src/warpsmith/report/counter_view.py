"""Counters and kernel durations arranged for reading: a row a launch, names of kernels in short.

Pure; owns the columns, must not know how the page is laid out.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.contracts.case import Mode
from warpsmith.contracts.counters import CounterRow
from warpsmith.contracts.profile import Profile
from warpsmith.measure.counters.kernel_names import short_name
from warpsmith.report import quantities

#: ncu metric -> column, and how its base unit is written. The names are those of profiling with `--print-units base`.
COUNTER_COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("gpu__time_duration.sum", "duration", "ns"),
    ("dram__bytes_read.sum", "read", "bytes"),
    ("dram__bytes_write.sum", "written", "bytes"),
    ("dram__bytes.sum.per_second", "DRAM", "bytes/s"),
    ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "DRAM of peak", "%"),
    ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "memory of peak", "%"),
    ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "SM of peak", "%"),
    ("sm__warps_active.avg.pct_of_peak_sustained_active", "warps active", "%"),
    ("sm__maximum_warps_per_active_cycle_pct", "warps possible", "%"),
    ("launch__waves_per_multiprocessor", "waves", ""),
    ("lts__t_sector_hit_rate.pct", "L2 hits", "%"),
    ("launch__registers_per_thread", "registers", ""),
)


@dataclass(frozen=True)
class CounterLine:
    """One launch of a call: its cells are in the order of COUNTER_COLUMNS, a dash where ncu gave no figure."""

    case: str
    mode: Mode
    kernel: str
    grid: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class DurationLine:
    """One launch of a call: its median time, and its share of the call's."""

    case: str
    mode: Mode
    kernel: str
    median_us: float
    share: float
    samples: int


def counter_lines(profile: Profile) -> tuple[CounterLine, ...]:
    return tuple(
        CounterLine(counters.case.name, counters.mode, short_name(row.kernel), _grid(row.grid), counter_cells(row))
        for counters in profile.counters
        for row in counters.rows
    )


def counter_cells(row: CounterRow) -> tuple[str, ...]:
    return tuple(_counter(row.metrics.get(metric), unit) for metric, _, unit in COUNTER_COLUMNS)


def _counter(value: float | None, unit: str) -> str:
    if value is None:
        return quantities.MISSING
    if unit == "ns":
        return quantities.time(value / 1e6)
    if unit == "bytes":
        return quantities.size(value)
    if unit == "bytes/s":
        return quantities.gb_s(value / 1e9)
    return f"{value:.1f}%" if unit == "%" else f"{value:.4g}"


def duration_lines(profile: Profile) -> Iterator[DurationLine]:
    for durations in profile.durations:
        medians = [statistics.median(kernel.samples_us) for kernel in durations.kernels]
        for kernel, median_us in zip(durations.kernels, medians, strict=True):
            yield DurationLine(
                case=durations.case.name,
                mode=durations.mode,
                kernel=short_name(kernel.name),
                median_us=median_us,
                share=median_us / sum(medians) if sum(medians) else 0.0,
                samples=len(kernel.samples_us),
            )


def _grid(told: str) -> str:
    """ncu's "(264, 1, 1)" as any other grid is written."""
    sizes = [int(size) for size in re.findall(r"\d+", told)]
    return quantities.grid(sizes) if sizes else told
