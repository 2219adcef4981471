"""What kernels ask of their arguments, in one wording, and where torch takes over. Must not know any kernel."""

from __future__ import annotations

import functools
import numbers
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from triton import knobs

#: Whether kernels are interpreted, which takes CPU tensors: Triton settles that when they are defined.
_INTERPRETED: bool = knobs.runtime.interpret
#: Chosen: programs of an interpreted kernel that would have some on every SM.
_INTERPRETED_SMS = 3
_INTERPRETED_SHARED_BYTES = 98304

#: Whether it is said where torch takes over.
_ANNOUNCING: ContextVar[bool] = ContextVar("announcing", default=True)

FLOATING = (torch.float32, torch.float16, torch.bfloat16)
QUANTIZED = (torch.int8, torch.float8_e4m3fn)


def expect_dense(op: str, **tensors: Tensor) -> None:
    """Raises TypeError for what is no tensor, or sparse or nested."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{op}: {name} must be a tensor, found {type(tensor).__name__}")
        if tensor.layout is not torch.strided or tensor.is_nested:
            raise TypeError(f"{op}: {name} must be a dense tensor, neither sparse nor nested, found {tensor.layout}")


def expect_floating(op: str, **tensors: Tensor) -> None:
    """Raises TypeError for what is no dense tensor of fp32, fp16 or bf16."""
    for name, tensor in tensors.items():
        expect_dense(op, **{name: tensor})
        if tensor.dtype not in FLOATING:
            raise TypeError(f"{op}: {name} must be float32, float16 or bfloat16, found {tensor.dtype}")


def expect_floating_or_none(op: str, **tensors: Tensor | None) -> None:
    """As expect_floating, but None is allowed."""
    expect_floating(op, **{name: tensor for name, tensor in tensors.items() if tensor is not None})


def expect_quantized(op: str, name: str, dtype: torch.dtype) -> None:
    """Raises TypeError for another dtype."""
    if dtype not in QUANTIZED:
        raise TypeError(f"{op}: {name} must be int8 or float8_e4m3fn, found {dtype}")


def expect_no_gradient(op: str, **tensors: Tensor | None) -> None:
    """Raises ValueError where one is required and recorded. None is no tensor."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{op}: {name} requires a gradient, and there is none; call under torch.no_grad()")


def expect_float8_hardware(op: str, dtype: torch.dtype, on: Tensor) -> None:
    """Raises RuntimeError for float8 on a GPU without it."""
    if dtype != torch.float8_e4m3fn or not on.is_cuda:
        return
    properties: Any = torch.cuda.get_device_properties(on.device)
    if (properties.major, properties.minor) < (8, 9):
        raise RuntimeError(
            f"{op}: float8_e4m3fn needs an NVIDIA GPU of compute capability 8.9 or above; this one, {properties.name}, "
            f"has {properties.major}.{properties.minor}; take int8"
        )


def expect_number(op: str, name: str, value: float) -> float:
    """The value as a float. Raises TypeError for what is no number."""
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{op}: {name} must be a number, found {type(value).__name__}")
    return float(value)


def expect_shape(op: str, name: str, tensor: Tensor | None, shape: tuple[int, ...]) -> None:
    """Raises ValueError for another shape. None is no tensor."""
    if tensor is not None and tuple(tensor.shape) != shape:
        raise ValueError(f"{op}: {name} must have shape {shape}, found {tuple(tensor.shape)}")


def expect_last_dimension(op: str, name: str, tensor: Tensor) -> None:
    """Raises ValueError where there is none, or nothing in it."""
    if tensor.ndim == 0 or tensor.shape[-1] == 0:
        raise ValueError(f"{op}: {name} must have a last dimension of at least 1, found shape {tuple(tensor.shape)}")


def expect_one_device(op: str, **tensors: Tensor | None) -> None:
    """Raises ValueError where they are on several. None is no tensor."""
    placed = {name: tensor.device for name, tensor in tensors.items() if tensor is not None}
    first = next(iter(placed))
    for name, device in placed.items():
        if device != placed[first]:
            raise ValueError(f"{op}: {name} is on {device}, {first} on {placed[first]}")


