from __future__ import annotations

import pytest

from warpsmith.contracts.device import DeviceFacts
from warpsmith.device.gpus import Gpu, GpuList
from warpsmith.device.known_gpus import known_gpu
from warpsmith.device.notes import device_notes
from warpsmith.device.predicted import predicted_facts


def used(name: str = "H200", uuid: str = "GPU-b") -> DeviceFacts:
    facts = predicted_facts(known_gpu(name), torch="2", triton="3", ptxas=None, harness="1")
    return facts.model_copy(update={"uuid": uuid})


def gpu(index: int, uuid: str) -> Gpu:
    return Gpu(index, uuid, "NVIDIA H200", (9, 0), ())


ONE = GpuList((gpu(0, "GPU-b"),))
TWO = GpuList((gpu(0, "GPU-a"), gpu(1, "GPU-b")))


@pytest.mark.parametrize("listed", [None, ONE, GpuList((), "NVML finds no NVIDIA GPU")])
def test_one_gpu_that_is_the_one_asked_for_is_nothing_to_tell(listed: GpuList | None) -> None:
    assert device_notes(None, used(), listed) == ()
    assert device_notes(known_gpu("h200"), used(), listed) == ()


@pytest.mark.parametrize(
    ("asked", "alike"),
    [
        ("H100", "the same compute capability (9.0 and 9.0)"),
        ("RTX 4090", "another compute capability (8.9 and 9.0)"),
    ],
)
def test_another_gpu_than_the_one_asked_for_is_told_with_both_names(asked: str, alike: str) -> None:
    (note,) = device_notes(known_gpu(asked), used(), ONE)

    assert note == (
        f"asked for {known_gpu(asked).name}, but times, ceilings and counters are those of NVIDIA H200: "
        f"{alike}, and another GPU"
    )


@pytest.mark.parametrize("uuid", ["GPU-b", "MIG-b", "b"])
def test_of_several_gpus_the_one_used_is_told_by_its_uuid(uuid: str) -> None:
    (note,) = device_notes(None, used(uuid=uuid), TWO)

    assert note == (f"2 GPUs are here (0: NVIDIA H200 (GPU-a), 1: NVIDIA H200 (GPU-b)); {uuid} is the one used")


def test_several_gpus_of_which_none_is_used_are_told_so() -> None:
    (note,) = device_notes(None, used(uuid="none"), TWO)

    assert note.endswith("none of them is used")


def test_hidden_gpus_are_told() -> None:
    reason = "CUDA_VISIBLE_DEVICES='1' hides 1 of 2 GPUs"

    assert device_notes(None, used(), GpuList(ONE.gpus, reason)) == (reason,)
