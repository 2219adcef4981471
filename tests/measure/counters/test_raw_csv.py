from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.contracts.counters import CounterRow
from warpsmith.measure.counters.metrics import METRICS, OTHER_NAMES
from warpsmith.measure.counters.raw_csv import UNREADABLE, parse_raw_csv

RECORDED = Path(__file__).resolve().parents[3] / "benchmark" / "data" / "ncu"
DURATION = "gpu__time_duration.sum"


def recorded(name: str) -> str:
    return (RECORDED / f"rms_fwd-h200-{name}.csv").read_text(encoding="utf-8")


def test_the_full_set_of_a_real_run_is_read_between_ncus_messages() -> None:
    (row,), missing = parse_raw_csv(recorded("set-full"))

    assert missing == ()
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
            "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
            "lts__t_sectors_srcunit_tex_op_read.sum",
            "lts__t_sectors_srcunit_tex_op_write.sum",
            "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
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
        "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": 14.64,
        "lts__t_sectors_srcunit_tex_op_read.sum": 1_057_668.0,
        "lts__t_sectors_srcunit_tex_op_write.sum": 1_048_576.0,
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": 32.0,
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 1_493.0,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 38_357.0,
    }


def test_a_metric_by_its_other_name_is_read_under_the_one_that_is_asked_for() -> None:
    text = recorded("set-full")
    (row,), _ = parse_raw_csv(text)
    local = "smsp__inst_executed_op_local_ld.sum"

    assert local not in text  # see its PROVENANCE.md
    assert row.metrics[local] == 0.0
    assert set(row.metrics) == set(METRICS)
    renamed = text.replace("dram__bytes_read.sum", OTHER_NAMES["dram__bytes_read.sum"])
    assert parse_raw_csv(renamed) == ((row,), ())


def test_what_chosen_sections_lack_is_named() -> None:
    (row,), missing = parse_raw_csv(recorded("sections"))

    assert row.metrics[DURATION] == 16_704.0
    assert set(missing) == {
        *OTHER_NAMES,
        "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
        "lts__t_sectors_srcunit_tex_op_read.sum",
        "lts__t_sectors_srcunit_tex_op_write.sum",
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
        "smsp__issue_active.avg.pct_of_peak_sustained_active",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    }


TWO_LAUNCHES = """\
==PROF== Connected to process 7 (python3)
told by the program itself: 3, 4
"quoted", by the program
"ID","Kernel Name","Block Size","Grid Size","a__a","b__b","c__c"
"","","","","byte","%","ns"
==PROF== Profiling "second" - 1: 0%....50%....100% - 9 passes
"0","first","(256, 1, 1)","(8, 1, 1)","1,234,567.5","no data","n/a"
"1","second","(128, 1, 1)","(4, 2, 1)","12","nan","(!) nan"
==PROF== Disconnected from process 7
"""
FIRST = CounterRow(kernel="first", grid="(8, 1, 1)", block="(256, 1, 1)", metrics={"a__a": 1_234_567.5})
SECOND = CounterRow(kernel="second", grid="(4, 2, 1)", block="(128, 1, 1)", metrics={"a__a": 12.0})
WANTED = ("a__a", "b__b", "c__c")


def test_several_launches_with_separators_and_values_that_are_none() -> None:
    rows, missing = parse_raw_csv(TWO_LAUNCHES, (*WANTED, "never_heard_of"))

    assert rows == (FIRST, SECOND)
    assert missing == ("b__b", "c__c", "never_heard_of")


def test_a_metric_that_one_launch_has_is_not_missing() -> None:
    rows, missing = parse_raw_csv(TWO_LAUNCHES.replace('"no data"', '"50"'), ("b__b",))

    assert [row.metrics for row in rows] == [{"b__b": 50.0}, {}]
    assert missing == ()


@pytest.mark.parametrize("text", ["", "==ERROR== ERR_NVGPUCTRPERM\n", '"ID","Kernel Name"\n', "ID,Kernel Name\n0,k\n"])
def test_output_without_a_launch_has_no_rows_and_all_metrics_are_missing(text: str) -> None:
    assert parse_raw_csv(text) == ((), METRICS)


@pytest.mark.parametrize(
    "changed",
    [
        TWO_LAUNCHES.replace("\n", "\r\n"),
        "\ufeff" + TWO_LAUNCHES,
        TWO_LAUNCHES.replace('"ID"', '\ufeff"ID"'),
        TWO_LAUNCHES.rstrip("\n"),
        # progress without a line break, before a row and inside of one
        TWO_LAUNCHES.replace('"0","first"', '==PROF== Profiling "first" - 0: 0%....50%....100% - 9 passes"0","first"'),
        TWO_LAUNCHES.replace('"0","first"', '....50%....100% - 9 passes"0","first"'),
        TWO_LAUNCHES.replace('"0","first"', '"0",....50%"first"'),
        TWO_LAUNCHES.replace('"0","first"', '==WARNING== A message without its end"0","first"'),
        # a message with its line break inside of a row, a header, the row of units
        TWO_LAUNCHES.replace('"first"', '"fi==PROF== Disconnected from process 7\nrst"'),
        TWO_LAUNCHES.replace('"a__a","b__b"', '"a__a"==WARNING== Backing up device memory.\n,"b__b"'),
        TWO_LAUNCHES.replace('"byte","%"', '"byte",==PROF== Profiling "k" - 0: 0%....50%.... - 19 passes\n"%"'),
        # what the program prints, before a row and between rows
        TWO_LAUNCHES.replace('"0","first"', 'loading: "3", 4 "0","first"'),
        TWO_LAUNCHES.replace('"1","second"', 'regs 39 spills 0\n\n"","x"\n"1","second"'),
    ],
)
def test_whatever_stands_in_the_table_the_launches_are_the_same(changed: str) -> None:
    assert parse_raw_csv(changed, WANTED) == ((FIRST, SECOND), ("b__b", "c__c"))


