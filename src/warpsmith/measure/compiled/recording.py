"""Sees launches of jit functions as they happen: who launched, with which grid and settings, and what was compiled.

`JITFunction.run` is wrapped on the class, so that launches are seen on whichever thread they happen: autograd runs a
backward pass on its own. Must not know targets or modes.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from triton import knobs
from triton.runtime.jit import JITFunction

from warpsmith.contracts.launch import CompiledFacts, LaunchRecord
from warpsmith.measure.compiled.machine_code import machine_code_sha256, registers_and_spills
from warpsmith.measure.compiled.ptx import read_ptx

#: What is told of a compiled kernel of Triton's, which stands in the source (then with lines) or does not. May raise
#: what a launch of it would.
Facts = Callable[[Any, bool], CompiledFacts]


@dataclass
class Recording:
    """The launches so far. `from_source` are those of the source's jit functions or by its code, `others` the rest.

    `compile_s` is what the compiler took in all; `from_cache` counts the kernels it found on disk instead.
    `specializations` are the kernels that the source's launches used, by jit function and by the keys under which
    Triton's cache keeps them.
    """

    source_path: str | None
    launch: bool
    facts: Facts
    from_source: list[LaunchRecord] = field(default_factory=list)
    others: list[LaunchRecord] = field(default_factory=list)
    compile_s: float = 0.0
    compiled: int = 0
    from_cache: int = 0
    specializations: dict[str, set[str]] = field(default_factory=dict)

    @property
    def launches(self) -> tuple[LaunchRecord, ...]:
        """The source's launches; where it has none, whatever was launched."""
        return tuple(self.from_source or self.others)

    def is_source(self, path: str) -> bool:
        return self.source_path is not None and os.path.realpath(path) == os.path.realpath(self.source_path)

    def add(self, jit: Any, kernel: Any, bound: Mapping[str, Any], grid: tuple[int, ...]) -> None:
        host, in_source = self._host(), self.is_source(jit.fn.__code__.co_filename)
        locals_: dict[str, Any] = dict(host.f_locals) if host else {}
        record = LaunchRecord(
            jit_function=jit.fn.__name__,
            host_function=host.f_code.co_name if host else "",
            line=host.f_lineno if host else 0,
            grid=grid,
            constexprs={p.name: _plain(bound[p.name]) for p in jit.params if p.is_constexpr and p.name in bound},
            host_integers={name: value for name, value in locals_.items() if type(value) is int},
            host_tensors={
                name: str(value.dtype).removeprefix("torch.")
                for name, value in locals_.items()
                if isinstance(value, torch.Tensor)
            },
            compiled=self.facts(kernel, in_source),
        )
        ours = host is not None or in_source
        (self.from_source if ours else self.others).append(record)
        if ours:
            self.specializations.setdefault(record.jit_function, set()).add(kernel.hash)

    def _host(self) -> FrameType | None:
        """The innermost function of the source that is running: a jit function's own body never runs as Python."""
        return next((frame for frame in _frames() if self.is_source(frame.f_code.co_filename)), None)

    def _note_compilation(self, *, times: Any, cache_hit: bool, **_: Any) -> None:
        if cache_hit:
            self.from_cache += 1
        else:
            self.compiled += 1
            self.compile_s += times.total / 1e6


def loaded_facts(kernel: Any, in_source: bool) -> CompiledFacts:
    """As the driver tells them, once it has loaded the code; read from the code where torch finds no GPU."""
    if not torch.cuda.is_available():
        return read_facts(kernel, in_source)
    kernel._init_handles()  # loads the code, where no launch has; raises OutOfResources where it cannot run
    return _facts(kernel, in_source, kernel.n_regs, kernel.n_spills)


def read_facts(kernel: Any, in_source: bool) -> CompiledFacts:
    """As they stand in the code, with no GPU to ask."""
    return _facts(kernel, in_source, *registers_and_spills(kernel.asm["cubin"], knobs.nvidia.cuobjdump.path))


@contextmanager
def recording(source_path: str | None, *, launch: bool, facts: Facts = loaded_facts) -> Iterator[Recording]:
    """Records every launch inside the block. With `launch` False they are compiled and not run.

    Not recorded: the trials of an autotuner, which run as they always do, and compilations that the code itself asks
    for by `warmup`. Raises what the compiler or the launch raises.
    """
    seen = Recording(source_path, launch, facts)
    original = JITFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup or _in_a_trial():
            return original(self, *args, grid=grid, warmup=warmup, **kwargs)
        bound = self.signature.bind(*args, **{name: v for name, v in kwargs.items() if name in self.arg_names})
        bound.apply_defaults()
        sizes = grid(dict(bound.arguments)) if callable(grid) else grid
        kernel = original(self, *args, grid=sizes, warmup=not launch, **kwargs)
        if kernel is not None:
            seen.add(self, kernel, bound.arguments, _three(sizes))
        return kernel

    listener = knobs.compilation.listener
    JITFunction.run = run
    knobs.compilation.listener = seen._note_compilation
    try:
        yield seen
    finally:
        JITFunction.run = original
        knobs.compilation.listener = listener


def _facts(kernel: Any, in_source: bool, registers: int, spills: int) -> CompiledFacts:
    metadata, cubin = kernel.metadata, kernel.asm["cubin"]
    code = read_ptx(kernel.asm["ptx"], with_lines=in_source)
    return CompiledFacts(
        binary_sha256=machine_code_sha256(cubin, num_warps=metadata.num_warps, shared_bytes=metadata.shared),
        registers=registers,
        spills=spills,
        shared_bytes=metadata.shared,
        num_warps=metadata.num_warps,
        num_stages=metadata.num_stages,
        num_ctas=metadata.num_ctas,
        accesses=code.accesses,
        matrix_instructions=code.matrix_instructions,
    )


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _in_a_trial() -> bool:
    """Whether an autotuner is timing its configurations."""
    return any(f.f_code.co_name == "_bench" and "autotuner" in f.f_code.co_filename for f in _frames())


def _three(sizes: Any) -> tuple[int, ...]:
    given = tuple(int(size) for size in sizes)
    return given + (1,) * (3 - len(given))


def _plain(value: Any) -> int | float | str | bool | None:
    """A constexpr as plain data: a dtype or a jit function by its name."""
    value = getattr(value, "value", value)
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(getattr(value, "__name__", value))
