"""What the calibration's raw samples say: figures beside what was asked, as JSON, a page and a plot. Needs no GPU."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median, stdev

from calibrating.page import page
from calibrating.plan import COST_ROWS, PLANTED
from calibrating.plot import save_plot
from calibrating.records import Record, pack_records, read_records
from warpsmith.contracts.measurement import CaseCheck, Correctness, Timing, TimingMethod
from warpsmith.contracts.verdict import Interval, Outcome, Verdict
from warpsmith.verdict.decision import decide
from warpsmith.verdict.evidence import Evidence
from warpsmith.verdict.statistics import compare, median_ms
from warpsmith.verdict.thresholds import Thresholds


@dataclass(frozen=True)
class Pair:
    """One comparison of two sources. `speedup` is original over candidate, `planted` what it should be, less 1."""

    key: str
    planted: float
    us: float
    speedup: Interval
    rounds: int
    outcome: Outcome
    regressed: bool
    gpu_s: float
    elapsed_s: float

    @property
    def covers_one(self) -> bool:
        return self.speedup.low <= 1 <= self.speedup.high

    @property
    def case(self) -> str:
        """Rows and mode."""
        return self.key.split(" ", 1)[1]

    def contains(self, slower: float) -> bool:
        """Whether the interval contains that slow-down, of the side that has more to do."""
        truth = 1 + slower if self.planted > 0 else 1 / (1 + slower)
        return self.speedup.low <= truth <= self.speedup.high

    @property
    def half_width(self) -> float:
        return (self.speedup.high - self.speedup.low) / 2


@dataclass(frozen=True)
class Truth:
    """A planted slow-down in many processes: the mean of what they found, and its standard error."""

    case: str
    us: float
    planted: float
    found: float
    standard_error: float
    processes: int


@dataclass(frozen=True)
class Reading:
    """Microseconds a call of one forward pass, by every way to read them."""

    rows: int
    graph: float
    profiler: float
    events: float
    do_bench: float
    do_bench_cudagraph: float

    @property
    def beyond(self) -> float:
        """How far graph replay is from the profiler's durations, as a share of them."""
        return self.graph / self.profiler - 1


@dataclass(frozen=True)
class Line:
    """One thing that was asked for, and what was found."""

    asked: str
    found: str
    holds: bool


@dataclass(frozen=True)
class Summary:
    environment: Record
    gpus: int
    date: str
    identical: list[Pair]
    planted: list[Pair]
    pairs: list[Pair]
    truths: list[Truth]
    readings: list[Reading]
    empty_node_us: float
    empty_kernel_us: float


def write_summary(directory: Path) -> None:
    """Raises KeyError where a piece has not been measured."""
    records = read_records(directory)
    summary = summarized(records)
    pack_records(directory, records)
    lines = asked_and_found(summary)
    (directory / "summary.json").write_text(json.dumps(as_json(summary, lines), indent=1) + "\n", encoding="utf-8")
    (directory / "README.md").write_text(page(summary, lines), encoding="utf-8")
    save_plot(summary, directory / "calibration.png")


def summarized(records: Sequence[Record]) -> Summary:
    by_key = {record["key"]: record for record in records}
    compared = [_pair(record) for record in records if record["key"].startswith(("identical/", "pairs/"))]
    alone = [pair for pair in compared if pair.key.startswith("identical/")]
    triton = by_key["methods/triton.testing"]["us"]
    return Summary(
        environment=by_key["environment"]["environment"],
        gpus=len({r["environment"].get("gpu_uuid") for r in records if r["key"] == "environment"}),
        date=by_key["environment"]["date"],
        identical=[pair for pair in alone if pair.planted == 0],
        planted=[pair for pair in alone if pair.planted != 0],
        pairs=[pair for pair in compared if pair.key.startswith("pairs/")],
        truths=_truths([record for record in records if record["key"].startswith("truth/")]),
        readings=_readings(records, triton),
        empty_node_us=triton["empty"]["graph node"],
        empty_kernel_us=triton["empty"]["profiler"],
    )


