"""Sees which jit functions are launched, compiled ones and those that Triton's interpreter runs.

The classes are wrapped, so that launches are seen on whichever thread they happen: autograd runs a backward pass on
its own. Owns names and counts. Must not judge.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from triton.compiler import CompiledKernel
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction


@dataclass(frozen=True)
class Kernel:
    """A jit function: the file that it is written in, and its name."""

    file: str
    name: str

    @classmethod
    def of(cls, jit: Any) -> Kernel:
        """Of a jit function, also one that is wrapped by an autotuner or by heuristics."""
        function = jit
        while not hasattr(function, "__code__"):
            function = function.fn
        return cls(os.path.realpath(function.__code__.co_filename), function.__name__)


@dataclass
class Launches:
    """How often each kernel was launched, and which of them on another stream than the one that was current."""

    counts: Counter[Kernel] = field(default_factory=Counter)
    elsewhere: set[Kernel] = field(default_factory=set)

    def of_file(self, path: str | None) -> dict[str, int]:
        """The kernels that are written in that file: name -> launches. None is no file."""
        own = None if path is None else os.path.realpath(path)
        return {kernel.name: count for kernel, count in self.counts.items() if kernel.file == own}


@contextmanager
def watched_launches() -> Iterator[Launches]:
    """Counts what is launched inside. An autotuner's trials count too."""
    seen = Launches()
    stream = _current_stream()

    def note(jit: Any) -> None:
        kernel = Kernel.of(jit)
        seen.counts[kernel] += 1
        if _current_stream() != stream:
            seen.elsewhere.add(kernel)

    with (
        mock.patch.object(JITFunction, "run", _noting(JITFunction.run, note)),
        mock.patch.object(InterpretedFunction, "run", _noting(InterpretedFunction.run, note)),
        mock.patch.object(CompiledKernel, "__getitem__", _noting_direct(CompiledKernel.__getitem__, note)),
    ):
        yield seen


@contextmanager
def nothing_launched() -> Iterator[None]:
    """Leaves out every launch inside; what a kernel would have written stays as it was."""

    def left_out(self: Any, *args: Any, **kwargs: Any) -> None:
        return None

    def left_out_direct(self: Any, grid: Any) -> Callable[..., None]:
        return lambda *args, **kwargs: None

    with (
        mock.patch.object(JITFunction, "run", left_out),
        mock.patch.object(InterpretedFunction, "run", left_out),
        mock.patch.object(CompiledKernel, "__getitem__", left_out_direct),
    ):
        yield


def _noting(original: Callable[..., Any], note: Callable[[Any], None]) -> Callable[..., Any]:
    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if not warmup:
            note(self)
        return original(self, *args, grid=grid, warmup=warmup, **kwargs)

    return run


def _noting_direct(original: Callable[..., Any], note: Callable[[Any], None]) -> Callable[..., Any]:
    """A compiled kernel that is launched by itself, past its jit function."""

    def getitem(self: Any, grid: Any) -> Any:
        if (jit := getattr(self.src, "fn", None)) is not None:
            note(jit)
        return original(self, grid)

    return getitem


def _current_stream() -> int:
    """0 where there is no GPU in use. Of this thread: autograd runs a pass backward on the stream of the forward."""
    return int(torch.cuda.current_stream().cuda_stream) if torch.cuda.is_initialized() else 0
