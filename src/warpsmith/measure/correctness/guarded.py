"""A piece of memory between two guard zones, made into tensors that look like any other.

Owns the bytes of the zones and what they tell after a call. Must not know whose memory it is.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils import dlpack

#: The length of each zone where no more is asked for. Chosen; a multiple of 512, to which torch's allocator aligns.
GUARD_BYTES = 4096
#: What a zone may hold, 16 bits at a time: 0xFFFB and others that in two bytes or four or eight are a quiet NaN of
#: every floating-point type, so that a read out of bounds shows in a result as a write does here. A kernel that forgets
#: its mask writes out of bounds what it read out of bounds, and arithmetic keeps the bits of a NaN: inputs have the
#: first pattern to themselves, so that such a write shows.
PATTERNS = (-5, -2, -3, -4, -6, -7, -8)


@dataclass(frozen=True)
class GuardedMemory:
    """`size_bytes` of memory, uninitialised, at the alignment of torch's allocator.

    `what` names it in messages. `whole` is (guard_bytes + size_bytes + guard_bytes or one more,) of uint8.
    """

    what: str
    size_bytes: int
    guard_bytes: int
    whole: Tensor
    pattern: int = PATTERNS[0]

    @classmethod
    def of(
        cls,
        what: str,
        size_bytes: int,
        device: torch.device,
        guard_bytes: int = GUARD_BYTES,
        pattern: int = PATTERNS[0],
    ) -> GuardedMemory:
        """`guard_bytes` is a multiple of 512, `pattern` one of PATTERNS."""
        total_bytes = size_bytes + size_bytes % 2 + 2 * guard_bytes
        whole = torch.empty(total_bytes, dtype=torch.uint8, device=device)
        guarded = cls(what, size_bytes, guard_bytes, whole, pattern)
        guarded.renew()
        return guarded

    def storage(self) -> torch.UntypedStorage:
        """A storage of just `size_bytes` that keeps the whole alive; a new one, of the same memory, at every call.

        Storages that torch did not allocate cannot grow: resize_ raises.
        """
        inner = self.whole[self.guard_bytes : self.guard_bytes + self.size_bytes]
        alone: Tensor = dlpack.from_dlpack(dlpack.to_dlpack(inner))  # type: ignore[attr-defined]
        return alone.untyped_storage()

    def renew(self) -> None:
        """Writes the pattern into both zones."""
        for start, zone in self._zones():
            zone.copy_(self._expected(start, zone))

    def violation(self) -> str | None:
        """What was written out of bounds, or None."""
        told = []
        for start, zone in self._zones():
            expected = self._expected(start, zone)
            if torch.equal(zone, expected):
                continue
            written = zone != expected
            offset = start - self.guard_bytes + int(written.to(torch.uint8).argmax())
            side = "before" if start == 0 else "after"
            told.append(
                f"writes {int(written.sum())} bytes {side} {self.what}, first at offset {offset} "
                f"(it has {self.size_bytes} bytes)"
            )
        return " and ".join(told) or None

    def _expected(self, start: int, zone: Tensor) -> Tensor:
        """(bytes of the zone,) of uint8, the pattern from its first or second byte on."""
        words = torch.full((zone.numel() // 2 + 2,), self.pattern, dtype=torch.int16, device=zone.device)
        return words.view(torch.uint8)[start % 2 :][: zone.numel()]

    def _zones(self) -> tuple[tuple[int, Tensor], tuple[int, Tensor]]:
        end = self.guard_bytes + self.size_bytes
        return (0, self.whole[: self.guard_bytes]), (end, self.whole[end:])


def tensor_in(storage: torch.UntypedStorage, like: Tensor) -> Tensor:
    """A tensor of the shape, dtype, strides and storage offset of `like` in another storage."""
    empty = torch.empty(0, dtype=like.dtype, device=like.device)
    return empty.set_(storage, like.storage_offset(), like.shape, like.stride())


def extent(tensor: Tensor) -> int:
    """Elements from the first to the last in memory, both included; 0 where there are none."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def can_be_guarded(tensor: Tensor) -> bool:
    """Whether it is plain memory of its own that could as well lie elsewhere."""
    return (
        type(tensor) is Tensor
        and tensor.layout is torch.strided
        and tensor.device.type in ("cpu", "cuda")
        and tensor.grad_fn is None
        and tensor.untyped_storage().nbytes() > 0
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        and not (tensor.device.type == "cpu" and torch.cuda.is_available() and tensor.is_pinned())
    )
