"""Raw samples as CSV: every one of them once, in the order they were taken, with where they are from."""

from __future__ import annotations

import csv
import io

import pytest
from measured_fixtures import CASES

from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.measurement import Block, Memory, Timing, TimingMethod
from warpsmith.report.samples import samples_csv
from warpsmith.verdict.statistics import median_ms

RECORDED = Origin(kind=OriginKind.RECORDED, gpu="NVIDIA H200", date="2026-11-29")


def timing(*blocks: tuple[str, int, tuple[float, ...]], mode: Mode = Mode.FORWARD) -> Timing:
    return Timing(
        case=CASES[0], mode=mode, method=TimingMethod.GRAPH, calls_per_sample=4, input_sets=2, same_addresses=True,
        blocks=tuple(Block(contender=name, round=number, samples_ms=samples) for name, number, samples in blocks),
        failures={"liger": "runtime_failed: no"},
    )  # fmt: skip


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_every_sample_is_there_to_the_last_digit_in_the_order_it_was_taken() -> None:
    found = timing(
        ("original", 0, (0.1234567890123, 0.2)),
        ("optimized", 0, (0.1,)),
        ("optimized", 1, (1e-07,)),
        ("original", 1, (0.3,)),
    )
    told = rows(samples_csv({"pair": (found,)}, (), RECORDED))

    assert [(row["contender"], row["round"], row["samples"]) for row in told] == [
        ("original", "0", "0.1234567890123 0.2"),
        ("optimized", "0", "0.1"),
        ("optimized", "1", "1e-07"),
        ("original", "1", "0.3"),
    ]
    assert {(row["comparison"], row["case"], row["mode"], row["method"], row["l2"]) for row in told} == {
        ("pair", CASES[0].name, "forward", "graph", "cold")
    }
    assert {row["origin"] for row in told} == {str(RECORDED)}


def test_a_median_can_be_computed_from_it_again() -> None:
    found = timing(*(("original", n, (0.1 + 0.01 * n, 0.12 + 0.01 * n, 0.2)) for n in range(5)))
    told = rows(samples_csv({"pair": (found,)}, (), RECORDED))
    samples = sorted(float(each) for row in told for each in row["samples"].split())

    assert samples[len(samples) // 2] == pytest.approx(median_ms(found, "original").value)


def test_what_stands_under_two_names_is_written_once() -> None:
    found, other = timing(("original", 0, (0.1,))), timing(("original", 0, (0.2,)), mode=Mode.BACKWARD)
    told = rows(samples_csv({"pair": (found,), "with the baselines": (found, other)}, (), RECORDED))

    assert [(row["comparison"], row["mode"]) for row in told] == [
        ("pair", "forward"), ("with the baselines", "backward"),
    ]  # fmt: skip


def test_peaks_of_memory_are_exact_bytes() -> None:
    memory = Memory(case=CASES[0], mode=Mode.FULL, peak_bytes={"original": 12345678901})
    (row,) = rows(samples_csv({}, (memory,), RECORDED))

    assert (row["metric"], row["unit"], row["contender"], row["samples"], row["round"]) == (
        "peak_memory", "bytes", "original", "12345678901", "",
    )  # fmt: skip
