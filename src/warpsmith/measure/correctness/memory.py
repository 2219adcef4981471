"""Watches over tensors that a call must leave alone, and puts them back; gives them memory between guard zones.

Owns copies of whole storages, so that a write beside a strided view shows as well.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from warpsmith.measure.correctness.guarded import GuardedMemory, can_be_guarded, tensor_in


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


def moved_between_guards(
    tensors: Mapping[str, Tensor], guard_bytes: int
) -> tuple[dict[str, Tensor], list[GuardedMemory]]:
    """The same tensors in guarded storages, and those.

    Values, shapes, strides, offsets into the storage and requires_grad are kept, and what shared a storage shares one
    still. Subclasses, pinned memory and what autograd has a history of stay where they are, with all that shares
    their storage.
    """
    by_storage: dict[int, list[str]] = {}
    for name, tensor in tensors.items():
        by_storage.setdefault(_address(tensor), []).append(name)
    moved, guards = dict(tensors), []
    for names in by_storage.values():
        if not all(can_be_guarded(tensors[name]) for name in names):
            continue
        old = tensors[names[0]].detach().untyped_storage()
        guarded = GuardedMemory.of(" and ".join(names), old.nbytes(), tensors[names[0]].device, guard_bytes)
        storage = guarded.storage()
        storage.copy_(old)
        guards.append(guarded)
        for name in names:
            here = tensor_in(storage, tensors[name].detach())
            moved[name] = here.requires_grad_(tensors[name].requires_grad)
    return moved, guards


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
