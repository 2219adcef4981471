from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.counters import Counters
from warpsmith.contracts.measurement import SourceRef
from warpsmith.measure.counters.kernel_names import short_name
from warpsmith.measure.counters.metrics import METRICS
from warpsmith.measure.counters.ncu import count
from warpsmith.measure.worker.protocol import Count, TargetRef

pytestmark = pytest.mark.gpu

CASE = Case(axes={"M": 2048, "N": 2048}, dtype=DType.BFLOAT16)
FORWARD, BACKWARD = "_rms_norm_forward_kernel", "_rms_norm_backward_kernel"
#: What the forward pass reads and writes at least: both matrices, each once.
LEAST_BYTES = 2 * 2048 * 2048 * 2


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def counted(root: Path, mode: Mode) -> Counters:
    """Of the kernel as it was: its pass backward zeroes partial sums, and adds them up in the end."""
    file, source = root / "benchmark" / "benchmark_rms_norm.py", root / "optimization/rms_norm/original_rms_norm.py"
    return count(
        Count(
            target=TargetRef(path=str(file), root=str(root), sha256=sha256(file)),
            source=SourceRef(path=str(source), sha256=sha256(source)),
            case=CASE,
            mode=mode,
        )
    )


def usable(found: Counters) -> Counters:
    if found.unavailable is not None:
        pytest.skip(f"{found.unavailable}; {found.remedy}")
    return found


def kernels(found: Counters) -> list[str]:
    return [short_name(row.kernel) for row in found.rows]


def test_there_are_rows_or_a_reason_with_a_remedy(root: Path) -> None:
    found = counted(root, Mode.FORWARD)

    assert bool(found.rows) != bool(found.unavailable)
    assert (found.unavailable is None) == (found.remedy is None)


def test_every_metric_comes_back_with_traffic_that_is_possible(root: Path) -> None:
    found = usable(counted(root, Mode.FORWARD))

    (row,) = found.rows
    assert (row.kernel, row.grid) == (FORWARD, "(2048, 1, 1)")
    assert found.ncu_version is not None
    assert found.missing_metrics == ()
    assert set(row.metrics) == set(METRICS)
    assert 1_000 < row.metrics["gpu__time_duration.sum"] < 1e6
    sectors = (row.metrics[f"lts__t_sectors_srcunit_tex_op_{way}.sum"] for way in ("read", "write"))
    assert 32 * sum(sectors) == pytest.approx(LEAST_BYTES, rel=0.1)


def test_a_pass_backward_has_a_row_a_launch_in_their_order(root: Path) -> None:
    found = usable(counted(root, Mode.BACKWARD))

    names = kernels(found)
    assert FORWARD not in names
    assert names.count(BACKWARD) == 1
    sums = [name for name in names[names.index(BACKWARD) + 1 :] if name.startswith("reduce_kernel<")]
    assert len(sums) == 1
    assert all(row.metrics["gpu__time_duration.sum"] > 0 for row in found.rows)


def test_a_full_call_is_both_passes(root: Path) -> None:
    both = kernels(usable(counted(root, Mode.FULL)))

    assert both == [FORWARD, *kernels(usable(counted(root, Mode.BACKWARD)))]
