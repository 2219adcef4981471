"""A bench as lines of plain text, a hundred columns wide: what was compared and how, a line a contender, what to mind.

Pure; owns the words and the widths of the table, must not know where it is shown.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from warpsmith.contracts.bench import BenchResult, BenchRow, Finding
from warpsmith.contracts.measurement import ORIGINAL, TimingMethod
from warpsmith.report import quantities
from warpsmith.report.bench_rows import NOT_RECORDED
from warpsmith.verdict.decision import MIN_ROUNDS

#: Columns after the contender's name: heading, whether it stands at the right.
COLUMNS = (("device time", False), ("speed-up", False), ("ceil.", True), ("memory", True), ("host", True))
WIDTH = 100
LEAST_NAME = 9
INDENT = "  "

ROUND = "round: every contender in turn, on inputs, addresses, loaded code and captures that are made anew for it"
CEILING = "ceil.: the least bytes over the time, of the measured copy ceiling, which L2 can beat"
MEMORY = "memory: peak above the inputs"
HOST = "host: µs that a call takes until it returns, launches included, the lower quartile of the calls"
LAUNCH_BOUND = "*: longer than on the device, so that calls in a row run at the host's pace: launch-bound"
INCONCLUSIVE = (
    f"inconclusive: the interval holds 1 and is too wide to tell, or is of fewer than {MIN_ROUNDS} rounds, which tell "
    "nothing"
)
UNEQUAL = (
    "unequal addresses: the contenders allocate differently and could not run at the same addresses, which alone is "
    "worth some tenths of a per cent in a round"
)


@dataclass(frozen=True)
class Table:
    """The columns as wide as what stands in them; the last is left out where nothing does."""

    rows: tuple[BenchRow, ...]
    has_host: bool
    names: int
    widths: tuple[int, ...]

    @classmethod
    def of(cls, rows: Sequence[BenchRow]) -> Table:
        has_host = any(row.host_us is not None for row in rows)
        titles = [title for title, _ in COLUMNS]
        cells = list(zip(titles, *(_figures(row) for row in rows if _has_figures(row)), strict=True))
        widths = tuple(max(map(len, column)) for column in cells[: len(COLUMNS) - (not has_host)])
        room = WIDTH - len(INDENT) - sum(widths) - len(widths)
        longest = max(LEAST_NAME, *(len(row.contender) for row in rows))
        return cls(tuple(rows), has_host, max(LEAST_NAME, min(longest, room)), widths)

    @property
    def heading(self) -> str:
        return self._cells("contender", [title for title, _ in COLUMNS])

    def lines(self, row: BenchRow) -> list[str]:
        """One line; two where the contender's name is too long for its column, more where a reason is."""
        if not _has_figures(row):
            reason = f"{INDENT}{row.contender:{self.names}} none: {' '.join((row.unavailable or '').split())}"
            return textwrap.wrap(reason, WIDTH, subsequent_indent=3 * INDENT, break_on_hyphens=False)
        if len(row.contender) > self.names:
            return [f"{INDENT}{row.contender}", self._cells("", _figures(row))]
        return [self._cells(row.contender, _figures(row))]

    def _cells(self, name: str, texts: Sequence[str]) -> str:
        cells = [
            f"{text:>{width}}" if at_the_right else f"{text:{width}}"
            for text, width, (_, at_the_right) in zip(texts, self.widths, COLUMNS, strict=False)
        ]
        return f"{INDENT}{name:{self.names}} {' '.join(cells)}".rstrip()


def bench_lines(result: BenchResult) -> list[str]:
    """The whole answer but for where it was written. Of a replay, what nothing is known of is counted in the notes."""
    table = Table.of([row for row in result.rows if _is_known(row)])
    usual = _usual(table.rows)
    lines = [*_wrapped(_title(result)), *_wrapped(_method_told(table.rows, usual)), *_excluded(result)]
    lines += ["", table.heading]
    for (case, mode, l2), rows in groupby(table.rows, key=lambda row: (row.case, row.mode, row.l2)):
        here = list(rows)
        lines += _wrapped(f"{quantities.case_label(case)}, {mode.value}, L2 {l2.value}{_apart(here, usual)}")
        lines += [line for row in here for line in table.lines(row)]
    explained = [line for text in _explanations(result, table) for line in _wrapped(text)]
    return [*lines, "", *explained, *_warnings(result)]


def _is_known(row: BenchRow) -> bool:
    return row.unavailable != NOT_RECORDED or _has_figures(row)


