"""What doctor tells of a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.device.gpus import Gpu, GpuList
from warpsmith.measure.worker.confinement import Confinement
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


@pytest.mark.parametrize(
    ("offered", "finding"),
    [
        (Confinement(7), Finding(name="workers", ok=True, found="confined by Landlock (ABI 7)")),
        (
            Confinement(4),
            Finding(
                name="workers",
                ok=True,
                found="confined by Landlock (ABI 4)",
                consequence="a variant can end the command; the same command goes on",
            ),
        ),
        (
            Confinement(0, "Landlock 3 or newer is needed, this kernel does not offer it"),
            Finding(
                name="workers",
                ok=False,
                found="not confined: Landlock 3 or newer is needed, this kernel does not offer it",
                consequence="what a variant does to files is seen and put back, not prevented; it can end the command",
            ),
        ),
    ],
)
def test_what_confines_workers_is_told_with_what_it_leaves_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offered: Confinement, finding: Finding
) -> None:
    monkeypatch.setattr(doctor, "confinement", lambda: offered)

    assert finding in examine(tmp_path)
