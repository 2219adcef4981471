"""Loads a contender's compiled kernels anew, so that where their code happens to lie in memory cannot favour a side.

Measured on an H200: a backward pass of 11 us, against a copy of itself, is off by a standard deviation of 0.2% from
one loading of the code to the next, and by nothing of the kind from one capture to the next.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from triton.runtime import driver
from triton.runtime.jit import JITFunction

#: Chosen: copies that are loaded beside a kernel and never run, so that what follows lies elsewhere each time.
MOST_SPARE_COPIES = 2


class LoadedCode:
    """The kernels of Triton's that contenders launched, by identity, and the copies of them that were loaded here."""

    def __init__(self) -> None:
        self._kernels: dict[int, Any] = {}
        self._own: dict[int, tuple[int, int]] = {}
        self._copies: list[int] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Notes what is launched inside the block, on whichever thread: autograd runs a backward pass on its own."""
        original = JITFunction.run

        def run(jit: Any, *args: Any, **kwargs: Any) -> Any:
            kernel = original(jit, *args, **kwargs)
            if getattr(kernel, "function", None) is not None:
                self._kernels[id(kernel)] = kernel
                self._own.setdefault(id(kernel), (kernel.module, kernel.function))
            return kernel

        JITFunction.run = run
        try:
            yield
        finally:
            JITFunction.run = original

    def reload(self, draw: random.Random) -> None:
        """Loads every kernel once more, in random order; its next launch runs the new copy.

        The copies of the time before are given back: no graph of theirs may be left. What Triton loaded itself stays.
        """
        before, self._copies = self._copies, []
        kernels = list(self._kernels.values())
        draw.shuffle(kernels)
        for kernel in kernels:
            for _ in range(draw.randint(0, MOST_SPARE_COPIES)):
                self._load(kernel)
            kernel.module, kernel.function = self._load(kernel)
        _unload(before)

    def restore(self) -> None:
        """Every kernel runs what Triton had loaded, and all copies are given back. No graph of theirs may be left."""
        for key, kernel in self._kernels.items():
            kernel.module, kernel.function = self._own[key]
        _unload(self._copies)
        self._copies = []

    def _load(self, kernel: Any) -> tuple[int, int]:
        device = torch.cuda.current_device()
        loaded = driver.active.utils.load_binary(kernel.name, kernel.kernel, kernel.metadata.shared, device)
        module, function = loaded[:2]
        self._copies.append(module)
        return module, function


def _unload(modules: list[int]) -> None:
    """By the driver itself (cuModuleUnload, CUDA driver API): Triton does not unload. A refusal leaves it loaded."""
    if modules:
        torch.cuda.synchronize()
        cuda = ctypes.CDLL("libcuda.so.1")
        for module in modules:
            cuda.cuModuleUnload(ctypes.c_void_p(module))
