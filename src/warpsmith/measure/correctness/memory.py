"""Watches over tensors that a call must leave alone, and puts them back.

Owns copies of whole storages, so that a write beside a strided view shows as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class _Watched:
    names: tuple[str, ...]
    dtype: torch.dtype
    memory: Tensor  # (bytes,), uint8, the storage itself
    copy: Tensor


class WatchedMemory:
    """The storages of some tensors, by the tensors' names, as they were when this was made."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        by_storage: dict[int, list[str]] = {}
        for name, tensor in tensors.items():
            by_storage.setdefault(_address(tensor), []).append(name)
        self._watched = [self._watch(tuple(names), tensors[names[0]]) for names in by_storage.values()]
        self._addresses = {_address(tensor): name for name, tensor in tensors.items() if _address(tensor)}

    def restore(self) -> None:
        """Puts every byte back. Autograd does not notice."""
        for each in self._watched:
            each.memory.copy_(each.copy)

    def changes(self) -> dict[str, str]:
        """Name -> where its memory differs from what it was."""
        found: dict[str, str] = {}
        for each in self._watched:
            if not torch.equal(each.memory, each.copy):
                first = int((each.memory != each.copy).to(torch.uint8).argmax()) // each.dtype.itemsize
                before, now = (side.view(each.dtype)[first].item() for side in (each.copy, each.memory))
                found |= dict.fromkeys(each.names, f"element {first} of its memory was {before:.6g}, is {now:.6g}")
        return found

    def owner(self, tensor: Tensor) -> str | None:
        """The name of the watched tensor that shares this one's storage."""
        return self._addresses.get(_address(tensor))

    @staticmethod
    def _watch(names: tuple[str, ...], tensor: Tensor) -> _Watched:
        memory = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.detach().untyped_storage())
        return _Watched(names, tensor.dtype, memory, memory.clone())


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
