"""Proves the graphs that were timed: on fresh values they give what their contender gives eagerly, call by call.

Owns the fresh values, the tolerances and the words of a refusal. Must not time anything. The memory that a graph
writes is read where it lies, for the tensors that were captured are gone: others' captures lie in the same place.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.measure.timing.capture import Captured, close, poison
from warpsmith.measure.timing.rotation import SEED_STEP, Rotation, RotationMaker
from warpsmith.measure.worker.calls import prepared
from warpsmith.measure.worker.failures import WrongResult
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import InputSet

#: Chosen: the RMS of what two sources may differ by, as a share of the result's own. It is to find results that belong
#: to other inputs or are none, in the phase of timing: the gate has judged accuracy.
BETWEEN_SOURCES = {torch.float64: 1e-3, torch.float32: 1e-2, torch.float16: 3e-2, torch.bfloat16: 1e-1}
#: Chosen: keeps the seeds of these values away from those of every placement.
_SEED_OFFSET = 500_000_003


@dataclass
class Proof:
    """The graphs of one placement. `failures` gets what stands against a contender."""

    rotations: RotationMaker
    rotation: Rotation
    seed: int
    failures: dict[str, BaseException] = field(default_factory=dict)

    def of(self, graphs: Mapping[str, Captured], contenders: Sequence[Implementation]) -> dict[str, BaseException]:
        """Contender -> why its graph is disproved. The original goes first, and sources are compared with it.

        Raises WorkerError (bad_target) where the target makes no inputs.
        """
        order = sorted(contenders, key=lambda each: (each.name != ORIGINAL, each.source_path is None, each.name))
        for index, each in enumerate(self.rotation.sets):
            self._refresh(index, each)
            standard: tuple[str, list[Tensor]] | None = None
            for contender in order:
                if contender.name in self.failures or contender.name not in graphs:
                    continue
                try:
                    expected = self._proven(contender, graphs[contender.name], index)
                    if contender.source_path is not None:
                        if standard is not None:
                            _compare(contender.name, expected, *standard)
                        standard = standard or (contender.name, expected)
                except Exception as error:  # a contender's code may fail in any way
                    self.failures[contender.name] = error
        return self.failures

    def _proven(self, contender: Implementation, graph: Captured, index: int) -> list[Tensor]:
        """What an eager call gives on the set of that index. Raises WrongResult where a call of the graph does not."""
        expected = self._eager(contender, index)
        calls = {number: places for number, places in graph.places.items() if graph.order[number] == index}
        forms = [(tuple(out.shape), out.dtype) for out in expected]
        for places in calls.values():
            if [(place.shape, place.dtype) for place in places] != forms:
                raise WrongResult("the graph that was timed gives results of another form than the same call does")
            poison([place.tensor for place in places], self.rotation.sets[index])
        self.rotation.restore()
        graph.refill()
        graph.graph.replay()
        torch.cuda.synchronize()
        off = [
            (number, position, place.tensor.clone())
            for number, places in calls.items()
            for position, place in enumerate(places)
            if not _same(place.tensor, expected[position])
        ]
        again = self._eager(contender, index) if off else []
        for number, position, found in off:
            wanted = expected[position]
            varies = contender.source_path is None or not _same(again[position], wanted)
            if not close(found, wanted, varies=varies):
                raise WrongResult(
                    f"the graph that was timed gives another result {position} on fresh values than the same call "
                    f"does, in call {number + 1} of {graph.calls}"
                )
        return expected

    def _eager(self, contender: Implementation, index: int) -> list[Tensor]:
        contender.activate()
        self.rotation.restore()
        call = prepared(contender, self.rotations.mode, self.rotation.sets[index : index + 1])
        return [out.detach().clone() for out in call(0)]

    def _refresh(self, index: int, current: InputSet) -> None:
        """Fresh values in the same tensors. What the host knows of them is in the graph already and must not change."""
        fresh = self.rotations.inputs.make(self.seed + _SEED_OFFSET + SEED_STEP * index)
        if not _interchangeable(current, fresh):
            return
        device = self.rotations.inputs.device
        pairs = [(old, new) for old, new in zip(current.tensors, fresh.tensors, strict=True) if old.device == device]
        for old, new in pairs:
            old.data.copy_(new.data)
        self.rotation.keep([old for old, _ in pairs])


def _interchangeable(current: InputSet, fresh: InputSet) -> bool:
    """Whether they differ in values on the device alone."""
    if current.inputs.keys() != fresh.inputs.keys():
        return False
    forms = [(t.shape, t.dtype, t.device, t.stride()) for t in current.tensors]
    if forms != [(t.shape, t.dtype, t.device, t.stride()) for t in fresh.tensors]:
        return False
    plain = [name for name, value in current.inputs.items() if not isinstance(value, Tensor)]
    return all(_equal(current.inputs[name], fresh.inputs[name]) for name in plain)


def _equal(left: object, right: object) -> bool:
    try:
        return bool(left == right)
    except Exception:  # whatever a target hands over may refuse to be compared
        return False


def _same(found: Tensor, wanted: Tensor) -> bool:
    return torch.equal(found, wanted) or bool(((found == wanted) | (found.isnan() & wanted.isnan())).all())


def _compare(name: str, found: Sequence[Tensor], other: str, expected: Sequence[Tensor]) -> None:
    """Raises WrongResult where two sources give what no rounding explains."""
    if [out.shape for out in found] != [out.shape for out in expected]:
        raise WrongResult(f"{name} was timed with results of other shapes than {other}")
    for position, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        allowed = BETWEEN_SOURCES.get(theirs.dtype)
        if allowed is None or not theirs.numel():
            continue
        left, right = (out.double().nan_to_num(0.0, 0.0, 0.0) for out in (ours, theirs))
        apart, scale = (float(out.square().mean().sqrt()) for out in (left - right, right))
        if not apart <= allowed * scale:
            raise WrongResult(
                f"the call that was timed gives another result {position} than {other} on fresh values: the difference "
                f"is {apart / scale if scale else float('inf'):.1%} of it (RMS), {allowed:.1%} allowed"
            )
