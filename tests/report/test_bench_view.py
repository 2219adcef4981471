"""The table of a bench: a hundred columns whatever stands in it, and words that explain themselves."""

from __future__ import annotations

import measured_fixtures as measured
import pytest

from warpsmith.contracts.bench import BenchResult, BenchRow, Finding
from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.measurement import L2, TimingMethod
from warpsmith.contracts.verdict import Interval
from warpsmith.report.bench_rows import NOT_RECORDED
from warpsmith.report.bench_view import bench_lines


def row(contender: str, **changes: object) -> BenchRow:
    values = {
        "case": "2048x2048-bf16",
        "role": Role.TUNING,
        "mode": Mode.FORWARD,
        "l2": L2.COLD,
        "contender": contender,
        "time_ms": Interval(value=0.09954, low=0.09916, high=0.1),
        "share_of_ceiling": 0.942,
        "peak_bytes": 64 * 2**20,
        "method": TimingMethod.GRAPH,
        "same_addresses": True,
        "rounds": 16,
    }
    return BenchRow.model_validate({**values, **changes})


def result(*rows: BenchRow, **changes: object) -> BenchResult:
    values = {
        "kernel": "rms_norm",
        "source": measured.SOURCE,
        "sources": {"original": measured.ORIGINAL_SHA},
        "providers": (),
        "cases": (),
        "modes": (),
        "l2": None,
        "method": None,
        "device": measured.device(),
        "origin": measured.ORIGIN,
        "excluded": {},
        "rows": rows,
    }
    return BenchResult.model_validate({**values, **changes})


NO_DIFFERENCE = {"speedup": Interval(value=1.001, low=0.996, high=1.005), "finding": Finding.NO_DIFFERENCE}
INCONCLUSIVE = {"speedup": Interval(value=1.001, low=0.986, high=1.015), "finding": Finding.INCONCLUSIVE}


def lines_of(told: list[str], beginning: str) -> list[str]:
    return [line for line in told if line.startswith(beginning)]


@pytest.mark.parametrize("time_ms", [0.09954, 0.9954, 9.9995, 99.996, 4321.0])
@pytest.mark.parametrize("name", ["torch_compile", "rms_norm_pipelined_and_hinted", "a" * 98])
def test_no_line_is_wider_than_a_hundred_columns(time_ms: float, name: str) -> None:
    slow = {"time_ms": Interval(value=time_ms, low=0.99 * time_ms, high=1.01 * time_ms), "host_us": 23456.7}
    long = "is wrong at every case there is, " * 8
    told = bench_lines(
        result(
            row("original", **slow),
            row(name, **slow, **NO_DIFFERENCE, peak_bytes=1023 * 2**20, share_of_ceiling=1.0),
            row(
                "failed", time_ms=None, unavailable=long, same_addresses=False, capped=True, method=TimingMethod.EVENTS
            ),
            source="a/very/long/path/" * 5 + "kernel.py",
            excluded={"other": long},
            notes=(long,),
        )
    )

    assert [line for line in told if len(line) > 100] == []
    assert any(name in line for line in told) and any("[" in line for line in told)


def test_a_name_that_is_too_long_for_its_column_stands_whole_above_its_figures() -> None:
    told = bench_lines(result(row("original", host_us=9.0), row("a" * 60, host_us=9.0, **NO_DIFFERENCE)))

    place = told.index(f"  {'a' * 60}")
    assert "1.001× [0.996, 1.005] no difference" in told[place + 1]


def test_host_time_has_a_column_and_a_word_only_where_it_is_known() -> None:
    without = bench_lines(result(row("original"), row("torch", **NO_DIFFERENCE)))
    assert not any("host" in line for line in without)

    with_host = bench_lines(result(row("original", host_us=120.0), row("torch", **NO_DIFFERENCE)))
    assert lines_of(with_host, "  original")[0].endswith(" 120.0*")
    assert lines_of(with_host, "host: ") and lines_of(with_host, "*: longer than on the device")


def test_words_are_explained_where_they_occur_and_nowhere_else() -> None:
    equal = bench_lines(result(row("original"), minimum_effect=0.02))
    apart = bench_lines(
        result(
            row("original", same_addresses=False),
            row("torch", **NO_DIFFERENCE),
            row("liger", **INCONCLUSIVE),
            minimum_effect=0.02,
        )
    )

    for word in ("no difference: ", "inconclusive: ", "unequal addresses: "):
        assert (lines_of(equal, word), len(lines_of(apart, word))) == ([], 1)
    assert lines_of(equal, "round: ")
    assert "the minimum effect of 2.0%" in " ".join(apart)


def test_too_few_rounds_to_tell_are_counted_where_they_are() -> None:
    told = bench_lines(result(row("original", rounds=3), row("torch", **INCONCLUSIVE, rounds=3), row("liger")))

    assert "2048×2048 bf16, forward, L2 cold (3 of at least 8 rounds)" in told
    assert "is of fewer than 8 rounds" in " ".join(told)


def test_of_a_replay_only_that_is_shown_of_which_something_is_known() -> None:
    nothing = {"time_ms": None, "peak_bytes": None, "method": None, "rounds": 0, "unavailable": NOT_RECORDED}
    told = bench_lines(
        result(
            row("original"),
            row("original", mode=Mode.BACKWARD, **nothing),
            row("torch", mode=Mode.BACKWARD, **nothing),
            row("original", mode=Mode.FULL, **{**nothing, "peak_bytes": 2**20}),
        )
    )

    assert [line for line in told if ", L2 cold" in line] == [
        "2048×2048 bf16, forward, L2 cold",
        "2048×2048 bf16, full, L2 cold",
    ]
    (known,) = [line for line in told if "not recorded" in line]
    assert known.split()[-1] == "MiB"


def test_throttled_rounds_are_counted_by_contender() -> None:
    hot = {"throttled_blocks": 3, "throttle_reasons": ("software power cap",)}
    told = " ".join(bench_lines(result(row("original", **hot), row("torch", **NO_DIFFERENCE))))

    assert "rounds that ran throttled (software power cap): original 3 of 16; these figures" in told
