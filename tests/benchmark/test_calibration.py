"""The calibration without a GPU: what it plans, and what it makes of samples whose truth is known."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.measurement import Block, Timing, TimingMethod

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmark"
sys.path.insert(0, str(BENCHMARK))

from calibrating import plan, records, summary  # noqa: E402

SPINS = {f"{rows} {mode.value}": [10, 30, 40, 100] for rows, mode in plan.TIMED}
ENVIRONMENT = {"gpu_name": "H", "driver": "1", "cuda": "2", "torch": "3", "triton": "4"}


def timing(times_ms: dict[str, float], scatter: float, seed: int, **changed: Any) -> Timing:
    draw = np.random.default_rng(seed)
    fields: dict[str, Any] = {
        "case": Case(axes={"M": plan.COST_ROWS, "N": plan.COLUMNS}, dtype=DType.BFLOAT16),
        "mode": Mode.FORWARD,
        "method": TimingMethod.GRAPH,
        "calls_per_sample": 4,
        "input_sets": 1,
        "same_addresses": True,
        "blocks": tuple(
            Block(contender=name, round=number, samples_ms=tuple(ms * np.exp(scatter * draw.standard_normal(5))))
            for number in range(16)
            for name, ms in times_ms.items()
        ),
        **changed,
    }
    return Timing(**fields)


def told(key: str, planted: float | None, measured: Timing) -> records.Record:
    return {"key": key, "planted": planted, "elapsed_s": 0.25, "timing": measured.model_dump(mode="json")}


def measured_records(*, copies_off_by: float = 0.0) -> list[records.Record]:
    """A calibration of a perfect stopwatch, but for copies that come out slower by `copies_off_by`."""
    found: list[records.Record] = [
        {"key": "environment", "environment": ENVIRONMENT, "date": "2026-01-31"},
        {"key": "spins", "spins": SPINS},
    ]
    for piece in ("identical", "pairs"):
        for process, comparisons in plan.planned(piece, SPINS).items():
            for each in comparisons:
                slower = copies_off_by if each.planted == 0 else 0.0
                faster = each.planted if each.planted and each.planted > 0 else 1 / (1 - (each.planted or 0.0)) - 1
                sides = {"original": 0.05 * (1 + faster), "candidate": 0.05 * (1 + slower)}
                name = f"{process}/{each.name}"
                found.append(told(name, each.planted, timing(sides, 0.004, seed=len(found))))
    for process, comparisons in plan.planned("truth", SPINS).items():
        for each in comparisons:
            sides = {"base": 0.05, **{f"{share:g}": 0.05 * (1 + share) for share in plan.PLANTED}}
            found.append(told(f"{process}/{each.name}", None, timing(sides, 0.0005, seed=len(found))))
    for each in plan.planned("methods", SPINS)["methods"]:
        case = Case(axes={"M": each.rows, "N": plan.COLUMNS}, dtype=DType.BFLOAT16)
        alone = timing({"base": 0.05}, 0.0, seed=0, case=case, method=each.method)
        found.append(told(f"methods/{each.name}", None, alone))
    us: dict[str, dict[str, float]] = {str(rows): {"do_bench": 60.0, "do_bench_cudagraph": 49.0} for rows in plan.READ}
    us["empty"] = {"graph node": 0.7, "profiler": 0.6}
    return [*found, {"key": "methods/triton.testing", "us": us}]


def test_the_plan_is_what_was_promised() -> None:
    pieces = {piece: plan.planned(piece, SPINS) for piece in ("truth", "identical", "pairs", "methods")}
    identical = [each for comparisons in pieces["identical"].values() for each in comparisons]
    pairs = [each for comparisons in pieces["pairs"].values() for each in comparisons]
    assert Counter(each.planted for each in identical) == {0.0: 200, 0.015: 50, -0.015: 50, 0.005: 50, -0.005: 50}
    assert {each.mode for each in identical} == {Mode.FORWARD, Mode.BACKWARD}
    assert Counter(abs(each.planted or 0.0) for each in pairs) == {0.0: 30, 0.02: 40, 0.05: 30}
    assert {piece: len(processes) for piece, processes in pieces.items()} == {
        "truth": 20,
        "identical": 10,
        "pairs": 5,
        "methods": 1,
    }
    seeds = [(each.rows, each.mode, each.seed) for each in (*identical, *pairs)]
    assert len(set(seeds)) == len(seeds)


def test_a_planted_pair_has_the_slow_side_where_it_belongs() -> None:
    comparisons = [each for processes in plan.planned("pairs", SPINS).values() for each in processes]
    for each in comparisons:
        slow, fast = ("original", "candidate") if (each.planted or 0.0) > 0 else ("candidate", "original")
        assert each.spins[fast] == 0
        assert (each.spins[slow] > 0) == (each.planted != 0)


def test_a_perfect_stopwatch_holds_everything_but_scatters_as_it_should() -> None:
    lines = summary.asked_and_found(summary.summarized(measured_records()))
    assert [line.asked for line in lines if not line.holds] == []


@pytest.mark.parametrize("off", [0.003, -0.003])
def test_a_stopwatch_that_favours_a_side_is_found_out(off: float) -> None:
    lines = summary.asked_and_found(summary.summarized(measured_records(copies_off_by=off)))
    assert "a source against its copy" in next(line.asked for line in lines if not line.holds)


def test_the_summary_is_written_from_the_samples_alone_and_packs_them(tmp_path: Path) -> None:
    kept = measured_records()
    (tmp_path / "calibration.jsonl").write_text("".join(json.dumps(each) + "\n" for each in kept) + '{"torn": ')
    summary.write_summary(tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(written) == {"calibration.jsonl.gz", "summary.json", "README.md", "calibration.png"}
    assert records.read_records(tmp_path) == kept

    summary.write_summary(tmp_path)
    again = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {name for name in written if written[name] != again[name]} <= {"calibration.png"}


def test_the_committed_page_says_what_the_committed_samples_say() -> None:
    """Every figure follows from the samples. Floats may differ in a last digit from one numpy to the next."""
    directory = BENCHMARK / "data" / "calibration"
    found = summary.summarized(records.read_records(directory))
    lines = summary.asked_and_found(found)
    committed = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    assert summary.as_json(found, lines)["asked"] == committed["asked"]
    assert (directory / "README.md").read_text(encoding="utf-8") == summary.page(found, lines)
