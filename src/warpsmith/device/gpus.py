"""Which NVIDIA GPUs are here, by UUID, asked of NVML without a CUDA context. Must not know what they are used for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Gpu:
    """One GPU (or one MIG instance). `index` is NVML's, which orders by PCI bus, as nvidia-smi does.

    `other_processes` are the ids of processes other than this one that compute on it; None where NVML cannot tell.
    """

    index: int
    uuid: str
    name: str
    capability: tuple[int, int]
    other_processes: tuple[int, ...] | None


@dataclass(frozen=True)
class GpuList:
    """The GPUs that this process may use, and why there are none, or not all, of those in the machine."""

    gpus: tuple[Gpu, ...]
    reason: str | None = None


def gpus(environment: Mapping[str, str] | None = None) -> GpuList:
    """The GPUs that `CUDA_VISIBLE_DEVICES` leaves visible. Never raises: no driver is a reason, not an error.

    A number there is taken as NVML's index, which is CUDA's too where the GPUs of a machine are alike.
    """
    visible = (os.environ if environment is None else environment).get(VISIBLE_DEVICES)
    try:
        import pynvml
    except ImportError:
        return GpuList((), "the Python package nvidia-ml-py is not installed")
    try:
        with _nvml(pynvml):
            handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
            found = tuple(_gpu(pynvml, handle, index) for index, handle in enumerate(handles))
            if visible is None:
                return GpuList(found, None if found else "NVML finds no NVIDIA GPU")
            return _visible(pynvml, found, visible)
    except pynvml.NVMLError as error:
        return GpuList((), f"NVML does not answer: {error}")


def choose(device: str = "auto", found: GpuList | None = None) -> Gpu | None:
    """The GPU of that index or UUID (or a unique beginning of one); for "auto", an idle one, else the first.

    None where there is none such; `gpus().reason` tells why.
    """
    candidates = (gpus() if found is None else found).gpus
    if device == "auto":
        idle = [gpu for gpu in candidates if not gpu.other_processes]
        return next(iter(idle or candidates), None)
    if device.isdecimal():
        return next((gpu for gpu in candidates if gpu.index == int(device)), None)
    return _by_uuid(candidates, device)


@contextmanager
def _nvml(pynvml: ModuleType) -> Iterator[None]:
    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def _visible(pynvml: ModuleType, found: tuple[Gpu, ...], tokens: str) -> GpuList:
    """As CUDA reads the variable: in its order, up to the first entry that names no GPU."""
    chosen: list[Gpu] = []
    for token in (part.strip() for part in tokens.split(",")):
        gpu = _named(pynvml, found, token)
        if gpu is None:
            break
        chosen.append(gpu)
    hidden = len(found) - len({gpu.index for gpu in chosen})
    reason = f"{VISIBLE_DEVICES}={tokens!r} hides {hidden} of {len(found)} GPUs" if hidden else None
    return GpuList(tuple(chosen), reason if found else "NVML finds no NVIDIA GPU")


def _named(pynvml: ModuleType, found: tuple[Gpu, ...], token: str) -> Gpu | None:
    if token.startswith("MIG-"):
        try:
            handle = pynvml.nvmlDeviceGetHandleByUUID(token)
            parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
            return _gpu(pynvml, handle, pynvml.nvmlDeviceGetIndex(parent), of=parent)
        except pynvml.NVMLError:
            return None
    if token.isdecimal():
        return next((gpu for gpu in found if gpu.index == int(token)), None)
    return _by_uuid(found, token)


def _by_uuid(candidates: tuple[Gpu, ...], beginning: str) -> Gpu | None:
    matching = [gpu for gpu in candidates if gpu.uuid.startswith(beginning)] if beginning else []
    return matching[0] if len(matching) == 1 else None


def _gpu(pynvml: ModuleType, handle: Any, index: int, *, of: Any = None) -> Gpu:
    """`of` is the whole GPU that a MIG instance is a part of."""
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle if of is None else of)
    return Gpu(
        index=index,
        uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
        name=_text(pynvml.nvmlDeviceGetName(handle)),
        capability=(int(major), int(minor)),
        other_processes=_other_processes(pynvml, handle),
    )


def _other_processes(pynvml: ModuleType, handle: Any) -> tuple[int, ...] | None:
    try:
        running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except pynvml.NVMLError:
        return None
    return tuple(sorted({int(process.pid) for process in running} - {os.getpid()}))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
