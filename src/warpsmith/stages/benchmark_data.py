"""What a finished run knows of the kernel that it applied, as rows of a repository's own benchmark data."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import defaultdict
from pathlib import Path

import numpy as np

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.device import OriginKind
from warpsmith.contracts.errors import Rejected, UsageError
from warpsmith.contracts.measurement import L2
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.result import FinalOutcome, FinalResult
from warpsmith.contracts.target import TargetSpec
from warpsmith.measure.worker.protocol import Describe, answer_of
from warpsmith.stages.in_place import OPTIMIZED
from warpsmith.stages.session import target_ref, worker_without_gpu
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace

#: Liger-Kernel's MB is 2**20 bytes (benchmark/scripts/utils.py).
BYTES_PER_MB = 2**20


def rows_of_the_winner(workspace: Workspace, target_path: Path, provider: str) -> list[dict[str, str]]:
    """One row a case, mode and metric of what was measured afresh of the applied winner: speed in ms, memory in MB.

    Percentiles are of the raw samples. Raises UsageError where no run has finished, Rejected where no winner is in
    place or its figures are not of this machine, WorkerError where the target cannot be loaded.
    """
    kernel = workspace.kernel
    if not workspace.final_result.is_file():
        raise UsageError(f"no finished run of {kernel}", next_command=f"warpsmith status {kernel}")
    result, profile = read_document(workspace.final_result, FinalResult), read_document(workspace.profile, Profile)
    if result.outcome is not FinalOutcome.APPLIED or result.taken_back_at is not None:
        raise Rejected(f"{kernel} is as it was: benchmark data is for a winner that is in place")
    if profile.origin.kind is not OriginKind.MEASURED:
        raise Rejected(f"the figures of this run are {profile.origin}: benchmark data is for what was measured here")
    with worker_without_gpu(workspace.root) as worker:
        spec = answer_of(worker, Describe(target=target_ref(workspace.root, target_path)), TargetSpec)
    cases = {case.name: case for case in spec.cases}
    rows: list[dict[str, str]] = []
    for (metric, case, mode, l2), samples in _samples(workspace).items():
        if case in cases:
            what = _speed(samples) if metric == "time" else _memory(samples)
            rows.append(_identity(spec, cases[case], Mode(mode), l2) | what)
    told = {"kernel_provider": provider, "gpu_name": profile.device.name, "timestamp": profile.device.measured_at}
    return [row | told for row in rows]


def _samples(workspace: Workspace) -> dict[tuple[str, str, str, str], list[float]]:
    """By metric, case, mode and state of L2, what was read of the winner beside the original alone."""
    found: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    try:
        text = workspace.confirmation_csv.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{workspace.confirmation_csv} cannot be read: {error.strerror}") from error
    for row in csv.DictReader(io.StringIO(text)):
        if row["contender"] == OPTIMIZED and row["comparison"] != "with the baselines":
            key = row["metric"], row["case"], row["mode"], row["l2"]
            found[key] += [float(each) for each in row["samples"].split()]
    return found


def _identity(spec: TargetSpec, case: Case, mode: Mode, l2: str) -> dict[str, str]:
    extra: dict[str, object] = {axis: size for axis, size in case.axes.items() if axis != spec.plot_axis}
    extra |= {"dtype": case.dtype.value, **case.options}
    if l2 == L2.WARM.value:
        extra["l2"] = l2
    return {
        "kernel_name": spec.name,
        "kernel_operation_mode": mode.value,
        "x_name": spec.plot_axis,
        "x_label": spec.plot_axis,
        "x_value": str(case.axes.get(spec.plot_axis, "")),
        "extra_benchmark_config_str": json.dumps(extra),
    }


def _speed(samples_ms: list[float]) -> dict[str, str]:
    return {"metric_name": "speed", "metric_unit": "ms", **_percentiles(samples_ms)}


def _memory(peaks_bytes: list[float]) -> dict[str, str]:
    return {"metric_name": "memory", "metric_unit": "MB", **_percentiles([b / BYTES_PER_MB for b in peaks_bytes])}


def _percentiles(samples: list[float]) -> dict[str, str]:
    low, middle, high = (float(each) for each in np.percentile(samples, (20, 50, 80)))
    assert all(map(math.isfinite, (low, middle, high)))
    return {"y_value_50": f"{middle:.6g}", "y_value_20": f"{low:.6g}", "y_value_80": f"{high:.6g}"}
