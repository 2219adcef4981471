"""GPUs as NVML lists them, seen through CUDA_VISIBLE_DEVICES; no NVML is a reason and no error."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from warpsmith.device.gpus import Gpu, GpuList, choose, gpus


class NVMLError(Exception):
    pass


@dataclass
class Card:
    uuid: str | bytes
    pids: tuple[int, ...] | None = ()
    parent: Card | None = None


@dataclass
class Nvml:
    """Stands in for the module pynvml."""

    cards: tuple[Card, ...] = ()
    missing: str | None = None
    instances: dict[str, Card] = field(default_factory=dict)
    open: int = 0
    NVMLError: type[Exception] = NVMLError

    def nvmlInit(self) -> None:
        if self.missing:
            raise NVMLError(self.missing)
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:
        return self.cards[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Card:
        if uuid not in self.instances:
            raise NVMLError("Not Found")
        return self.instances[uuid]

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, card: Card) -> Card:
        assert card.parent is not None
        return card.parent

    def nvmlDeviceGetIndex(self, card: Card) -> int:
        return self.cards.index(card)

    def nvmlDeviceGetCudaComputeCapability(self, card: Card) -> tuple[int, int]:
        if card.parent is not None:
            raise NVMLError("Invalid Argument")
        return (9, 0)

    def nvmlDeviceGetUUID(self, card: Card) -> str | bytes:
        return card.uuid

    def nvmlDeviceGetName(self, card: Card) -> str | bytes:
        return b"NVIDIA H200" if isinstance(card.uuid, bytes) else "NVIDIA H200"

    def nvmlDeviceGetComputeRunningProcesses(self, card: Card) -> list[SimpleNamespace]:
        if card.pids is None:
            raise NVMLError("Insufficient Permissions")
        return [SimpleNamespace(pid=pid) for pid in card.pids]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    fake = Nvml(cards=(Card("GPU-aaaa", (7, 3, os.getpid())), Card(b"GPU-aabb"), Card("GPU-cccc", None)))
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def gpu(index: int, uuid: str, other_processes: tuple[int, ...] | None) -> Gpu:
    return Gpu(index, uuid, "NVIDIA H200", (9, 0), other_processes)


ALL = (gpu(0, "GPU-aaaa", (3, 7)), gpu(1, "GPU-aabb", ()), gpu(2, "GPU-cccc", None))


def test_every_gpu_is_listed_with_who_else_uses_it(nvml: Nvml) -> None:
    assert gpus({}) == GpuList(ALL, None)
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("value", "indices", "hidden"),
    [
        ("0,1,2", (0, 1, 2), 0),
        ("2,0", (2, 0), 1),
        ("GPU-cccc, 1", (2, 1), 1),
        ("GPU-aab", (1,), 2),
        ("0,9,1", (0,), 2),
        ("0,-1,1", (0,), 2),
        ("GPU-aa", (), 3),
        ("", (), 3),
        ("NoDevFiles", (), 3),
        ("MIG-unknown", (), 3),
    ],
)
def test_the_environment_hides_gpus_as_cuda_reads_it(
    nvml: Nvml, value: str, indices: tuple[int, ...], hidden: int
) -> None:
    reason = f"CUDA_VISIBLE_DEVICES={value!r} hides {hidden} of 3 GPUs" if hidden else None

    assert gpus({"CUDA_VISIBLE_DEVICES": value}) == GpuList(tuple(ALL[index] for index in indices), reason)


def test_a_mig_instance_is_a_gpu_of_its_own(nvml: Nvml) -> None:
    nvml.instances = {"MIG-1": Card("MIG-1", (), parent=nvml.cards[2])}

    assert gpus({"CUDA_VISIBLE_DEVICES": "MIG-1"}).gpus == (gpu(2, "MIG-1", ()),)


@pytest.mark.parametrize("missing", ["NVML Shared Library Not Found", "Driver Not Loaded"])
def test_no_driver_is_a_reason(nvml: Nvml, missing: str) -> None:
    nvml.missing = missing

    assert gpus({}) == GpuList((), f"NVML does not answer: {missing}")


def test_no_package_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)

    assert gpus({}) == GpuList((), "the Python package nvidia-ml-py is not installed")


@pytest.mark.parametrize("environment", [{}, {"CUDA_VISIBLE_DEVICES": "0"}])
def test_a_machine_without_gpus_says_so(nvml: Nvml, environment: dict[str, str]) -> None:
    nvml.cards = ()

    assert gpus(environment) == GpuList((), "NVML finds no NVIDIA GPU")


@pytest.mark.parametrize(
    ("device", "index"),
    [("auto", 1), ("0", 0), ("2", 2), ("9", None), ("GPU-cccc", 2), ("GPU-aab", 1), ("GPU-aa", None), ("", None)],
)
def test_a_gpu_is_chosen_by_index_by_uuid_or_for_being_idle(device: str, index: int | None) -> None:
    assert choose(device, GpuList(ALL)) == (None if index is None else ALL[index])


def test_where_all_are_busy_the_first_is_chosen_and_where_none_is_there_none() -> None:
    busy = (gpu(0, "GPU-aaaa", (3,)), gpu(1, "GPU-aabb", (4,)))

    assert choose("auto", GpuList(busy)) == busy[0]
    assert choose("auto", GpuList((), "none")) is None


def test_choosing_asks_nvml_when_it_is_given_no_list(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")

    assert choose() == ALL[2]


@pytest.mark.gpu
def test_the_gpu_that_is_here_is_the_one_that_cuda_sees() -> None:
    import torch

    found = gpus()
    properties = torch.cuda.get_device_properties(0)

    assert (properties.name, (properties.major, properties.minor)) in {
        (each.name, each.capability) for each in found.gpus
    }
    assert f"{properties.uuid}" in {each.uuid.removeprefix("GPU-").removeprefix("MIG-") for each in found.gpus}
