"""Allocations that betray misuse: poison in memory that was never written, guard zones on both sides of it.

Owns what torch allocates for a call, forward and backward, and the names of the operators that it calls. Memory that
an operator of torch takes for itself, and what is allocated outside torch, stays as it is.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from enum import Enum
from itertools import cycle
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from warpsmith.measure.correctness.guarded import (
    GUARD_BYTES,
    PATTERNS,
    GuardedMemory,
    can_be_guarded,
    extent,
    tensor_in,
)

#: Operators that return memory as they find it. The first to be written is up to the caller.
_UNINITIALISED = frozenset(
    f"aten::{name}"
    for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
)
#: Operators that return new memory with values, which kernels write into as well.
_INITIALISED = frozenset(
    f"aten::{name}"
    for name in (
        "zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full", "clone",
    )
)  # fmt: skip
#: Buffers are kept for the check after the call, up to so many bytes; beyond, they are checked and let go. Chosen.
_MOST_KEPT_BYTES = 2 << 30


class Poison(Enum):
    """What uninitialised memory holds. A call that uses none of it gives the same under each."""

    #: NaN; the largest value of an integer, True; every bit of a type of one byte
    NOT_A_NUMBER = "NaN"
    #: a quarter of the largest finite value, a third of an integer's, False; every other bit of a type of one byte
    LARGE = "a large value"

    def fill(self, tensor: Tensor) -> None:
        """Fills a tensor of any dtype, (elements,) and contiguous."""
        if tensor.dtype.itemsize == 1 and tensor.dtype is not torch.bool:
            tensor.view(torch.uint8).fill_(0xFF if self is Poison.NOT_A_NUMBER else 0x55)
        else:
            tensor.fill_(self._value(tensor.dtype))

    def _value(self, dtype: torch.dtype) -> float:
        nan = self is Poison.NOT_A_NUMBER
        if dtype is torch.bool:
            return nan
        if dtype.is_floating_point or dtype.is_complex:
            return float("nan") if nan else torch.finfo(dtype).max / 4
        largest = min(torch.iinfo(dtype).max, torch.iinfo(torch.int64).max)
        return largest if nan else largest // 3


class GuardedAllocations(TorchDispatchMode):
    """While it is entered, what torch allocates is poisoned and guarded. It may be entered several times.

    Autograd takes it along to the threads of its own on which passes backward run. `operations` are the qualified
    names of all operators that were called, without their overloads, such as "aten::mm". torch.compile runs what it
    is given uncompiled while this is entered.
    """

    supports_higher_order_operators = True

    def __init__(self, poison: Poison, guard_bytes: int = GUARD_BYTES) -> None:
        super().__init__()
        self.operations: set[str] = set()
        self._poison = poison
        self._guard_bytes = guard_bytes
        self._kept: list[GuardedMemory] = []
        self._kept_bytes = 0
        self._found: list[str] = []
        self._patterns = cycle(PATTERNS[1:])

    def violations(self) -> tuple[str, ...]:
        """All that was written out of bounds, once the device is done with it."""
        self._settle()
        return tuple(self._found)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.name().partition(".")[0]
        self.operations.add(name)
        if func.namespace not in ("aten", "prim", "prims"):
            return self._inside(func, args, kwargs)
        if name == "aten::resize_":
            return self._resized(func, args, kwargs)
        result = _called(func, args, kwargs)
        if name not in _UNINITIALISED | _INITIALISED or "out" in kwargs or kwargs.get("pin_memory"):
            return result
        return self._guarded(result, keep=name in _INITIALISED)

    def _inside(self, func: Any, args: Any, kwargs: Any) -> Any:
        """An operator of somebody's own, such as torch.library.custom_op makes: what it allocates counts too."""
        devices = {each.device.type for each in (*args, *kwargs.values()) if isinstance(each, Tensor)}
        key = getattr(torch._C.DispatchKey, "CUDA" if "cuda" in devices else "CPU")
        if not devices or not hasattr(func, "redispatch"):
            return func(*args, **kwargs)
        with self:
            return func.redispatch(torch._C.DispatchKeySet(key), *args, **kwargs)

    def _guarded(self, result: Tensor, *, keep: bool) -> Tensor:
        if not can_be_guarded(result) or result.numel() == 0:
            return result
        what = f"a buffer of shape {tuple(result.shape)} and {result.dtype}"
        size_bytes = extent(result) * result.element_size()
        memory = GuardedMemory.of(what, size_bytes, result.device, self._guard_bytes, next(self._patterns))
        storage = memory.storage()
        self._poison.fill(torch.empty(0, dtype=result.dtype, device=result.device).set_(storage))
        guarded = tensor_in(storage, result)
        if keep:
            guarded.copy_(result)
        self._kept.append(memory)
        self._kept_bytes += memory.whole.numel()
        if self._kept_bytes > _MOST_KEPT_BYTES:
            self._settle()
        return guarded

    def _resized(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Grown memory is poisoned where it is new."""
        tensor: Tensor = args[0]
        before_bytes = tensor.untyped_storage().nbytes()
        result = _called(func, args, kwargs)
        if tensor.untyped_storage().nbytes() > before_bytes and type(tensor) is Tensor:
            all_of_it = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())
            self._poison.fill(all_of_it[-(-before_bytes // tensor.element_size()) :])
        return result

    def _settle(self) -> None:
        self._found += [told for memory in self._kept if (told := memory.violation()) is not None]
        self._kept, self._kept_bytes = [], 0


def _called(func: Any, args: Any, kwargs: Any) -> Any:
    """What the operator returns. A guarded tensor that has to grow, in resize_ or as an `out`, moves for that."""
    try:
        return func(*args, **kwargs)
    except RuntimeError as error:
        if "storage that is not resizable" not in str(error):
            raise
    for each in (*args, *kwargs.values()):
        if isinstance(each, Tensor) and extent(each) * each.element_size() > each.untyped_storage().nbytes():
            # the attempt has left it with its new shape; the next gives it that again
            old = each.untyped_storage()
            fresh = torch.UntypedStorage(old.nbytes(), device=each.device)
            fresh.copy_(old)
            each.set_(fresh)
    return func(*args, **kwargs)
