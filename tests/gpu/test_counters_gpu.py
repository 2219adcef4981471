from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.measurement import SourceRef
from warpsmith.contracts.target import Target
from warpsmith.measure.counters.ncu import count
from warpsmith.measure.worker.protocol import Count, TargetRef

pytestmark = pytest.mark.gpu


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_full_call_has_a_row_a_kernel_or_a_reason_with_a_remedy(root: Path, target: Target) -> None:
    file, source = root / "benchmark" / "benchmark_rms_norm.py", root / target.source
    found = count(
        Count(
            target=TargetRef(path=str(file), root=str(root), sha256=sha256(file)),
            source=SourceRef(path=str(source), sha256=sha256(source)),
            case=Case(axes={"M": 2048, "N": 2048}, dtype=DType.BFLOAT16),
            mode=Mode.FULL,
        )
    )

    if found.rows:
        kernels = [row.kernel for row in found.rows]
        assert kernels[0] == "_rms_norm_forward_kernel"
        assert "_rms_norm_backward_kernel" in kernels
        assert all(row.metrics["gpu__time_duration.sum"] > 0 for row in found.rows)
        assert found.ncu_version is not None
    else:
        assert found.unavailable and found.remedy
