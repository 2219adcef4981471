"""A target: the kernel that is to be made faster, and how to call, check and cost it.

`Target` holds functions and lives in worker processes only; `TargetSpec` is what the rest of the
program sees of it, and is plain data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from warpsmith.contracts.base import Contract, RepositoryPath, Sha256
from warpsmith.contracts.case import Case, Cost, Mode, Role

#: What make_inputs returns: tensors and plain values by name.
Inputs = dict[str, Any]

ALL_MODES = (Mode.FORWARD, Mode.BACKWARD, Mode.FULL)


@dataclass(frozen=True, kw_only=True)
class Target:
    """How to call a kernel. A user writes one in a Python file and names it `target`.

    Attributes:
        name: the kernel's name; the workspace is optimization/<name>/.
        source: the kernel's file, relative to the repository's root.
        module: its import name, so that relative imports of a variant work.
        make_inputs: (case, device, generator) -> inputs. Random values, never zeros.
        call: (module, inputs) -> tensor or tuple of tensors. Takes the kernel from the module it is
            handed, so that any variant can stand beside the original.
        reference: inputs -> the same outputs, by plain torch. It is handed inputs upcast to float64.
        cost: (case, mode) -> least bytes and operations; of FULL, those of both passes together.
        cases: tuning and held-out cases.
        modes: the modes that exist; a kernel with no gradient has FORWARD only.
        differentiable: names of the inputs whose gradients count; at least one, where there is a mode but FORWARD.
        overwrites: names of the inputs that a call overwrites.
        unprobed: the gate's probes that the kernel is not made for, by name: "N=0", "NaN" (in any input), "NaN in x",
            "autocast". The original decides what a candidate is held to, so that this is needed only where it breaks
            the process or never ends.
        providers: baseline name -> factory that returns `inputs -> outputs`. A factory whose
            dependency is missing raises ImportError; the provider is then left out, with the reason.
        tests: pytest arguments of the kernel's own tests.
        plot_axis: the axis of a row's width; every case has it. Plots run along it, and a table of settings has
            bands of it.
    """

    name: str
    source: str
    module: str
    make_inputs: Callable[[Case, Any, Any], Inputs]
    call: Callable[[ModuleType, Inputs], Any]
    reference: Callable[[Inputs], Any]
    cost: Callable[[Case, Mode], Cost]
    cases: tuple[Case, ...]
    modes: tuple[Mode, ...] = ALL_MODES
    differentiable: tuple[str, ...] = ()
    overwrites: tuple[str, ...] = ()
    unprobed: tuple[str, ...] = ()
    providers: Mapping[str, Callable[[], Callable[[Inputs], Any]]] = field(default_factory=dict)
    tests: tuple[str, ...] = ()
    plot_axis: str = "N"


class TargetSpec(Contract):
    """A target as data: what the parent process knows of it."""

    name: str
    source: RepositoryPath
    module: str
    target_file: str
    source_sha256: Sha256
    cases: tuple[Case, ...]
    modes: tuple[Mode, ...]
    differentiable: tuple[str, ...]
    overwrites: tuple[str, ...]
    #: case name -> mode -> least work
    costs: dict[str, dict[Mode, Cost]]
    providers: tuple[str, ...]
    #: provider -> why it cannot be measured here
    missing_providers: dict[str, str]
    tests: tuple[str, ...]
    plot_axis: str

    def case(self, name: str) -> Case:
        """The case of that name. Raises KeyError."""
        return {case.name: case for case in self.cases}[name]

    @property
    def tuning_cases(self) -> tuple[Case, ...]:
        return tuple(case for case in self.cases if case.role is Role.TUNING)

    @property
    def passes(self) -> tuple[Mode, ...]:
        """The modes but FULL, which is made of them."""
        return tuple(mode for mode in self.modes if mode is not Mode.FULL)
