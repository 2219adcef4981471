"""The CSV frames: exact columns, rows of whole measurements."""

from __future__ import annotations

import json
from collections.abc import Callable

import measured_fixtures as measured
import pandas as pd
import pytest

from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.measurement import HostTime, TimingMethod
from warpsmith.report.tables import COLUMNS, LIGER_COLUMNS, baseline_frame, joined, results_frame, sweep_frame, to_csv
from warpsmith.search.tuning.results import Reading

Golden = Callable[[str, str], None]

#: One block's samples in ms. Every round alike, so that the interval is the median itself.
ORIGINAL_MS = (0.090, 0.092, 0.094, 0.096, 0.098)
LIGER_MS = (0.118, 0.120, 0.122, 0.124, 0.126)
MEASURED = Origin(kind=OriginKind.MEASURED)
CASE, STRIDED = measured.TUNING[1], measured.HELD_OUT[2]


def timings() -> tuple:
    both = {"original": [ORIGINAL_MS] * 4, "liger": [LIGER_MS] * 4, "original_copy": [ORIGINAL_MS] * 4}
    return (
        measured.timing(CASE, Mode.BACKWARD, both, failures={"torch": "out of memory"}),
        measured.timing(STRIDED, Mode.FORWARD, {"original": [ORIGINAL_MS]}, method=TimingMethod.EVENTS),
    )


def memories() -> tuple:
    return (measured.memory(CASE, Mode.BACKWARD, original=96 * 2**20, liger=100 * 2**20 + 2**19),)


def test_the_first_columns_are_liger_kernels_and_ours_follow() -> None:
    assert ",".join(LIGER_COLUMNS) == (
        "kernel_name,kernel_provider,kernel_operation_mode,metric_name,metric_unit,x_name,x_label,x_value,"
        "y_value_50,y_value_20,y_value_80,extra_benchmark_config_str,gpu_name,timestamp"
    )
    assert (*LIGER_COLUMNS, "ci_low", "ci_high", "n_samples", "source_sha256") == COLUMNS


def test_the_baseline_csv_is_as_it_was(golden: Golden) -> None:
    golden(
        "v0_baseline.csv", to_csv(baseline_frame(measured.spec(), timings(), memories(), measured.device()), MEASURED)
    )


def test_a_row_of_speed_is_a_whole_measurement() -> None:
    frame = results_frame(measured.spec(), timings(), memories(), measured.device())

    assert frame.iloc[0].to_dict() == {
        "kernel_name": "rms_norm",
        "kernel_provider": "original",
        "kernel_operation_mode": "backward",
        "metric_name": "speed",
        "metric_unit": "ms",
        "x_name": "N",
        "x_label": "N",
        "x_value": 4096,
        "y_value_50": pytest.approx(0.094),
        "y_value_20": pytest.approx(0.0916),
        "y_value_80": pytest.approx(0.0964),
        "extra_benchmark_config_str": '{"M": 8192, "dtype": "bfloat16", "role": "tuning", "method": "graph"}',
        "gpu_name": "NVIDIA H200",
        "timestamp": "2026-11-29T14:05:00Z",
        "ci_low": 0.094,
        "ci_high": 0.094,
        "n_samples": 20,
        "source_sha256": measured.ORIGINAL_SHA,
    }


def test_memory_is_in_the_megabytes_of_liger_kernel() -> None:
    frame = results_frame(measured.spec(), (), memories(), measured.device())

    assert list(frame["metric_unit"]) == ["MB", "MB"]
    assert list(frame["y_value_50"]) == [96.0, 100.5]


def test_host_time_is_in_microseconds_of_its_samples() -> None:
    host_time = HostTime(case=CASE, mode=Mode.FORWARD, samples_us={"original": (10.0, 12.0, 14.0)})
    row = results_frame(measured.spec(), (), (), measured.device(), host_times=[host_time]).iloc[0]

    assert (row["metric_name"], row["metric_unit"], row["y_value_50"], row["n_samples"]) == ("host_time", "us", 12.0, 3)


def test_only_a_warm_timing_says_what_l2_was() -> None:
    warm = measured.timing(CASE, Mode.FORWARD, {"original": [[0.1]]}, l2="warm")
    cold = measured.timing(CASE, Mode.FORWARD, {"original": [[0.1]]})
    frame = results_frame(measured.spec(), (cold, warm), (), measured.device())

    extras = [json.loads(extra) for extra in frame["extra_benchmark_config_str"]]
    assert [extra.get("l2") for extra in extras] == [None, "warm"]


def test_a_contender_that_failed_has_no_row() -> None:
    frame = results_frame(measured.spec(), timings(), (), measured.device())

    assert list(frame["kernel_provider"]) == ["original", "liger", "original_copy", "original"]


def test_the_baseline_frame_holds_the_targets_providers_and_nothing_else() -> None:
    frame = baseline_frame(measured.spec(), timings(), (), measured.device())

    assert list(frame["kernel_provider"]) == ["original", "liger", "original"]


def test_a_variants_source_is_named_where_it_is_known() -> None:
    timing = measured.timing(CASE, Mode.FULL, {"original": [ORIGINAL_MS], "v1": [LIGER_MS], "v2": [LIGER_MS]})
    frame = results_frame(measured.spec(), (timing,), (), measured.device(), sources={"v1": measured.WINNER_SHA})

    assert list(frame["source_sha256"].fillna("")) == [measured.ORIGINAL_SHA, measured.WINNER_SHA, ""]


def test_a_frame_of_nothing_still_has_its_columns() -> None:
    assert (
        to_csv(results_frame(measured.spec(), (), (), measured.device()), MEASURED)
        == ",".join((*COLUMNS, "origin")) + "\n"
    )


def test_the_sweep_csv_has_a_column_a_knob(golden: Golden) -> None:
    warps, programs = "_rms_norm_backward_kernel.num_warps", "_rms_norm_backward_kernel.programs"
    readings = [
        Reading(CASE, Mode.BACKWARD, {warps: 8, programs: 4}, "0123456789ab", 0.0641, final=True),
        Reading(CASE, Mode.BACKWARD, {warps: 16}, "ba9876543210", 0.0980, final=False),
        Reading(CASE, Mode.BACKWARD, {warps: 32, programs: 4}, None, None, final=False, note="out of resource"),
    ]
    frame = sweep_frame(readings, original_ms={(CASE.name, Mode.BACKWARD): 0.0937})

    golden("sweep.csv", to_csv(frame, MEASURED))
    assert list(frame["speedup"].round(3).dropna()) == [1.462, 0.956]


def test_a_sweep_without_the_originals_time_has_no_speedup() -> None:
    frame = sweep_frame([Reading(CASE, Mode.FORWARD, {"k.num_warps": 8}, "b1", 0.0641, final=True)])

    assert frame["speedup"].isna().all()


def test_the_searches_of_several_variants_stand_below_each_other_with_every_knob_of_them() -> None:
    first = pd.DataFrame({"variant": ["v1"], "case": ["a"], "mode": ["full"], "_k.num_warps": [4], "median_ms": [1.0]})
    second = pd.DataFrame({"variant": ["v3"], "case": ["a"], "mode": ["full"], "_k.STAGES": [2], "median_ms": [0.5]})

    found = joined([first, second])

    assert list(found.columns) == ["variant", "case", "mode", "_k.num_warps", "_k.STAGES", "median_ms"]
    assert to_csv(found, MEASURED).splitlines()[1:] == [
        f"v1,a,full,4,,1,{MEASURED}",
        f"v3,a,full,,2,0.5,{MEASURED}",
    ]
