from __future__ import annotations

import pytest

from warpsmith.contracts.case import DType
from warpsmith.contracts.device import TargetGpu
from warpsmith.contracts.errors import UsageError
from warpsmith.device import known_gpus
from warpsmith.device.architecture import architecture_of, limits_of
from warpsmith.device.known_gpus import known_gpu
from warpsmith.device.peaks import PEAKS, over_fp16

H200 = TargetGpu(
    name="NVIDIA H200",
    capability=(9, 0),
    sm_count=132,
    memory_bytes=141 * 1024**3,
    l2_bytes=60 * 1024**2,
    memory_gb_s=4800,
    matmul_tflops={DType.BFLOAT16: 989.5, DType.FLOAT16: 989.5, DType.FLOAT32: 67},
)


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
        ("V100", "Tesla V100-SXM2-32GB", 80),
        ("t4", "Tesla T4", 40),
        ("RTX 4080", "NVIDIA GeForce RTX 4080", 76),
        ("RTX 5080", "NVIDIA GeForce RTX 5080", 84),
        ("GH200", "NVIDIA GH200 480GB", 132),
        ("H20", "NVIDIA H20", 78),
        ("GB200", "NVIDIA GB200", 152),
        ("B300", "NVIDIA B300 SXM6 AC", 148),
    ],
)
def test_a_short_name_means_one_gpu(name: str, full: str, sm_count: int) -> None:
    found = known_gpu(name)

    assert (found.name, found.sm_count) == (full, sm_count)
    assert known_gpu(full) == found


@pytest.mark.parametrize(
    ("architecture", "full"),
    [
        ("volta", "Tesla V100-SXM2-32GB"),
        ("Turing", "Tesla T4"),
        ("ampere", "NVIDIA A100-SXM4-80GB"),
        ("ada", "NVIDIA GeForce RTX 4090"),
        ("Ada Lovelace", "NVIDIA GeForce RTX 4090"),
        ("HOPPER", "NVIDIA H100 80GB HBM3"),
        ("blackwell", "NVIDIA B200"),
    ],
)
def test_an_architecture_means_the_best_known_gpu_of_it(architecture: str, full: str) -> None:
    found = known_gpu(architecture)

    assert found.name == full
    assert architecture_of(found.capability) == architecture.split()[0].capitalize()


def test_peaks_are_those_of_the_gpus_that_are_known_and_of_no_other() -> None:
    assert set(PEAKS) == {gpu.name for gpu in known_gpus._KNOWN}


@pytest.mark.parametrize("gpu", known_gpus._KNOWN, ids=lambda gpu: gpu.name)
def test_tensor_cores_are_a_whole_multiple_of_the_plain_units(gpu: TargetGpu) -> None:
    """From 8.6 to 8.9 and on 12.0 exactly twice or four times, by whether the maker halves the rate of float32
    accumulation. In data centres more: the check finds a rate with sparsity, or of another type, in the table."""
    plain, half = gpu.matmul_tflops[DType.FLOAT32], gpu.matmul_tflops[DType.FLOAT16]
    halved = "GeForce" in gpu.name or gpu.name == "NVIDIA L40"
    if gpu.capability in ((8, 6), (8, 9), (12, 0)):
        assert half / plain == pytest.approx(2 if halved else 4, rel=0.02)
    else:
        assert 3 < half / plain < 35
    assert gpu.capability >= (8, 0) or DType.BFLOAT16 not in gpu.matmul_tflops


def test_every_known_gpu_has_a_name_of_its_own_and_known_limits() -> None:
    for gpu in known_gpus._KNOWN:
        assert known_gpu(gpu.name) == gpu
        assert limits_of(gpu.capability).shared_memory_per_block_bytes > 0


def test_an_unknown_name_is_answered_with_the_nearest_first_and_a_command() -> None:
    with pytest.raises(UsageError, match=r"no GPU 'H20O' is known; nearest: H20\b.*; known by name: V100,") as caught:
        known_gpu("H20O", "softmax")
    assert caught.value.next_command == "warpsmith profile softmax --target-gpu H20"


def test_a_family_that_is_misspelt_is_among_the_nearest() -> None:
    with pytest.raises(UsageError, match="nearest: hopper"):
        known_gpu("hoper")


@pytest.mark.parametrize("name", ["MI300X", "AMD Instinct MI250", "Radeon RX 7900", "Gaudi 3", "gfx942"])
def test_a_gpu_of_another_maker_is_near_to_none(name: str) -> None:
    with pytest.raises(UsageError, match="is no GPU of NVIDIA, and no other is compiled for; known by name") as caught:
        known_gpu(name)
    assert caught.value.next_command is None


def test_a_name_like_no_other_is_answered_with_all_names_and_families() -> None:
    with pytest.raises(UsageError, match=r"known by name: V100.*H200.*; by family: .*hopper \(H100\)") as caught:
        known_gpu("toaster?!", "softmax")
    assert "nearest" not in caught.value.message
    assert caught.value.next_command == "warpsmith profile softmax --target-gpu hopper"


@pytest.mark.parametrize("gpu", known_gpus._KNOWN, ids=lambda gpu: gpu.name)
def test_every_short_name_that_is_offered_means_its_gpu(gpu: TargetGpu) -> None:
    assert known_gpu(known_gpus._short(gpu.name)) == known_gpu(gpu.name)


@pytest.mark.parametrize(
    ("gpu", "operands", "times"),
    [
        ("NVIDIA H200", "float8_e4m3fn", 2.0),
        ("NVIDIA GeForce RTX 4090", "int8", 4.0),
        ("NVIDIA A100-SXM4-80GB", "float8_e4m3fn", None),
        ("Tesla V100-SXM2-32GB", "int8", None),
        ("NVIDIA H200", "int4", None),
        ("a GPU of no sheet", "int8", None),
    ],
)
def test_products_of_narrow_operands_are_so_many_times_as_fast(gpu: str, operands: str, times: float | None) -> None:
    assert over_fp16(gpu, operands) == times


def test_float8_is_there_from_8_9_on_and_not_before() -> None:
    for gpu in known_gpus._KNOWN:
        assert (over_fp16(gpu.name, "float8_e4m3fn") is not None) == (gpu.capability >= (8, 9)), gpu.name
