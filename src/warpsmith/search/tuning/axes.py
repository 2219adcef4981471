"""An axis of a table: where the ground of one tuned size ends and that of the next begins."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """The sizes along one axis. `covered_up_to` is the widest block that covers a size as a whole; 1 where none does.

    A covering block is the next power of two, and its code differs from its neighbour's. So sizes of different blocks
    are parted at the power of two; sizes of one block, and all that no block covers, at their geometric mean.
    """

    covered_up_to: int = 1

    def block(self, size: int) -> int:
        """The block that covers a size, or the widest where that is narrower."""
        return min(1 << (max(size, 1) - 1).bit_length(), self.covered_up_to)

    def between(self, size: int, larger: int) -> tuple[int, int]:
        """The last size that goes with the smaller of two tuned sizes, and the first that goes with the larger."""
        if self.block(size) == self.block(larger):
            middle = math.isqrt(size * larger)
            return middle, middle + 1
        return self.block(size), self.block(larger) // 2 + 1

    def reach(self, low: int, high: int, hull: tuple[int, int]) -> tuple[int, int]:
        """How far tuned sizes from `low` to `high` speak for others inside the hull, with no tuned neighbour."""
        first, last = hull
        if self.block(low) > 1:
            first = max(first, self.block(low) // 2 + 1)
        if self.block(high) < self.covered_up_to:
            last = min(last, self.block(high))
        return first, last
