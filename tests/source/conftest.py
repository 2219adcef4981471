"""Runs kernel sources without a GPU: stand-ins for torch and triton that record launches."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from triton.runtime.autotuner import Config, autotune, heuristics


@dataclass
class Tensor:
    """A tensor's metadata."""

    shape: tuple[int, ...]
    itemsize: int = 2
    device: Any = field(default_factory=lambda: types.SimpleNamespace(type="cuda", index=0))
    how: str = "given"

    def element_size(self) -> int:
        return self.itemsize

    def zero_(self) -> Tensor:
        return self

    def numel(self) -> int:
        return self.shape[0]


@dataclass(frozen=True)
class Launched:
    """A launch as the stand-in for triton saw it, the arguments by parameter name."""

    kernel: str
    grid: tuple[int, ...]
    arguments: dict[str, Any]


@dataclass
class Machine:
    """The GPU that the stand-ins pretend to be, and what was launched on it."""

    capability: tuple[int, int] = (9, 0)
    sm_count: int = 132
    cuda: str | None = "13.0"
    asked: int = 0
    launched: list[Launched] = field(default_factory=list)

    def load(self, source: str) -> types.ModuleType:
        module = types.ModuleType("kernel_under_test")
        exec(compile(source, "kernel_under_test.py", "exec"), module.__dict__)
        return module

    def run(self, source: str, *, settings: dict[str, int] | None = None, **arguments: Any) -> list[Launched]:
        """The launches of the source's `host` function."""
        module = self.load(source)
        if settings is not None:
            module.WARPSMITH_SETTINGS.update(settings)
        self.launched.clear()
        module.host(**arguments)
        return list(self.launched)

    def properties(self, index: int) -> Any:
        self.asked += 1
        major, minor = self.capability
        return types.SimpleNamespace(major=major, minor=minor, multi_processor_count=self.sm_count)


class _Kernel:
    """Launched as Triton's own JITFunction is, also by its Autotuner and its Heuristics."""

    def __init__(self, machine: Machine, function: Callable[..., Any]) -> None:
        self.machine = machine
        self.fn = function
        self.arg_names = function.__code__.co_varnames[: function.__code__.co_argcount]

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *values, **named: self.run(*values, grid=grid, warmup=False, **named)

    def run(self, *values: Any, grid: Any, warmup: bool, **named: Any) -> None:
        arguments = {**dict(zip(self.arg_names, values, strict=False)), **named}
        resolved = grid(arguments) if callable(grid) else grid
        self.machine.launched.append(Launched(self.fn.__name__, resolved, arguments))

    def warmup(self, *values: Any, grid: Any, **named: Any) -> None:
        arguments = {**dict(zip(self.arg_names, values, strict=False)), **named}
        self.machine.launched.append(Launched(f"warmup of {self.fn.__name__}", grid, arguments))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """An H200 that launches nothing."""
    found = Machine()
    torch, triton, language = types.ModuleType("torch"), types.ModuleType("triton"), types.ModuleType("language")

    def allocate(how: str) -> Callable[..., Tensor]:
        return lambda shape, **_: Tensor(shape if isinstance(shape, tuple) else shape.shape, how=how)

    torch.__dict__.update(
        Tensor=Tensor,
        float32="float32",
        cuda=types.SimpleNamespace(get_device_properties=found.properties),
        version=types.SimpleNamespace(cuda=found.cuda),
        **{name: allocate(name) for name in ("zeros", "empty", "zeros_like", "empty_like")},
    )
    triton.__dict__.update(
        jit=lambda function: _Kernel(found, function),
        autotune=partial(autotune, do_bench=lambda call, quantiles: [1.0, 1.0, 1.0]),
        heuristics=heuristics,
        Config=Config,
        cdiv=lambda a, b: -(-a // b),
        next_power_of_2=lambda n: 1 << (n - 1).bit_length(),
        language=language,
    )
    language.__dict__.update(constexpr=int)
    library = types.ModuleType("library")
    library.__dict__.update(
        wrap_triton=lambda kernel: kernel,
        triton_op=lambda name, mutates_args: lambda function: function,
        custom_op=lambda name, mutates_args: lambda function: function,
    )
    torch.__dict__.update(library=library)
    modules = {"torch": torch, "torch.library": library, "triton": triton, "triton.language": language}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return found


@pytest.fixture
def tensor() -> type[Tensor]:
    return Tensor
