"""What doctor tells of a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.device.gpus import Gpu, GpuList
from warpsmith.stages import doctor
from warpsmith.stages.doctor import Finding, examine


@pytest.mark.parametrize(
    ("processes", "told"),
    [
        ((), "no other process uses it"),
        ((12, 34), "other processes use it: 12, 34"),
        (None, "NVML does not say whether other processes use it"),
    ],
)
def test_a_gpu_is_told_with_who_else_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: tuple[int, ...] | None, told: str
) -> None:
    gpu = Gpu(index=0, uuid="GPU-0", name="NVIDIA H200", capability=(9, 0), other_processes=processes)
    monkeypatch.setattr(doctor, "gpus", lambda: GpuList((gpu,)))

    assert examine(tmp_path)[0] == Finding(name="gpu 0", ok=True, found=f"NVIDIA H200, SM 9.0 (Hopper); {told}")