def test_each_process_has_a_header_and_units_of_its_own() -> None:
    other = '"ID","Kernel Name","Block Size","Grid Size","b__b","a__a"\n"","","","","%","Mbyte"\n'
    rows, _ = parse_raw_csv(f'{TWO_LAUNCHES}{other}"0","third","(1, 1, 1)","(2, 1, 1)","36.44","1.5"\n', WANTED)

    third = {"a__a": 1_500_000.0, "b__b": 36.44}
    assert rows == (FIRST, SECOND, CounterRow(kernel="third", grid="(2, 1, 1)", block="(1, 1, 1)", metrics=third))


@pytest.mark.parametrize(
    "kernel",
    [
        "void at::native::reduce_kernel<(int)512, at::native::ReduceOp<float, T2>>(T3)",
        "void f<[lambda(float, float) (instance 1)]>(int, T2)",
        'operator""_x',
    ],
)
def test_a_kernel_keeps_the_commas_and_quotes_of_its_name(kernel: str) -> None:
    cell = kernel.replace('"', '""')
    rows, _ = parse_raw_csv(TWO_LAUNCHES.replace('"first"', f'"{cell}"'), WANTED)

    assert rows == (FIRST.model_copy(update={"kernel": kernel}), SECOND)


TIMES = """\
"ID","Kernel Name","Block Size","Grid Size","gpu__time_duration.sum","dram__bytes.sum.per_second","lts__hits.pct"
"","","","","us","Gbyte/s","%"
"0","k","(1, 1, 1)","(1, 1, 1)","16.544","2,745.04","51.49"
"""


def test_figures_in_other_units_come_in_base_units() -> None:
    (row,), _ = parse_raw_csv(TIMES, (DURATION, "dram__bytes.sum.per_second", "lts__hits.pct"))

    assert row.metrics == {
        DURATION: pytest.approx(16_544.0),
        "dram__bytes.sum.per_second": pytest.approx(2.74504e12),
        "lts__hits.pct": 51.49,
    }


def test_figures_of_a_locale_with_a_decimal_comma_are_the_same() -> None:
    turned = TIMES.replace("16.544", "16,544").replace("2,745.04", "2.745,04").replace("51.49", "51,49")

    assert parse_raw_csv(turned, (DURATION,)) == parse_raw_csv(TIMES, (DURATION,))


def test_a_recorded_run_reads_the_same_with_a_decimal_comma() -> None:
    *rest, values = recorded("set-full").rstrip("\n").split("\n")
    marks = str.maketrans(",.", ".,")
    turned = '","'.join(
        cell.translate(marks) if cell.lstrip("-")[:1].isdigit() else cell for cell in values.split('","')
    )

    assert turned != values
    # the first cell is the number of the launch, with the quote that begins the row
    assert parse_raw_csv("\n".join([*rest, turned])) == parse_raw_csv(recorded("set-full"))


def test_a_figure_that_could_be_two_is_absent_where_no_other_tells_the_locale() -> None:
    text = TIMES.replace('"2,745.04","51.49"', '"2,745","51"')

    (row,), missing = parse_raw_csv(text, (DURATION, "lts__hits.pct"))

    assert (row.metrics, missing) == ({"lts__hits.pct": 51.0}, (DURATION,))


@pytest.mark.parametrize("cell", ["-16.544", "1e308"])
def test_a_figure_below_nothing_or_beyond_all_numbers_is_absent(cell: str) -> None:
    (row,), missing = parse_raw_csv(TIMES.replace('"16.544"', f'"{cell}"'), (DURATION,))

    assert (row.metrics, missing) == ({}, (DURATION,))


@pytest.mark.parametrize("change", [('"us"', '"fortnight"'), ('"","","","","us","Gbyte/s","%"\n', "")])
def test_a_figure_in_an_unknown_unit_is_absent(change: tuple[str, str]) -> None:
    (row,), missing = parse_raw_csv(TIMES.replace(*change), (DURATION,))

    assert (row.kernel, row.metrics, missing) == ("k", {}, (DURATION,))


@pytest.mark.parametrize(
    ("cut", "kernel"),
    [
        ('"12","nan","(!) n', "second"),
        ('"12","nan"', "second"),
        ('"12","nan","(!) nan","13"\n', "second"),
        ('"12","nan"hello","(!) nan"\n', "second"),
    ],
)
def test_a_launch_whose_row_is_damaged_is_there_without_figures(cut: str, kernel: str) -> None:
    text = TWO_LAUNCHES.split('"12"')[0] + cut

    rows, _ = parse_raw_csv(text, WANTED)

    assert rows == (FIRST, CounterRow(kernel=kernel, grid="(4, 2, 1)", block="(128, 1, 1)", metrics={}))


@pytest.mark.parametrize(
    "cut", ['"1","sec', '"1","second","(128, 1, 1)"', '"1","x","second","(128, 1, 1)","(4, 2, 1)"\n']
)
def test_a_launch_of_which_too_little_is_left_has_no_name(cut: str) -> None:
    rows, _ = parse_raw_csv(TWO_LAUNCHES.split('"1","second"')[0] + cut, WANTED)

    assert rows == (FIRST, CounterRow(kernel=UNREADABLE, grid="", block="", metrics={}))


def test_metrics_are_named_once() -> None:
    names = [*METRICS, *OTHER_NAMES.values()]

    assert len(set(names)) == len(names)
    assert set(OTHER_NAMES) < set(METRICS)
