"""The input sets that all contenders of a round share, and what puts them back before a call.

Owns turning L2 over, restoring and flushing, all of which happen outside what is timed. Must not know who is measured.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import L2
from warpsmith.measure.worker.inputs import InputMaker, InputSet

#: A call's data is out of L2 once others have moved this many times its size.
L2_TURNOVER = 2
#: Chosen: making and capturing more sets than this takes longer than a flush.
MOST_SETS = 64
#: Chosen: keeps the seeds of one round's sets away from those of the next.
SEED_STEP = 7919


#: Tensors of one set with the values that they get back.
Pristine = tuple[tuple[Tensor, Tensor], ...]


@dataclass(frozen=True)
class Rotation:
    """Input sets, called one after the other.

    `flushed`: L2 is cleared before each run, because the sets do not turn it over, or restoring them fills it.
    `pristine` pairs, set by set, each tensor that a call may overwrite with its values; with one, a run uses each set
    once.
    """

    sets: tuple[InputSet, ...]
    flushed: bool
    warm: bool = False
    pristine: tuple[Pristine, ...] = ()
    _turns: Iterator[int] = field(default_factory=itertools.count, repr=False, compare=False)

    @property
    def overwritten(self) -> bool:
        return any(self.pristine)

    def order(self, repeats: int) -> list[int]:
        """Indices of the sets, `repeats` times through all of them: every set is used as often as every other."""
        assert repeats == 1 or not (self.overwritten or self.flushed), "a set may be used once a run only"
        return list(range(len(self.sets))) * repeats

    def next_set(self) -> int:
        """The index of the set that was used longest ago, whoever used it."""
        return next(self._turns) % len(self.sets)

    def keep(self, changed: Sequence[Tensor]) -> None:
        """What those of them hold now that a call may overwrite is what they get back."""
        for tensor, values in itertools.chain(*self.pristine):
            if any(tensor is each for each in changed):
                values.copy_(tensor.data)

    def restore(self, index: int | None = None) -> None:
        """Gives overwritten tensors of one set, or of all, their values back, unseen by autograd (a version that rises
        fails a backward)."""
        for tensor, values in itertools.chain(*self.pristine) if index is None else self.pristine[index]:
            tensor.data.copy_(values)


@dataclass(frozen=True)
class RotationMaker:
    """Makes a round's rotation: fresh values in fresh places."""

    inputs: InputMaker
    l2: L2

    def make(self, seed: int, *, single_calls: bool = False) -> Rotation:
        """`single_calls` are each flushed before: where no sets turn L2 over one is enough for them, and making many
        takes longer than what is timed. Raises WorkerError (bad_target)."""
        device = self.inputs.device
        first = self.inputs.make(seed)
        if self.l2 is L2.WARM:
            return Rotation((first,), flushed=False, warm=True, pristine=self._pristine((first,)))
        turned_over = L2_TURNOVER * torch.cuda.get_device_properties(device).L2_cache_size
        count = max(1, math.ceil(turned_over / self._touched_bytes(first)))
        if single_calls and count > MOST_SETS:
            return Rotation((first,), flushed=True, pristine=self._pristine((first,)))
        count = min(MOST_SETS, count)
        sets = (first, *(self.inputs.make(seed + SEED_STEP * index) for index in range(1, count)))
        wraps = sum(map(self._touched_bytes, sets)) >= turned_over
        assert wraps or count == MOST_SETS, f"{count} sets of {first.bytes} bytes do not turn L2 over"
        pristine = self._pristine(sets)
        return Rotation(sets, flushed=not wraps or any(pristine), pristine=pristine)

    def _touched_bytes(self, each: InputSet) -> int:
        """What a call brings into L2 of its inputs at least: a gather reads less than it is handed."""
        least = self.inputs.target.cost(self.inputs.case, self.inputs.mode).bytes_moved
        return max(1, min(each.bytes, least or each.bytes))

    def _pristine(self, sets: tuple[InputSet, ...]) -> tuple[Pristine, ...]:
        """A pass backward in place writes over the gradient that it is handed, which has no name among the inputs."""
        overwrites = self.inputs.target.overwrites
        written = [(*map(each.inputs.get, overwrites), *each.output_gradients) if overwrites else () for each in sets]
        return tuple(tuple((t, t.detach().clone()) for t in each if isinstance(t, Tensor)) for each in written)

    @property
    def mode(self) -> Mode:
        return self.inputs.mode


class Flush:
    """Clears L2 by a copy of its size, which leaves in it what other kernels would: data read and data written."""

    def __init__(self, device: torch.device) -> None:
        l2_bytes = torch.cuda.get_device_properties(device).L2_cache_size
        self._read, self._written = torch.zeros((2, l2_bytes * L2_TURNOVER // 2), dtype=torch.int8, device=device)

    def __call__(self) -> None:
        self._written.copy_(self._read)
