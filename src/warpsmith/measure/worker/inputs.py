"""Input sets for timing: enough of them, made once and rotated, that no call finds its data in L2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.target import Inputs, Target
from warpsmith.measure.worker.protocol import WorkerError, WorkerFailure

#: A call's data is out of L2 once others have moved this many times its size.
L2_TURNOVER = 2
#: Chosen: a graph of more calls takes longer to capture than it saves; smaller inputs are flushed instead.
MAX_SETS = 64


@dataclass
class InputSet:
    """One set of inputs, and for a pass backward the gradients that it starts from."""

    inputs: Inputs
    differentiated: tuple[Tensor, ...]
    output_gradients: tuple[Tensor, ...] = ()


def set_count(bytes_per_set: int, l2_bytes: int) -> int:
    """How many sets a rotation needs so that its total passes twice the L2 cache."""
    return max(1, math.ceil(L2_TURNOVER * l2_bytes / max(1, bytes_per_set)))


def make_sets(target: Target, case: Case, mode: Mode, *, seed: int, device: torch.device) -> list[InputSet]:
    """A rotation of at most MAX_SETS input sets on the device, every value random."""
    first = _make(target, case, seed, device)
    count = min(MAX_SETS, set_count(_bytes(first), torch.cuda.get_device_properties(device).L2_cache_size))
    sets = [first, *(_make(target, case, seed + 7919 * index, device) for index in range(1, count))]
    if mode is not Mode.FORWARD:
        for index, each in enumerate(sets):
            each.output_gradients = _gradients(target, each, seed + index)
    return sets


def make_one(target: Target, case: Case, mode: Mode, *, seed: int, device: torch.device) -> InputSet:
    """One input set, for what is not timed."""
    one = _make(target, case, seed, device)
    if mode is not Mode.FORWARD:
        one.output_gradients = _gradients(target, one, seed)
    return one


def refuse_overwriting(target: Target) -> None:
    """Raises WorkerError (bad_target) for a target whose second call would not compute what its first one does."""
    if target.overwrites:
        names = ", ".join(target.overwrites)
        raise bad_target(f"{target.name} overwrites its inputs ({names}); timing restores nothing between calls")


def turns_l2_over(sets: Sequence[InputSet], device: torch.device) -> bool:
    """Whether one pass over the sets leaves nothing of its beginning in L2. If not, L2 has to be flushed."""
    l2_bytes = torch.cuda.get_device_properties(device).L2_cache_size
    return sum(map(_bytes, sets)) >= L2_TURNOVER * l2_bytes


def as_outputs(result: Any, what: str = "call") -> tuple[Tensor, ...]:
    """What a call returned, as a tuple of its tensors. Raises WorkerError (bad_target) where there is none."""
    if isinstance(result, Tensor):  # runs in every timed call: the usual answer first
        return (result,)
    found: Sequence[Any] = result if isinstance(result, tuple | list) else (result,)
    if tensors := tuple(each for each in found if isinstance(each, Tensor)):
        return tensors
    told = type(result).__name__ + (f" of {len(found)} items, no tensor among them" if found is result else "")
    raise bad_target(f"{what} returned {told}; expected a tensor or a tuple of tensors")


def made_inputs(target: Target, case: Case, device: torch.device, generator: torch.Generator) -> Inputs:
    """The target's own inputs. Raises WorkerError (bad_target) where they are no dict with a tensor on the device."""
    inputs = target.make_inputs(case, device, generator)
    if not isinstance(inputs, dict):
        raise bad_target(f"make_inputs returned {type(inputs).__name__}; expected a dict of tensors and values by name")
    places = {name: value.device.type for name, value in inputs.items() if isinstance(value, Tensor)}
    if device.type not in places.values():
        found = ", ".join(f"{name} on {place}" for name, place in places.items()) or "no tensor"
        raise bad_target(f"make_inputs was asked for tensors on {device.type} and returned {found}")
    return inputs


def bad_target(message: str) -> WorkerError:
    return WorkerError(WorkerFailure(status="bad_target", message=message))


def _make(target: Target, case: Case, seed: int, device: torch.device) -> InputSet:
    generator = torch.Generator(device=device).manual_seed(seed)
    inputs = made_inputs(target, case, device, generator)
    differentiated = tuple(
        inputs[name].requires_grad_() for name in target.differentiable if isinstance(inputs.get(name), Tensor)
    )
    return InputSet(inputs, differentiated)


def _gradients(target: Target, each: InputSet, seed: int) -> tuple[Tensor, ...]:
    """Random gradients of the reference's outputs, whose shapes and dtypes are the call's."""
    with torch.no_grad():
        outputs = as_outputs(target.reference(each.inputs), "reference")
    generator = torch.Generator(device=outputs[0].device).manual_seed(seed)
    return tuple(
        torch.randn(out.shape, generator=generator, device=out.device, dtype=torch.float32).to(out.dtype)
        for out in outputs
        if out.is_floating_point()
    )


def _bytes(each: InputSet) -> int:
    tensors = [value for value in each.inputs.values() if isinstance(value, Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in (*tensors, *each.output_gradients))
