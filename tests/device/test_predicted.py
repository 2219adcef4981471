from __future__ import annotations

import pytest

from warpsmith.contracts.case import DType
from warpsmith.contracts.device import CopyCeiling, DeviceFacts, Environment, TargetGpu
from warpsmith.contracts.errors import Unavailable
from warpsmith.device.known_gpus import known_gpu
from warpsmith.device.predicted import predicted_facts


def predicted(gpu: TargetGpu) -> DeviceFacts:
    return predicted_facts(gpu, torch="2.13.0+cpu", triton="3.7.1", ptxas="12.8", harness="1")


def test_a_gpu_that_is_not_here_has_the_limits_and_peaks_of_its_data_sheet_and_says_so() -> None:
    assert predicted(known_gpu("H200")) == DeviceFacts(
        name="NVIDIA H200",
        uuid="none",
        capability=(9, 0),
        architecture="Hopper",
        sm_count=132,
        memory_bytes=141 << 30,
        l2_bytes=60 << 20,
        shared_memory_per_sm_bytes=228 << 10,
        shared_memory_per_block_bytes=227 << 10,
        registers_per_sm=65536,
        max_threads_per_sm=2048,
        max_sm_clock_mhz=None,
        copy_ceilings=(CopyCeiling(footprint_bytes=1 << 30, gb_s=4800, kernel="data sheet peak"),),
        matmul_tflops={DType.BFLOAT16: 989.5, DType.FLOAT16: 989.5, DType.FLOAT32: 67},
        environment=Environment(
            gpu_name="NVIDIA H200",
            gpu_uuid="none",
            driver="none",
            cuda="none",
            torch="2.13.0+cpu",
            triton="3.7.1",
            ptxas="12.8",
            fp_fusion=True,
            harness="1",
        ),
        measured_at="",
        ceilings_from="the data sheet's peaks",
    )


def test_the_peak_holds_at_every_footprint() -> None:
    facts = predicted(known_gpu("A100"))

    assert {facts.copy_ceiling_gb_s(footprint) for footprint in (1, 1 << 20, 1 << 40)} == {2039}


def test_peaks_that_no_document_gives_are_left_out() -> None:
    gpu = known_gpu("H200").model_copy(update={"memory_gb_s": None, "matmul_tflops": {}})

    facts = predicted(gpu)

    assert (facts.copy_ceilings, facts.matmul_tflops) == ((), {})


def test_a_gpu_of_an_unknown_architecture_is_not_predicted() -> None:
    with pytest.raises(Unavailable, match=r"unknown compute capability 99\.0"):
        predicted(known_gpu("H200").model_copy(update={"capability": (99, 0)}))