def _has_figures(row: BenchRow) -> bool:
    """Whether its line shows columns, and not a reason in their place."""
    if row.time_ms is not None:
        return True
    return row.unavailable == NOT_RECORDED and (row.peak_bytes is not None or row.host_us is not None)


def _title(result: BenchResult) -> str:
    digest = result.sources[ORIGINAL][:12]
    origin = quantities.origin_told(result.origin, result.device)
    return f"{result.kernel}: {result.source} ({digest}), {origin}"


def _method_told(rows: Sequence[BenchRow], usual: TimingMethod) -> str:
    rounds = sorted({row.rounds for row in rows if row.method is not None})
    span = f"{rounds[0]}" if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    how = quantities.method(usual.value)
    return f"Device time by {how}, medians of {span} rounds; 95% intervals; speed-up over original."


def _usual(rows: Sequence[BenchRow]) -> TimingMethod:
    """The method that most were timed by."""
    methods = [row.method for row in rows if row.method is not None]
    return max(TimingMethod, key=methods.count)


def _excluded(result: BenchResult) -> list[str]:
    return [line for name, why in result.excluded.items() for line in _wrapped(f"{name} was not timed: {why}")]


def _apart(rows: Sequence[BenchRow], usual: TimingMethod) -> str:
    """What is not as usual at this place, or not as it should be."""
    told = [
        f"{row.contender} by {quantities.method(row.method.value)}"
        for row in rows
        if row.method is not None and row.method is not usual
    ]
    if any(row.same_addresses is False for row in rows):
        told.append("unequal addresses")
    if few := [row.rounds for row in rows if row.finding is not None and row.rounds < MIN_ROUNDS]:
        told.append(f"{min(few)} of at least {MIN_ROUNDS} rounds")
    if any(row.capped for row in rows):
        told.append("cut off by the time cap")
    return f" ({', '.join(told)})" if told else ""


def _figures(row: BenchRow) -> tuple[str, ...]:
    """The text of each of COLUMNS."""
    speedup = quantities.ratio_interval(row.speedup) if row.speedup is not None else ""
    if row.finding in (Finding.NO_DIFFERENCE, Finding.INCONCLUSIVE):
        speedup += f" {row.finding.value}"
    return (
        "not recorded" if row.time_ms is None else quantities.time_interval(row.time_ms),
        speedup,
        quantities.percent(row.share_of_ceiling),
        quantities.size(row.peak_bytes),
        _host(row),
    )


def _host(row: BenchRow) -> str:
    if row.host_us is None:
        return quantities.MISSING
    return f"{row.host_us:.1f}{'*' if _is_launch_bound(row) else ' '}"


def _is_launch_bound(row: BenchRow) -> bool:
    return row.host_us is not None and row.time_ms is not None and row.host_us > 1000 * row.time_ms.value


def _explanations(result: BenchResult, table: Table) -> Iterator[str]:
    """A line for each word of the table that a reader may not know, where it occurs."""
    findings = {row.finding for row in table.rows}
    yield ROUND
    if Finding.NO_DIFFERENCE in findings:
        effect = f"{result.minimum_effect:.1%}"
        yield f"no difference: the interval holds 1, and all of it lies within the minimum effect of {effect}"
    if Finding.INCONCLUSIVE in findings:
        yield INCONCLUSIVE
    if any(row.same_addresses is False for row in table.rows):
        yield UNEQUAL
    yield f"{CEILING}; {MEMORY}"
    if table.has_host:
        yield HOST
    if any(map(_is_launch_bound, table.rows)):
        yield LAUNCH_BOUND


def _warnings(result: BenchResult) -> list[str]:
    told = list(result.notes)
    throttled: Counter[str] = Counter()
    rounds: Counter[str] = Counter()
    for row in result.rows:
        throttled[row.contender] += row.throttled_blocks
        rounds[row.contender] += row.rounds
    if throttled.total():
        reasons = dict.fromkeys(reason for row in result.rows for reason in row.throttle_reasons)
        counts = ", ".join(f"{name} {count} of {rounds[name]}" for name, count in throttled.items() if count)
        told.append(f"rounds that ran throttled ({', '.join(reasons)}): {counts}; these figures may be too slow")
    reasons = dict.fromkeys(row.method_reason for row in result.rows if row.method_reason is not None)
    told += [f"not by CUDA-graph replay: {reason}" for reason in reasons]
    return [line for text in told for line in _wrapped(f"note: {text}")]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), WIDTH, subsequent_indent=INDENT, break_on_hyphens=False)
