"""Tensors on a GPU that is not there: shapes, dtypes, strides and addresses without values, and their gradients.

They are torch's fake tensors, with what those leave open: the bytes of an address that Triton specializes on, "the
current GPU", random numbers that nobody draws, and autograd without its engine, which asks the accelerator for streams.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses import fake_tensor
from torch.overrides import TorchFunctionMode

from warpsmith.measure.compiled.gradients import gradients

#: c10::DeviceType, c10/core/DeviceType.h.
_CPU, _CUDA = 0, 1
#: c10::impl::device_guard_impl_registry, c10/core/impl/DeviceGuardImplInterface.h: an array of pointers by device type.
_GUARDS = "_ZN3c104impl26device_guard_impl_registryE"
#: Chosen: what a CUDA allocation is aligned to at least (CUDA Programming Guide, "Device Memory Accesses").
_ALLOCATION_BYTES = 256


@contextmanager
def tensors_without_values() -> Iterator[None]:
    """Inside, every tensor is without values; one on "cuda" lies on device 0. Nothing is allocated or computed.

    Where a value is asked for, torch raises DataDependentOutputException. Only this thread is concerned.
    """
    with ExitStack() as stack:
        stack.enter_context(_a_guard_for_cuda())
        for name in ("init_gpu_context", "init_cuda_context"):  # it allocates on the GPU, for autograd's engine
            if hasattr(fake_tensor, name):
                stack.enter_context(mock.patch.object(fake_tensor, name, lambda *_: None))
        stack.enter_context(mock.patch.object(torch, "Generator", _Generator))
        stack.enter_context(mock.patch.object(torch.autograd, "grad", gradients))
        stack.enter_context(_WithoutDevice(allow_non_fake_inputs=True))
        stack.enter_context(_OnDeviceZero())
        yield


class _WithoutDevice(fake_tensor.FakeTensorMode):
    """Fake tensors that never prepare a device, whatever torch.cuda.is_available answers."""

    @property
    def avoid_device_init(self) -> bool:
        return True


class _Generator(torch.Generator):
    """A generator on the CPU, whatever device it is asked for: fake tensors draw nothing from it."""

    def __new__(cls, device: Any = None) -> _Generator:
        return super().__new__(cls, device="cpu")  # type: ignore[call-arg]  # torch declares it as __init__


class _OnDeviceZero(TorchFunctionMode):
    """Addresses of tensors without storage, and "cuda" as the first GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {name: _indexed(value) for name, value in (kwargs or {}).items()}
        if func is Tensor.data_ptr:
            return _address(args[0])
        if func is Tensor.cuda:
            return args[0].to(torch.device("cuda", 0))
        if func is Tensor.pin_memory:
            return args[0]
        if func is Tensor.to:
            args = tuple(map(_indexed, args))
        return func(*args, **kwargs)


def _indexed(value: Any) -> Any:
    if isinstance(value, str | torch.device) and str(value) == "cuda":
        return torch.device("cuda", 0)
    return value


def _address(tensor: Tensor) -> int:
    """An address that no other storage has, aligned as an allocation is, plus the tensor's offset into it."""
    storage: int = tensor.untyped_storage()._cdata
    return storage * _ALLOCATION_BYTES + int(tensor.storage_offset()) * tensor.element_size()


@contextmanager
def _a_guard_for_cuda() -> Iterator[None]:
    """On a build of torch without CUDA, lends "cuda" the guard of the CPU, which does nothing.

    A build with CUDA and no GPU does the same by itself. Without a guard, indexing a tensor raises and autograd aborts.
    """
    if torch.backends.cuda.is_built():
        yield
        return
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    guards = (ctypes.c_void_p * 2).in_dll(library, _GUARDS)
    before = guards[_CUDA]
    guards[_CUDA] = before or guards[_CPU]
    try:
        yield
    finally:
        guards[_CUDA] = before
