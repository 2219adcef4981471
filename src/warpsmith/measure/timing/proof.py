"""Proves the graphs that were timed: on fresh values they give what their contender gives eagerly, call by call.

Owns the fresh values, the tolerances and the words of a refusal. Must not time anything. The memory that a graph
writes is read where it lies, for the tensors that were captured are gone: others' captures lie in the same place.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.measure.timing.capture import Captured, close, poison
from warpsmith.measure.timing.rotation import SEED_STEP, Rotation, RotationMaker
from warpsmith.measure.worker.calls import prepared
from warpsmith.measure.worker.failures import WrongResult
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import InputSet

#: What a call gave.
Outputs = list[Tensor]

#: Chosen: the RMS of what two sources may differ by, as a share of the result's own. It is to find results that belong
#: to other inputs or are none, in the phase of timing: the gate has judged accuracy.
BETWEEN_SOURCES = {torch.float64: 1e-3, torch.float32: 1e-2, torch.float16: 3e-2, torch.bfloat16: 1e-1}
#: Chosen: keeps the seeds of these values away from those of every placement.
_SEED_OFFSET = 500_000_003


@dataclass
class Proof:
    """Of the graphs of one placement, on fresh values made from `seed`."""

    rotations: RotationMaker
    rotation: Rotation
    seed: int

    def of(self, graphs: Mapping[str, Captured], contenders: Sequence[Implementation]) -> dict[str, BaseException]:
        """Contender -> why its graph is disproved. The original goes first, and sources are compared with it.

        Raises WorkerError (bad_target) where the target makes no inputs.
        """
        order = sorted(contenders, key=lambda each: (each.name != ORIGINAL, each.source_path is None, each.name))
        for index, each in enumerate(self.rotation.sets):
            self._refresh(index, each)
        failures: dict[str, BaseException] = {}
        standard: tuple[str, list[Outputs]] | None = None
        for contender in order:
            if contender.name not in graphs:
                continue
            try:
                expected = self._proven(contender, graphs[contender.name])
                if contender.source_path is not None:
                    if standard is not None:
                        _compare(contender.name, expected, *standard)
                    standard = standard or (contender.name, expected)
            except Exception as error:  # a contender's code may fail in any way
                failures[contender.name] = error
        return failures

    def _proven(self, contender: Implementation, graph: Captured) -> list[Outputs]:
        """What eager calls give, set by set. Raises WrongResult where a call of the graph does not.

        It is replayed twice: one that remembers what it saw last has nothing to do the second time.
        """
        expected = self._eager(contender, range(len(self.rotation.sets)))
        forms = [[(tuple(out.shape), out.dtype) for out in outputs] for outputs in expected]
        for number, places in graph.places.items():
            if [(place.shape, place.dtype) for place in places] != forms[graph.order[number]]:
                raise WrongResult("the graph that was timed gives results of another form than the same call does")
        written = {number: [place.tensor for place in places] for number, places in graph.places.items()}
        for _ in range(2):
            for number, outputs in written.items():
                poison(outputs, self.rotation.sets[graph.order[number]])
            self.rotation.restore()
            graph.refill()
            graph.graph.replay()
            torch.cuda.synchronize()
            self._require(contender, graph, written, expected)
        return expected

    def _require(
        self, contender: Implementation, graph: Captured, written: Mapping[int, Outputs], expected: Sequence[Outputs]
    ) -> None:
        """Raises WrongResult where a call of the graph wrote what the same call, eager, does not give."""
        off = [
            (number, position, out.clone())
            for number, outputs in written.items()
            for position, (out, wanted) in enumerate(zip(outputs, expected[graph.order[number]], strict=True))
            if not _same(out, wanted)
        ]
        indices = sorted({graph.order[number] for number, _, _ in off})
        again = dict(zip(indices, self._eager(contender, indices), strict=True)) if off else {}
        for number, position, found in off:
            index = graph.order[number]
            wanted = expected[index][position]
            varies = contender.source_path is None or not _same(again[index][position], wanted)
            if not close(found, wanted, varies=varies):
                raise WrongResult(
                    f"the graph that was timed gives another result {position} on fresh values than the same call "
                    f"does, in call {number + 1} of {graph.calls}"
                )

    def _eager(self, contender: Implementation, indices: Sequence[int]) -> list[Outputs]:
        """What a call on each of those sets gives."""
        contender.activate()
        self.rotation.restore()
        call = prepared(contender, self.rotations.mode, [self.rotation.sets[index] for index in indices])
        return [[out.detach().clone() for out in call(position)] for position in range(len(indices))]

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


def _compare(name: str, found: Sequence[Outputs], other: str, expected: Sequence[Outputs]) -> None:
    """Raises WrongResult where two sources give, on any set, what no rounding explains."""
    for ours, theirs in zip(found, expected, strict=True):
        if [out.shape for out in ours] != [out.shape for out in theirs]:
            raise WrongResult(f"{name} was timed with results of other shapes than {other}")
        for position, (out, wanted) in enumerate(zip(ours, theirs, strict=True)):
            allowed = BETWEEN_SOURCES.get(wanted.dtype)
            if allowed is None or not wanted.numel():
                continue
            left, right = (each.double().nan_to_num(0.0, 0.0, 0.0) for each in (out, wanted))
            apart, scale = (float(each.square().mean().sqrt()) for each in (left - right, right))
            if not apart <= allowed * scale:
                raise WrongResult(
                    f"the call that was timed gives another result {position} than {other} on fresh values: the "
                    f"difference is {apart / scale if scale else float('inf'):.1%} of it (RMS), {allowed:.1%} allowed"
                )