def asked_and_found(summary: Summary) -> list[Line]:
    return [
        *_identical_lines(summary.identical),
        *_planted_lines(summary),
        _pairs_line(summary.pairs),
        *_reading_lines(summary),
        _cost_line([*summary.identical, *summary.planted, *summary.pairs]),
    ]


def _identical_lines(pairs: Sequence[Pair]) -> list[Line]:
    covered, processes = sum(p.covers_one for p in pairs), len({p.key.split("/")[1] for p in pairs})
    share, called = covered / len(pairs), sum(p.outcome is Outcome.ACCEPTED or p.regressed for p in pairs)
    scope = (
        f"{len(pairs)} comparisons in {processes} processes, {sum(p.rounds for p in pairs)} rounds of fresh captures"
    )
    worst = max(abs(p.speedup.value - 1) for p in pairs)
    return [
        Line(
            "a source against its copy: 92 to 98% of the 95% intervals contain 1",
            f"{covered} of {len(pairs)} ({share:.1%}); {scope}, {min(p.us for p in pairs):.0f} to "
            f"{max(p.us for p in pairs):.0f} µs; farthest estimate {worst:.2%}",
            0.92 <= share <= 0.98,
        ),
        Line("none of them called a win or a regression", f"{called} of {len(pairs)}", called == 0),
    ]


def _planted_lines(summary: Summary) -> list[Line]:
    large = [p for p in summary.planted if abs(p.planted) > 0.01]
    small = [p for p in summary.planted if abs(p.planted) < 0.01]
    off_one = [p for p in (*summary.planted, *summary.pairs) if p.planted != 0]
    true = {(t.case, t.planted): t.found for t in summary.truths}
    contained = sum(p.contains(true[p.case, abs(p.planted)]) for p in off_one)
    clear = sum(p.speedup.low > 1 if p.planted > 0 else p.speedup.high < 1 for p in large)
    won = sum(p.outcome is Outcome.ACCEPTED for p in small)
    truths = {share: [t for t in summary.truths if t.planted == share] for share in PLANTED}
    as_asked = {t.case for t in truths[0.015] if abs(t.found - t.planted) <= 0.001}
    return [
        Line(
            "planted slow-downs of 1.5 ± 0.1% by the mean of twenty processes",
            "; ".join(f"{t.case} {t.found:.2%} ± {t.standard_error:.2%}" for t in truths[0.015])
            + f"; so in {sum(p.case in as_asked for p in large)} of {len(large)} comparisons",
            len(as_asked) == len(truths[0.015]),
        ),
        Line(
            "their interval lies wholly on its side of 1 in at least 95 of 100",
            f"{clear} of {len(large)}",
            clear >= 0.95 * len(large),
        ),
        Line(
            "the intervals of planted slow-downs contain the truth that twenty processes tell",
            f"{contained} of {len(off_one)} ({contained / len(off_one):.1%})",
            contained >= 0.92 * len(off_one),
        ),
        Line(
            "planted slow-downs of 0.5%: none accepted as an improvement, either way round",
            f"{won} of {len(small)}; truths {', '.join(f'{t.found:.2%}' for t in truths[0.005])}",
            won == 0,
        ),
    ]


def _pairs_line(pairs: Sequence[Pair]) -> Line:
    agree = sum((p.outcome is Outcome.ACCEPTED) == (p.planted > 0) and _decided(p) for p in pairs)
    return Line(
        "twenty pairs of 0, 2 and 5%, five cold processes each: at least 95 of 100 verdicts agree",
        f"{agree} of {len(pairs)}",
        agree >= 0.95 * len(pairs),
    )


def _decided(pair: Pair) -> bool:
    return pair.outcome is not Outcome.INCONCLUSIVE


def _reading_lines(summary: Summary) -> list[Line]:
    offset_us = summary.empty_node_us - summary.empty_kernel_us
    beyond = [max(0.0, abs(r.graph - r.profiler) - offset_us) / r.profiler for r in summary.readings]
    return [
        Line(
            "graph replay against profiler durations, 5 to 200 µs: one offset a graph node, at most 3% beyond it",
            f"offset {offset_us:.2f} µs (an empty kernel: {summary.empty_node_us:.2f} µs a node, "
            f"{summary.empty_kernel_us:.2f} µs by the profiler); beyond it {', '.join(f'{b:.1%}' for b in beyond)}",
            max(beyond) <= 0.03,
        )
    ]