def expect_choice(op: str, name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises ValueError for another value."""
    if value not in choices:
        raise ValueError(f"{op}: {name} must be one of {choices}, found {value!r}")


def runs_triton(op: str, tensor: Tensor) -> bool:
    """Whether Triton can run where the tensor is. Where not, torch computes instead, which is said once.

    Raises ValueError where it is on a GPU that is not the current one, on which kernels run.
    """
    compiling = torch.compiler.is_compiling()
    if tensor.is_cuda and not compiling and tensor.device.index != torch.cuda.current_device():
        found = f"the tensors are on {tensor.device}, the current device is cuda:{torch.cuda.current_device()}"
        raise ValueError(f"{op}: {found}; call it under torch.cuda.device({tensor.device.index})")
    if tensor.is_cuda or _INTERPRETED:
        return True
    if not compiling and _ANNOUNCING.get():
        _announce_reference(op, tensor.device.type)
    return False


def without_autocast(tensor: Tensor) -> AbstractContextManager[object]:
    """A context in which torch.autocast leaves operators alone where the tensor is. Of meta tensors there is none."""
    device = tensor.device.type
    return nullcontext() if device == "meta" else torch.autocast(device, enabled=False)


def as_autocast_has_them(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors, or, where torch.autocast is enabled, copies of its dtype, as torch makes of what it multiplies."""
    device = tensors[0].device.type
    if device == "meta" or not torch.is_autocast_enabled(device):
        return tensors
    return tuple(tensor.to(torch.get_autocast_dtype(device)) for tensor in tensors)


def distinct(tensor: Tensor, other: Tensor) -> Tensor:
    """The tensor, or a view of it where it is the other: for what is handed to an autograd function twice.

    torch.compile loses one of the two gradients (2.11) or refuses it (2.13).
    """
    return tensor.view_as(tensor) if tensor is other else tensor


def as_rows(tensor: Tensor) -> Tensor:
    """(..., N) as (rows, N) with inner stride 1; a view where the strides allow it. N is at least 1.

    Of one value for all, as the gradient of a sum is, one row is made.
    """
    rows = tensor.reshape(-1, tensor.shape[-1])
    if rows.stride(1) == 1:
        return rows
    return rows.contiguous() if rows.stride(0) != 0 else rows[:1].contiguous().expand_as(rows)


def as_few_rows(*tensors: Tensor) -> tuple[Tensor, ...]:
    """(..., N) each as (rows, N) with inner stride 1: one long row where all are contiguous, so that none is narrow."""
    if all(tensor.is_contiguous() for tensor in tensors):
        return tuple(tensor.view(1, -1) for tensor in tensors)
    return tuple(as_rows(tensor) for tensor in tensors)


def row_stride(rows: Tensor) -> int:
    """0 for one row, which Triton knows to be a multiple of 16; its stride may be odd, and is multiplied by 0."""
    return rows.stride(0) if rows.shape[0] > 1 else 0


def cdiv(size: int, block: int) -> int:
    """Blocks that hold so many. As triton.cdiv, which torch.compile cannot trace where the size is symbolic."""
    return -(-size // block)


def block_holding(size: int) -> int:
    """The least power of 2 that holds so many. By comparisons, which torch.compile can guard of a symbolic size."""
    block = 1
    while block < size:
        block *= 2
    return block


def sm_count(tensor: Tensor) -> int:
    """The number of SMs of the GPU that the tensor is on."""
    if not tensor.is_cuda:
        return _INTERPRETED_SMS
    count: int = torch.cuda.get_device_properties(tensor.device).multi_processor_count
    return count


def loop_stages(tensor: Tensor, row_bytes: int, *, programs_per_sm: int, most_ahead: int) -> int:
    """Pipeline stages of a loop over rows of so many bytes: one at work, others ahead as shared memory has room.

    Never one alone ahead: on an H200 that was slower than none, November 2026.
    """
    shared_bytes = _INTERPRETED_SHARED_BYTES
    if tensor.is_cuda:
        properties: Any = torch.cuda.get_device_properties(tensor.device)
        shared_bytes = properties.shared_memory_per_block_optin
    ahead = min(most_ahead, shared_bytes // (programs_per_sm * row_bytes))
    return 1 + ahead if ahead > 1 else 1


@contextmanager
def unannounced() -> Iterator[None]:
    """A context in which torch takes over without a word, so that it is still said at the first call after it."""
    before = _ANNOUNCING.set(False)
    try:
        yield
    finally:
        _ANNOUNCING.reset(before)


@functools.cache
def _announce_reference(op: str, device: str) -> None:
    message = f"{op}: Triton cannot run on {device} tensors; computing with plain torch instead"
    warnings.warn(message, stacklevel=4)
