"""A bench as lines of plain text, a hundred columns wide: what was compared and how, a line a contender, what to mind.

Pure; owns the words and the widths of the table, must not know where it is shown.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby

from warpsmith.contracts.bench import BenchResult, BenchRow, Finding
from warpsmith.contracts.measurement import L2, ORIGINAL, TimingMethod
from warpsmith.report import quantities

#: Columns after the contender's name: heading, width, whether it stands at the right.
COLUMNS = (
    ("device time", 23, False),
    ("speed-up", 35, False),
    ("ceil.", 6, True),
    ("memory", 9, True),
    ("host µs", 7, True),
)
WIDTH = 100
LEAST_NAME = 9

LEGEND = (
    "ceil.: the least bytes over the time, of the measured copy ceiling, which L2 can beat; memory: peak above the "
    "inputs; host: what a call takes until it returns, launches included; *: longer than on the device, launch-bound."
)


def bench_lines(result: BenchResult) -> list[str]:
    """The whole answer but for where it was written."""
    usual = _usual(result.rows)
    names = max([LEAST_NAME, *(len(row.contender) for row in result.rows)])
    lines = [_title(result), *_wrapped(_method_told(result, usual)), *_excluded(result), "", _heading(names)]
    for (case, mode, l2), rows in groupby(result.rows, key=lambda row: (row.case, row.mode, row.l2)):
        here = list(rows)
        lines.append(f"{quantities.case_label(case)}, {mode.value}, L2 {l2.value}{_apart(here, usual)}")
        lines += [_line(row, names) for row in here]
    return [*lines, "", *_wrapped(LEGEND), *_warnings(result)]


def _title(result: BenchResult) -> str:
    digest = result.sources[ORIGINAL][:12]
    origin = quantities.origin_told(result.origin, result.device)
    return f"{result.kernel}: {result.source} ({digest}), {origin}"


def _method_told(result: BenchResult, usual: TimingMethod) -> str:
    timed = [row for row in result.rows if row.method is not None]
    rounds = sorted({row.rounds for row in timed})
    span = f"{rounds[0]}" if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    l2 = " and ".join(dict.fromkeys(row.l2.value for row in sorted(timed, key=lambda row: row.l2 is L2.WARM)))
    addresses = {True: "equal addresses", False: "unequal addresses", None: "addresses unknown"}
    found = "; ".join(addresses[same] for same in (True, False, None) if any(r.same_addresses is same for r in timed))
    return (
        f"Device time by {quantities.method(usual.value)}, L2 {l2}, {found}: medians with 95% intervals over {span} "
        "interleaved rounds. Speed-up is over the original."
    )


def _usual(rows: Sequence[BenchRow]) -> TimingMethod:
    """The method that most were timed by."""
    methods = [row.method for row in rows if row.method is not None]
    return max(TimingMethod, key=methods.count)


def _excluded(result: BenchResult) -> list[str]:
    return [line for name, why in result.excluded.items() for line in _wrapped(f"{name} was not timed: {why}")]


def _heading(names: int) -> str:
    return _cells("contender", names, [title for title, _, _ in COLUMNS])


def _apart(rows: Sequence[BenchRow], usual: TimingMethod) -> str:
    """What is not as usual at this place, or not as it should be."""
    told = [
        f"{row.contender} by {quantities.method(row.method.value)}"
        for row in rows
        if row.method is not None and row.method is not usual
    ]
    if any(row.same_addresses is False for row in rows):
        told.append("unequal addresses")
    if any(row.capped for row in rows):
        told.append("cut off by the time cap")
    return f" ({', '.join(told)})" if told else ""


def _line(row: BenchRow, names: int) -> str:
    if row.time_ms is None:
        return f"  {row.contender:{names}} none: {' '.join((row.unavailable or '').split())}"
    speedup = quantities.ratio_interval(row.speedup) if row.speedup is not None else ""
    if row.finding in (Finding.NO_DIFFERENCE, Finding.INCONCLUSIVE):
        speedup += f" {row.finding.value}"
    figures = (
        quantities.time_interval(row.time_ms),
        speedup,
        quantities.percent(row.share_of_ceiling),
        quantities.size(row.peak_bytes),
        _host(row.host_us, row.time_ms.value),
    )
    return _cells(row.contender, names, figures)


def _host(host_us: float | None, time_ms: float) -> str:
    if host_us is None:
        return quantities.MISSING
    return f"{host_us:.1f}{'*' if host_us > 1000 * time_ms else ' '}"


def _cells(name: str, names: int, figures: Sequence[str]) -> str:
    cells = [
        f"{text:>{width}}" if at_the_right else f"{text:{width}}"
        for text, (_, width, at_the_right) in zip(figures, COLUMNS, strict=True)
    ]
    return f"  {name:{names}} {' '.join(cells)}".rstrip()


def _warnings(result: BenchResult) -> list[str]:
    told = list(result.notes)
    throttled = sum(row.throttled_blocks for row in result.rows)
    if throttled:
        reasons = dict.fromkeys(reason for row in result.rows for reason in row.throttle_reasons)
        of = sum(row.rounds for row in result.rows)
        told.append(f"{throttled} of {of} blocks ran throttled ({', '.join(reasons)}): these figures may be too slow")
    reasons = dict.fromkeys(row.method_reason for row in result.rows if row.method_reason is not None)
    told += [f"not by CUDA-graph replay: {reason}" for reason in reasons]
    return [line for text in told for line in _wrapped(f"note: {text}")]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), WIDTH, subsequent_indent="  ", break_on_hyphens=False)