def _cost_line(pairs: Iterable[Pair]) -> Line:
    of_cost = [p for p in pairs if f" {COST_ROWS} forward" in p.key]
    worst = max(p.gpu_s for p in of_cost)
    return Line(
        "two 50 µs kernels to a half-width of 0.25% in at most 1 s of GPU time after compilation",
        f"half-width {median(p.half_width for p in of_cost):.2%} (median of {len(of_cost)}; largest "
        f"{max(p.half_width for p in of_cost):.2%}) in {median(p.gpu_s for p in of_cost):.2f} s of timed work, at most "
        f"{worst:.2f} s; {median(p.elapsed_s for p in of_cost):.2f} s by the clock, inputs and captures included",
        median(p.half_width for p in of_cost) <= 0.0025 and worst <= 1,
    )


def _pair(record: Record) -> Pair:
    timing = Timing.model_validate(record["timing"])
    comparison, verdict = compare(timing, "original", "candidate"), _verdict(timing)
    blocks = (*timing.pilot, *timing.blocks)
    return Pair(
        key=record["key"],
        planted=record["planted"],
        us=comparison.baseline_ms * 1000,
        speedup=comparison.speedup,
        rounds=comparison.rounds,
        outcome=verdict.outcome,
        regressed=any(case.regressed for case in verdict.cases),
        gpu_s=math.fsum(ms for block in blocks for ms in block.samples_ms) * timing.calls_per_sample / 1000,
        elapsed_s=record["elapsed_s"],
    )


def _verdict(timing: Timing) -> Verdict:
    """As a search would judge the candidate on this comparison alone, its results taken for right."""
    right = Correctness(source_sha256="0" * 64, checks=(CaseCheck(case=timing.case, errors=(), failures=()),))
    evidence = Evidence("candidate", None, timing.mode, right, (timing,))
    return decide(evidence, Thresholds())


def _truths(records: Sequence[Record]) -> list[Truth]:
    truths: list[Truth] = []
    for case in dict.fromkeys(record["key"].split("/")[2] for record in records):
        timings = [Timing.model_validate(r["timing"]) for r in records if r["key"].split("/")[2] == case]
        for share in PLANTED:
            found = [1 / compare(t, "base", f"{share:g}").speedup.value - 1 for t in timings]
            us = fmean(median_ms(t, "base").value for t in timings) * 1000
            error = stdev(found) / math.sqrt(len(found))
            truths.append(Truth(case, us, share, fmean(found), error, len(found)))
    return truths


def _readings(records: Sequence[Record], triton: Record) -> list[Reading]:
    timings = [Timing.model_validate(r["timing"]) for r in records if r["key"].startswith("methods/") and "timing" in r]
    us = {(t.case.axes["M"], t.method): median_ms(t, "base").value * 1000 for t in timings}
    return [
        Reading(
            rows,
            *(us[rows, method] for method in TimingMethod),
            do_bench=triton[str(rows)]["do_bench"],
            do_bench_cudagraph=triton[str(rows)]["do_bench_cudagraph"],
        )
        for rows in dict.fromkeys(rows for rows, _ in us)
    ]


def as_json(summary: Summary, lines: Sequence[Line]) -> Record:
    def pair(each: Pair) -> Record:
        told = {**asdict(each), "speedup": each.speedup.model_dump(), "outcome": each.outcome.value}
        return {name: round(value, 6) if isinstance(value, float) else value for name, value in told.items()}

    return {
        "environment": summary.environment,
        "gpus": summary.gpus,
        "date": summary.date,
        "asked": [asdict(line) for line in lines],
        **{name: [pair(p) for p in getattr(summary, name)] for name in ("identical", "planted", "pairs")},
        "truths": [
            {**asdict(t), "found": round(t.found, 6), "standard_error": round(t.standard_error, 6)}
            for t in summary.truths
        ],
        "readings_us": [asdict(reading) for reading in summary.readings],
    }
