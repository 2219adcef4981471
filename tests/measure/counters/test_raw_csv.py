from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.contracts.measurement import CounterRow
from warpsmith.measure.counters.metrics import METRICS
from warpsmith.measure.counters.raw_csv import parse_raw_csv

RECORDED = Path(__file__).resolve().parents[3] / "benchmark" / "data" / "ncu"
DURATION = "gpu__time_duration.sum"
#: In neither recording: see their PROVENANCE.md.
OTHER_LOCAL_NAMES = ("smsp__inst_executed_op_local_ld.sum", "smsp__inst_executed_op_local_st.sum")


def recorded(name: str) -> str:
    return (RECORDED / f"rms_fwd-h200-{name}.csv").read_text(encoding="utf-8")


def test_the_full_set_of_a_real_run_is_read_between_ncus_messages() -> None:
    (row,), missing = parse_raw_csv(recorded("set-full"))

    assert missing == OTHER_LOCAL_NAMES
    assert (row.kernel, row.grid, row.block) == ("rms_fwd", "(4096, 1, 1)", "(256, 1, 1)")
    assert {
        name: row.metrics[name]
        for name in (
            DURATION,
            "sm__throughput.avg.pct_of_peak_sustained_elapsed",
            "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
            "dram__bytes_read.sum",
            "dram__bytes_write.sum",
            "dram__bytes.sum.per_second",
            "launch__registers_per_thread",
            "launch__waves_per_multiprocessor",
            "smsp__sass_inst_executed_op_local_ld.sum",
            "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
        )
    } == {
        DURATION: 16_544.0,
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": 36.44,
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 57.16,
        "dram__bytes_read.sum": 33_571_328.0,
        "dram__bytes_write.sum": 11_842_560.0,
        "dram__bytes.sum.per_second": 2_745_036_750_483.56,
        "launch__registers_per_thread": 39.0,
        "launch__waves_per_multiprocessor": 5.17,
        "smsp__sass_inst_executed_op_local_ld.sum": 0.0,
        "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": 14.64,
    }


def test_what_chosen_sections_lack_is_named() -> None:
    (row,), missing = parse_raw_csv(recorded("sections"))

    assert row.metrics[DURATION] == 16_704.0
    assert set(missing) == {
        *OTHER_LOCAL_NAMES,
        "dram__bytes_read.sum",
        "dram__bytes_write.sum",
        "smsp__sass_inst_executed_op_local_ld.sum",
        "smsp__sass_inst_executed_op_local_st.sum",
        "smsp__issue_active.avg.pct_of_peak_sustained_active",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    }


TWO_LAUNCHES = """\
==PROF== Connected to process 7 (python3)
told by the program itself: 3, 4
"quoted", by the program
"ID","Kernel Name","Block Size","Grid Size","a","b","c"
"","","","","byte","%","ns"
==PROF== Profiling "second" - 1: 0%....50%....100% - 9 passes
"0","first","(256, 1, 1)","(8, 1, 1)","1,234,567.5","no data","n/a"
"1","second","(128, 1, 1)","(4, 2, 1)","12","nan","(!) nan"
==PROF== Disconnected from process 7
"""


def test_several_launches_with_separators_and_values_that_are_none() -> None:
    rows, missing = parse_raw_csv(TWO_LAUNCHES, ("a", "b", "c", "never_heard_of"))

    assert rows == (
        CounterRow(kernel="first", grid="(8, 1, 1)", block="(256, 1, 1)", metrics={"a": 1_234_567.5}),
        CounterRow(kernel="second", grid="(4, 2, 1)", block="(128, 1, 1)", metrics={"a": 12.0}),
    )
    assert missing == ("b", "c", "never_heard_of")


def test_a_metric_that_one_launch_has_is_not_missing() -> None:
    rows, missing = parse_raw_csv(TWO_LAUNCHES.replace('"no data"', '"50"'), ("b",))

    assert [row.metrics for row in rows] == [{"b": 50.0}, {}]
    assert missing == ()


@pytest.mark.parametrize("text", ["", "==ERROR== ERR_NVGPUCTRPERM\n", '"ID","Kernel Name"\n', "ID,Kernel Name\n0,k\n"])
def test_output_without_a_launch_has_no_rows_and_all_metrics_are_missing(text: str) -> None:
    assert parse_raw_csv(text) == ((), METRICS)
