"""A profile arranged for reading: one table a mode, providers side by side, equal launches told once.

Pure; owns the arrangement of profile.md and the words for its classes, must not know how the page is laid out.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from warpsmith.contracts.audit import Tier
from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.contracts.measurement import ORIGINAL, CounterRow
from warpsmith.contracts.profile import Baseline, Bottleneck, Profile
from warpsmith.contracts.verdict import Interval
from warpsmith.report import quantities
from warpsmith.report.rows import provider_order

BOTTLENECK_MEANS: dict[Bottleneck, str] = {
    Bottleneck.NEAR_PEAK: "at 90% or more of the measured ceiling; little is left to win",
    Bottleneck.MEMORY_BOUND: "limited by a memory unit; fewer bytes or better access would help",
    Bottleneck.COMPUTE_BOUND: "limited by arithmetic; fewer or cheaper operations would help",
    Bottleneck.LATENCY_BOUND: "waiting, with neither memory nor arithmetic busy; more work in flight would help",
    Bottleneck.GRID_TOO_SMALL: "fewer programs than the GPU has room for; more or smaller programs would help",
    Bottleneck.BALANCED: "memory and arithmetic are about equally busy",
}

TIER_MEANS: dict[Tier, str] = {
    Tier.ELEMENT_WISE: "1, element-wise",
    Tier.REDUCTION: "2, reduction",
    Tier.FUSED: "3, fused or multi-pass",
}

#: ncu metric -> column, and how its base unit is written. The names are those of profiling with `--print-units base`.
COUNTER_COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("gpu__time_duration.sum", "duration", "ns"),
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
class CaseLine:
    """One tuning case: a cell a provider, in the table's order of providers."""

    case: str
    ceiling: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class BaselineTable:
    mode: Mode
    providers: tuple[str, ...]
    lines: tuple[CaseLine, ...]
    held_out: str
    footnotes: tuple[str, ...]


@dataclass(frozen=True)
class LaunchLine:
    """Launches of one jit function that differ in nothing but the case."""

    launch: LaunchRecord
    cases: tuple[str, ...]


def least_times_ms(profile: Profile) -> dict[tuple[str, Mode], float]:
    """(case, mode) -> ms at the measured ceiling: the original's time times its share of the ceiling."""
    return {
        (b.case, b.mode): b.share_of_ceiling * b.time_ms.value
        for b in profile.baselines
        if b.provider == ORIGINAL and b.time_ms is not None and b.share_of_ceiling is not None
    }


def baseline_tables(profile: Profile) -> tuple[BaselineTable, ...]:
    return tuple(_baseline_table(profile, mode) for mode in Mode if any(b.mode is mode for b in profile.baselines))


def _baseline_table(profile: Profile, mode: Mode) -> BaselineTable:
    found = [b for b in profile.baselines if b.mode is mode]
    providers = tuple(sorted({b.provider for b in found if b.time_ms is not None}, key=provider_order))
    by_key = {(b.case, b.provider): b for b in found}
    warm = {(b.case, b.provider): b.time_ms for b in profile.warm_baselines if b.mode is mode}
    tuning = dict.fromkeys(b.case for b in found if b.role is Role.TUNING)
    lines = tuple(
        CaseLine(
            case,
            _ceiling(by_key.get((case, ORIGINAL))),
            tuple(_cell(by_key.get((case, p)), warm.get((case, p))) for p in providers),
        )
        for case in tuning
    )
    notes = _footnotes(found, providers)
    if any(case in tuning for case, _ in warm):
        notes += (f"Warm is with the inputs left in L2, where the least bytes fit its {_l2(profile)}.",)
    return BaselineTable(mode, providers, lines, _held_out(found), notes)


def _l2(profile: Profile) -> str:
    return quantities.size(profile.device.l2_bytes)


def _ceiling(original: Baseline | None) -> str:
    return quantities.gb_s(original.ceiling_gb_s if original else None)


def _cell(baseline: Baseline | None, warm_ms: Interval | None) -> str:
    if baseline is None:
        return "not measured"
    if baseline.time_ms is None:
        return f"none: {baseline.unavailable}" if baseline.unavailable else "not measured"
    figures = [
        quantities.time_interval(baseline.time_ms),
        f"{quantities.gb_s(baseline.gb_s)}, {quantities.percent(baseline.share_of_ceiling)}",
        f"peak {quantities.size(baseline.peak_bytes)}",
    ]
    if warm_ms is not None:
        figures.append(f"warm {quantities.time_interval(warm_ms)}")
    return "<br>".join(figures)


