"""Input sets: the target's inputs, and for a pass backward the gradients that it starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.target import Inputs, Target
from warpsmith.measure.worker.protocol import WorkerError, WorkerFailure


@dataclass
class InputSet:
    """One set of inputs, and for a pass backward the gradients that it starts from."""

    inputs: Inputs
    differentiated: tuple[Tensor, ...]
    output_gradients: tuple[Tensor, ...] = ()

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that a call reads."""
        return (*(value for value in self.inputs.values() if isinstance(value, Tensor)), *self.output_gradients)

    @property
    def bytes(self) -> int:
        """Of their memory, each counted once: one that is expanded has less than its shape says."""
        return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in self.tensors}.values())


@dataclass
class InputMaker:
    """Makes input sets of one case and mode, every value random by its seed."""

    target: Target
    case: Case
    mode: Mode
    device: torch.device
    _outputs: tuple[Tensor, ...] = field(default=(), init=False, repr=False)

    def make(self, seed: int) -> InputSet:
        """Raises WorkerError (bad_target)."""
        generator = torch.Generator(device=self.device).manual_seed(seed)
        inputs = made_inputs(self.target, self.case, self.device, generator)
        differentiated = tuple(
            inputs[name].requires_grad_()
            for name in self.target.differentiable
            if self.mode is not Mode.FORWARD and isinstance(inputs.get(name), Tensor)
        )
        return InputSet(inputs, differentiated, self._output_gradients(inputs, generator))

    def _output_gradients(self, inputs: Inputs, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Random, in the shapes and dtypes of the reference's floating-point outputs."""
        if self.mode is Mode.FORWARD:
            return ()
        if not self._outputs:
            with torch.no_grad():
                found = as_outputs(self.target.reference(inputs), "reference")
            self._outputs = tuple(out.to("meta") for out in found if out.is_floating_point())
        return tuple(
            torch.randn(out.shape, generator=generator, device=self.device, dtype=torch.float32).to(out.dtype)
            for out in self._outputs
        )


def make_one(target: Target, case: Case, mode: Mode, *, seed: int, device: torch.device) -> InputSet:
    """One input set, for what is not timed."""
    return InputMaker(target, case, mode, device).make(seed)


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
