"""The CSV frames: Liger-Kernel's benchmark columns, so that existing plots read them, then ours.

Owns columns and their units; must not know where a file goes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import DeviceFacts, Origin
from warpsmith.contracts.measurement import L2, ORIGINAL, HostTime, Memory, Timing
from warpsmith.contracts.target import TargetSpec
from warpsmith.report.rows import contenders_of, samples_ms
from warpsmith.search.tuning.results import Reading
from warpsmith.verdict.statistics import median_ms

#: As in linkedin/Liger-Kernel, benchmark/data/all_benchmark_data.csv, without its liger_version.
LIGER_COLUMNS = (
    "kernel_name",
    "kernel_provider",
    "kernel_operation_mode",
    "metric_name",
    "metric_unit",
    "x_name",
    "x_label",
    "x_value",
    "y_value_50",
    "y_value_20",
    "y_value_80",
    "extra_benchmark_config_str",
    "gpu_name",
    "timestamp",
)
COLUMNS = (*LIGER_COLUMNS, "ci_low", "ci_high", "n_samples", "source_sha256")

#: Liger-Kernel's MB is 2**20 bytes (benchmark/scripts/utils.py), and so is ours.
BYTES_PER_MB = 2**20


def baseline_frame(
    spec: TargetSpec,
    timings: Iterable[Timing],
    memories: Iterable[Memory],
    device: DeviceFacts,
    *,
    host_times: Iterable[HostTime] = (),
) -> pd.DataFrame:
    """v0's frame: the original and the target's providers, and nothing else that ran beside them."""
    frame = results_frame(spec, timings, memories, device, host_times=host_times)
    return frame[frame["kernel_provider"].isin([ORIGINAL, *spec.providers])].reset_index(drop=True)


def results_frame(
    spec: TargetSpec,
    timings: Iterable[Timing],
    memories: Iterable[Memory],
    device: DeviceFacts,
    *,
    sources: Mapping[str, str] | None = None,
    host_times: Iterable[HostTime] = (),
) -> pd.DataFrame:
    """One row a contender, case, mode and metric, in order measured: speed in ms, memory in MB of 2**20 bytes, host
    time a call in us.

    The percentiles are of the raw samples, the interval is that of the median. `timestamp` is when the
    device was inspected, at the start of the run; `sources` is contender -> sha256 of its source beside the
    original's. A contender that failed has no row. Speed with L2 warm says so in extra_benchmark_config_str.
    """
    shas = {ORIGINAL: spec.source_sha256, **(sources or {})}
    rows: list[dict[str, object]] = []
    for timing in timings:
        for name in contenders_of(timing):
            if name not in timing.failures:
                rows.append(_identity(spec, timing, name, shas) | _speed(timing, name))
    for memory in memories:
        for name, peak_bytes in memory.peak_bytes.items():
            rows.append(_identity(spec, memory, name, shas) | _memory(peak_bytes))
    for host_time in host_times:
        for name, samples_us in host_time.samples_us.items():
            rows.append(_identity(spec, host_time, name, shas) | _host_time(samples_us))
    for row in rows:
        row |= {"gpu_name": device.name, "timestamp": device.measured_at}
    return pd.DataFrame(rows, columns=list(COLUMNS))


def sweep_frame(
    readings: Iterable[Reading], *, original_ms: Mapping[tuple[str, Mode], float] | None = None
) -> pd.DataFrame:
    """One row a reading: a column a knob, the median in ms, the speed-up, the machine code, why it was not timed.

    `original_ms` is (case name, mode) -> median of the original's own settings, which `speedup` is over; where it
    is not given, `speedup` is empty. Knobs that a reading does not set are empty.
    """
    found = list(readings)
    knobs = sorted({knob for reading in found for knob in reading.settings})
    rows = [_sweep_row(reading, (original_ms or {}).get((reading.case.name, reading.mode))) for reading in found]
    columns = ["case", "mode", *knobs, "median_ms", "speedup", "binary", "final", "note"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(knobs, "Int64"))


def joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all, one below the other. A knob that only some of them have stands before what was measured."""
    columns = dict.fromkeys(column for frame in frames for column in frame.columns)
    knobs = [column for column in columns if "." in column]
    first = [column for column in columns if column in ("variant", "case", "mode")]
    rest = [column for column in columns if column not in (*first, *knobs)]
    rows = [row for frame in frames for row in frame.to_dict("records")]
    return pd.DataFrame(rows, columns=[*first, *knobs, *rest]).astype(dict.fromkeys(knobs, "Int64"))


def to_csv(frame: pd.DataFrame, origin: Origin) -> str:
    """The frame as CSV text with a header, LF line ends, six significant digits, and each row's origin in the end."""
    told = frame.assign(origin=str(origin))
    text: str = told.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    return text


def _identity(
    spec: TargetSpec, measured: Timing | Memory | HostTime, contender: str, shas: Mapping[str, str]
) -> dict[str, object]:
    case = measured.case
    extra: dict[str, object] = {axis: size for axis, size in case.axes.items() if axis != spec.plot_axis}
    extra |= {"dtype": case.dtype.value, "role": case.role.value, **case.options}
    if isinstance(measured, Timing):
        extra["method"] = measured.method.value
        if measured.l2 is not L2.COLD:
            extra["l2"] = measured.l2.value
    return {
        "kernel_name": spec.name,
        "kernel_provider": contender,
        "kernel_operation_mode": measured.mode.value,
        "x_name": spec.plot_axis,
        "x_label": spec.plot_axis,
        "x_value": case.axes.get(spec.plot_axis),
        "extra_benchmark_config_str": json.dumps(extra),
        "source_sha256": shas.get(contender),
    }


def _sweep_row(reading: Reading, original_ms: float | None) -> dict[str, object]:
    speedup = None if reading.time_ms is None or original_ms is None else original_ms / reading.time_ms
    return {
        "case": reading.case.name,
        "mode": reading.mode.value,
        **reading.settings,
        "median_ms": reading.time_ms,
        "speedup": speedup,
        "binary": reading.binary,
        "final": reading.final,
        "note": reading.note,
    }


def _speed(timing: Timing, contender: str) -> dict[str, object]:
    interval = median_ms(timing, contender)
    percentiles = _percentiles(samples_ms(timing, contender))
    return {
        "metric_name": "speed",
        "metric_unit": "ms",
        **percentiles,
        "ci_low": interval.low,
        "ci_high": interval.high,
    }


def _host_time(samples_us: Sequence[float]) -> dict[str, object]:
    return {"metric_name": "host_time", "metric_unit": "us", **_percentiles(samples_us)}


def _percentiles(samples: Sequence[float]) -> dict[str, object]:
    low, middle, high = np.percentile(samples, (20, 50, 80))
    return {"y_value_50": middle, "y_value_20": low, "y_value_80": high, "n_samples": len(samples)}


def _memory(peak_bytes: int) -> dict[str, object]:
    megabytes = peak_bytes / BYTES_PER_MB
    return {
        "metric_name": "memory",
        "metric_unit": "MB",
        "y_value_50": megabytes,
        "y_value_20": megabytes,
        "y_value_80": megabytes,
        "n_samples": 1,
    }
