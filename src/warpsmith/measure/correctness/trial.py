"""One case set up for comparing implementations: the same inputs and output gradients for each, restored in between.

Owns the private random values and the run of a call with its gradients. Must not judge.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.target import Inputs, Target
from warpsmith.measure.correctness.guarded import GUARD_BYTES, GuardedMemory
from warpsmith.measure.correctness.memory import WatchedMemory, moved_between_guards
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import made_inputs
from warpsmith.measure.worker.protocol import WorkerError, WorkerFailure

#: Results by name, outputs first: "output" or "output[0]", then "gradient of x". None where there is no tensor.
Results = dict[str, Tensor | None]


@dataclass
class Trial:
    """Inputs of one case, the gradients of its outputs, and both as they were, each between guard zones."""

    target: Target
    case: Case
    device: torch.device
    seed: int
    inputs: Inputs
    #: names of the inputs whose gradients count
    differentiated: tuple[str, ...]
    #: made by the first call whose outputs carry gradients; position of the output -> gradient
    output_gradients: dict[int, Tensor] = field(default_factory=dict)
    #: of each guard zone, around what the trial holds and around what a call allocates
    guard_bytes: int = GUARD_BYTES
    memory: WatchedMemory = field(init=False)
    gradient_memory: WatchedMemory = field(init=False)
    _guards: list[GuardedMemory] = field(default_factory=list, init=False, repr=False)
    _gradient_guards: list[GuardedMemory] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        tensors = {f"the input {n}": v for n, v in self.inputs.items() if isinstance(v, Tensor)}
        moved, self._guards = moved_between_guards(tensors, self.guard_bytes)
        self.inputs = {name: moved.get(f"the input {name}", value) for name, value in self.inputs.items()}
        self._place_gradients(self.output_gradients)
        self.watch()

    @classmethod
    def of(cls, target: Target, case: Case, *, device: torch.device, seed: int) -> Trial:
        """The case with random values that no implementation can have seen: `seed` is mixed with the case's name."""
        inputs = _inputs(target, case, device, seed)
        backward = Mode.BACKWARD in target.modes
        names = tuple(n for n in target.differentiable if backward and isinstance(inputs.get(n), Tensor))
        for name in names:
            inputs[name] = inputs[name].detach().requires_grad_()
        return cls(target, case, device, seed, inputs, names)

    def watch(self) -> None:
        """From now on, what the inputs and output gradients hold is what every run starts from."""
        self.memory = WatchedMemory({n: v for n, v in self.inputs.items() if isinstance(v, Tensor)})
        self._watch_gradients()

    def restore(self) -> None:
        self.memory.restore()
        self.gradient_memory.restore()
        for guarded in (*self._guards, *self._gradient_guards):
            guarded.renew()

    def changes(self) -> dict[str, str]:
        """Inputs and output gradients that are not as they were, and where."""
        return {**self.memory.changes(), **self.gradient_memory.changes()}

    def violations(self) -> tuple[str, ...]:
        """What was written out of the bounds of inputs and output gradients since they were restored."""
        found = (guarded.violation() for guarded in (*self._guards, *self._gradient_guards))
        return tuple(told for told in found if told is not None)

    def forward(self, implementation: Implementation, within: AbstractContextManager[Any] | None = None) -> Any:
        """What the call returns, as it returns it, on inputs as they were. The call alone is made `within`."""
        self.restore()
        implementation.activate()
        with within or nullcontext():
            return implementation.call(self.inputs)

    def backward(
        self,
        implementation: Implementation,
        outputs: Any,
        within: AbstractContextManager[Any] | None = None,
        *,
        retain: bool = False,
    ) -> Results:
        """All results of a call whose outputs are at hand. Random output gradients are made if there are none yet.

        `retain`: another pass backward may follow.
        """
        parts = as_tuple(outputs)
        results: Results = {
            name: part.detach() if isinstance(part, Tensor) else None for name, part in named(parts, outputs)
        }
        carrying = [i for i, part in enumerate(parts) if isinstance(part, Tensor) and part.requires_grad]
        if not self.differentiated or not carrying:
            return results
        if not self.output_gradients:
            self._make_output_gradients(parts, carrying)
        implementation.activate()
        with within or nullcontext():
            gradients = torch.autograd.grad(
                [parts[i] for i in self.output_gradients],
                [self.inputs[name] for name in self.differentiated],
                list(self.output_gradients.values()),
                allow_unused=True,
                retain_graph=retain,
            )
        # One that was written over an input may be a view that autograd lets nobody touch once the input has changed.
        seen = [None if gradient is None else gradient.detach() for gradient in gradients]
        return results | {f"gradient of {n}": g for n, g in zip(self.differentiated, seen, strict=True)}

    def run(self, implementation: Implementation, within: AbstractContextManager[Any] | None = None) -> Results:
        """Outputs and gradients of one call on inputs as they were."""
        return self.kept(self.backward(implementation, self.forward(implementation, within), within))

    def kept(self, results: Results) -> Results:
        """Results that lie in the memory of an input or of an output gradient, elsewhere: restoring leaves them be."""
        return {
            name: part.clone() if part is not None and self._is_restored(part) else part
            for name, part in results.items()
        }

    def _is_restored(self, part: Tensor) -> bool:
        return any(memory.owner(part) is not None for memory in (self.memory, self.gradient_memory))

    def refill(self, seed: int) -> None:
        """Other random values, in the same tensors at the same addresses."""
        fresh = _inputs(self.target, self.case, self.device, seed)
        with torch.no_grad():
            for name, value in self.inputs.items():
                if isinstance(value, Tensor):
                    value.copy_(fresh[name])
        generator = _generator(self.case, self.device, seed, "output gradients")
        for gradient in self.output_gradients.values():
            gradient.copy_(_normal(gradient, generator))
        self.watch()

    def reference(self) -> Results:
        """Outputs and gradients in float64, by the target's reference on inputs upcast to float64.

        Raises WorkerError (bad_target) for a reference that leaves float64 or carries no gradient.
        """
        self.restore()
        upcast = {name: _upcast(value) for name, value in self.inputs.items()}
        for name in self.differentiated:
            upcast[name].requires_grad_()
        outputs = self.target.reference(upcast)
        parts = as_tuple(outputs)
        results: Results = {
            name: self._wide(part.detach()) if isinstance(part, Tensor) else None
            for name, part in named(parts, outputs)
        }
        if self.output_gradients:
            differentiated = [upcast[name] for name in self.differentiated]
            gradients = self._reference_gradients(parts, differentiated)
            results |= {f"gradient of {n}": g for n, g in zip(self.differentiated, gradients, strict=True)}
        return results

    def _reference_gradients(self, parts: Sequence[Any], inputs: Sequence[Tensor]) -> Sequence[Tensor | None]:
        if max(self.output_gradients) >= len(parts) or not all(parts[i].requires_grad for i in self.output_gradients):
            raise self.bad_target("an output of the reference carries no gradient, the original's does")
        return torch.autograd.grad(
            [parts[i] for i in self.output_gradients],
            inputs,
            [gradient.double() for gradient in self.output_gradients.values()],
            allow_unused=True,
        )

    def _wide(self, part: Tensor) -> Tensor:
        if part.is_floating_point() and part.dtype is not torch.float64:
            raise self.bad_target(f"the reference must stay in float64, where its inputs are; it returns {part.dtype}")
        return part.detach().double()

    def bad_target(self, message: str) -> WorkerError:
        text = f"{self.target.name} at {self.case.name}: {message}"
        return WorkerError(WorkerFailure(status="bad_target", message=text))

    def _make_output_gradients(self, parts: Sequence[Any], carrying: Sequence[int]) -> None:
        generator = _generator(self.case, self.device, self.seed, "output gradients")
        self._place_gradients({i: _normal(parts[i], generator) for i in carrying})
        self._watch_gradients()

    def _place_gradients(self, gradients: Mapping[int, Tensor]) -> None:
        named_gradients = {_gradient_name(i): value for i, value in gradients.items()}
        moved, self._gradient_guards = moved_between_guards(named_gradients, self.guard_bytes)
        self.output_gradients = {i: moved[_gradient_name(i)] for i in gradients}

    def _watch_gradients(self) -> None:
        named_gradients = {_gradient_name(i): value for i, value in self.output_gradients.items()}
        self.gradient_memory = WatchedMemory(named_gradients)


def _gradient_name(position: int) -> str:
    return f"the gradient of output {position}"


def as_tuple(outputs: Any) -> tuple[Any, ...]:
    return tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)


def named(parts: Sequence[Any], outputs: Any) -> Iterator[tuple[str, Any]]:
    """Outputs with the names that messages use."""
    several = isinstance(outputs, tuple | list)
    return ((f"output[{index}]" if several else "output", part) for index, part in enumerate(parts))


def _inputs(target: Target, case: Case, device: torch.device, seed: int) -> Inputs:
    return made_inputs(target, case, device, _generator(case, device, seed, "inputs"))


def _generator(case: Case, device: torch.device, seed: int, purpose: str) -> torch.Generator:
    digest = hashlib.sha256(f"{seed} {case.name} {purpose}".encode()).digest()
    return torch.Generator(device=device).manual_seed(int.from_bytes(digest[:7], "big"))


def _normal(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(like.shape, dtype=like.dtype, device=like.device, generator=generator)


def _upcast(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.detach().double() if value.is_floating_point() else value.detach()
