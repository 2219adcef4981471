"""Baselines arranged for reading: one table a mode, providers side by side, and what host time says of a pass.

Pure; must not know how the page is laid out.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import Baseline, Profile
from warpsmith.contracts.verdict import Interval
from warpsmith.report import quantities
from warpsmith.report.rows import provider_order


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
        host, gpu = quantities.microseconds(row.host_us), quantities.microseconds(row.device_us)
        figures = f"a {row.mode.value} call takes the host {host} and the GPU {gpu}"
        if row.is_launch_bound:
            told.append(f"Launch-bound: {figures}, so calls in a row run at the host's pace and not the kernel's.")
        else:
            told.append(f"Not launch-bound: {figures}.")
    told += [f"No host time of {mode.value}: {why}." for mode, why in profile.no_launch_overhead.items()]
    return tuple(told)