def _held_out(found: list[Baseline]) -> str:
    """The held-out cases in a sentence: the original's shares of the ceiling, and who is fastest how often."""
    held_out = [b for b in found if b.role is Role.HELD_OUT and b.time_ms is not None]
    originals = [b for b in held_out if b.provider == ORIGINAL]
    if not originals:
        return "No held-out case was measured."
    shares = {b.case: b.share_of_ceiling for b in originals if b.share_of_ceiling is not None}
    sentences = [f"{len(originals)} held-out cases"]
    if shares:
        low, high = min(shares, key=lambda c: shares[c]), max(shares, key=lambda c: shares[c])
        middle = quantities.percent(statistics.median(shares.values()))
        sentences.append(
            f"in the median the original reaches {middle} of the ceiling, "
            f"from {quantities.percent(shares[low])} ({quantities.case_label(low)}) "
            f"to {quantities.percent(shares[high])} ({quantities.case_label(high)})"
        )
    fastest: dict[str, int] = {}
    for case in dict.fromkeys(b.case for b in originals):
        times = {b.provider: b.time_ms.value for b in held_out if b.case == case and b.time_ms is not None}
        best = min(times, key=lambda p: times[p])
        fastest[best] = fastest.get(best, 0) + 1
    counts = ", ".join(f"{name} {count}" for name, count in sorted(fastest.items(), key=lambda i: (-i[1], i[0])))
    return "; ".join([*sentences, f"fastest at: {counts}"]) + "."


def _footnotes(found: list[Baseline], providers: tuple[str, ...]) -> tuple[str, ...]:
    """How each provider was timed, where that is not how the original was."""
    methods = {
        provider: sorted({quantities.method(b.method) for b in found if b.provider == provider and b.method})
        for provider in providers
    }
    usual = methods.get(ORIGINAL, [])
    notes = [f"Timed by {' and '.join(usual)}."] if usual else []
    notes += [
        f"{provider} was timed by {' and '.join(used)}, so its times do not compare to the percent."
        for provider, used in methods.items()
        if used and used != usual
    ]
    absent = {b.provider: b.unavailable for b in found if b.provider not in providers}
    notes += [f"{provider} was not measured: {why or 'no reason is recorded'}." for provider, why in absent.items()]
    return tuple(notes)


def overhead_sentences(profile: Profile) -> tuple[str, ...]:
    """One a pass of the original: which of host and device the other waits for. Then the passes that have no figure."""
    told = []
    for row in profile.launch_overheads:
        if row.provider != ORIGINAL or row.device_us is None:
            continue
        figures = f"a {row.mode.value} call takes the host {_us(row.host_us)} and the GPU {_us(row.device_us)}"
        if row.is_launch_bound:
            told.append(f"Launch-bound: {figures}, so calls in a row run at the host's pace and not the kernel's.")
        else:
            told.append(f"Not launch-bound: {figures}.")
    told += [f"No host time of {mode.value}: {why}." for mode, why in profile.no_launch_overhead.items()]
    return tuple(told)


def _us(microseconds: float) -> str:
    return quantities.time(microseconds / 1000)


def launch_lines(profile: Profile) -> tuple[LaunchLine, ...]:
    """Each different launch at the tuning cases, with the cases it is made at, in the order recorded."""
    held_out = {b.case for b in profile.baselines if b.role is Role.HELD_OUT}
    merged: dict[tuple[object, ...], tuple[LaunchRecord, dict[str, None]]] = {}
    for case, by_mode in profile.launches.items():
        if case in held_out:
            continue
        for launches in by_mode.values():
            for launch in launches:
                key = (launch.jit_function, launch.line, launch.grid, launch.compiled.binary_sha256)
                merged.setdefault(key, (launch, {}))[1][case] = None
    return tuple(LaunchLine(launch, tuple(cases)) for launch, cases in merged.values())


def counter_cells(row: CounterRow) -> tuple[str, ...]:
    """One cell for each of COUNTER_COLUMNS; the dash where ncu gave no figure."""
    return tuple(_counter(row.metrics.get(metric), unit) for metric, _, unit in COUNTER_COLUMNS)


def _counter(value: float | None, unit: str) -> str:
    if value is None:
        return quantities.MISSING
    if unit == "ns":
        return quantities.time(value / 1e6)
    if unit == "bytes/s":
        return quantities.gb_s(value / 1e9)
    return f"{value:.1f}%" if unit == "%" else f"{value:.4g}"
