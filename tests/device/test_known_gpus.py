from __future__ import annotations

import pytest

from warpsmith.contracts.device import TargetGpu
from warpsmith.contracts.errors import UsageError
from warpsmith.device import known_gpus
from warpsmith.device.architecture import limits_of
from warpsmith.device.known_gpus import known_gpu

H200 = TargetGpu(name="NVIDIA H200", capability=(9, 0), sm_count=132, memory_bytes=141 * 1024**3, l2_bytes=60 * 1024**2)


@pytest.mark.parametrize("name", ["H200", "h200", "NVIDIA H200", "nvidia-h200", " Nvidia  H200 "])
def test_a_gpu_is_known_however_its_name_is_said(name: str) -> None:
    assert known_gpu(name) == H200


@pytest.mark.parametrize(
    ("name", "full", "sm_count"),
    [
        ("A100", "NVIDIA A100-SXM4-80GB", 108),
        ("a100 40gb", "NVIDIA A100-SXM4-40GB", 108),
        ("H100", "NVIDIA H100 80GB HBM3", 132),
        ("H100 SXM", "NVIDIA H100 80GB HBM3", 132),
        ("H100 PCIe", "NVIDIA H100 PCIe", 114),
        ("rtx 4090", "NVIDIA GeForce RTX 4090", 128),
        ("RTX5090", "NVIDIA GeForce RTX 5090", 170),
        ("L40S", "NVIDIA L40S", 142),
        ("L4", "NVIDIA L4", 58),
        ("A10", "NVIDIA A10", 72),
        ("B200", "NVIDIA B200", 148),
    ],
)
def test_a_short_name_means_one_gpu(name: str, full: str, sm_count: int) -> None:
    found = known_gpu(name)

    assert (found.name, found.sm_count) == (full, sm_count)
    assert known_gpu(full) == found


def test_every_known_gpu_has_a_name_of_its_own_and_known_limits() -> None:
    for gpu in known_gpus._KNOWN:
        assert known_gpu(gpu.name) == gpu
        assert limits_of(gpu.capability).shared_memory_per_block_bytes > 0


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no GPU 'H20O' is known; nearest are .*NVIDIA H200"):
        known_gpu("H20O")


def test_a_name_like_no_other_is_answered_with_all_of_them() -> None:
    with pytest.raises(UsageError, match=r"known are NVIDIA A100.*NVIDIA H200.*RTX 5090"):
        known_gpu("toaster?!")
