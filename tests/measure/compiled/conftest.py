"""Compiles for an H100 or H200 with no GPU: a driver that answers what Triton asks before a launch."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.measurement import Contender, SourceRef
from warpsmith.contracts.target import ALL_MODES, Target
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.loading import load_implementation

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for the kernels that the tests share

#: Doubles x forward (programs of BLOCK values) and its gradient backward.
SOURCE = """\
import torch
import triton
import triton.language as tl

WARPSMITH_SETTINGS = {}


@triton.jit
def scale_kernel(x_ptr, y_ptr, n, FACTOR: tl.constexpr, DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK >= 64)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n).to(DTYPE)
    tl.store(y_ptr + at, x * FACTOR, mask=at < n)


def scaled(x):
    y = torch.empty_like(x)
    n = x.numel()
    block = WARPSMITH_SETTINGS.get("block", 256)
    warps = WARPSMITH_SETTINGS.get("warps", 4)
    if block > 4096:
        raise ValueError(f"block {block} is above 4096")
    scale_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](
        x, y, n, FACTOR=2.0, DTYPE=tl.float32, BLOCK=block, num_warps=warps,
        num_stages=WARPSMITH_SETTINGS.get("stages", 3),
    )
    return y


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return scaled(x)

    @staticmethod
    def backward(ctx, dy):
        return scaled(dy)
"""

CASE = Case(axes={"N": 1000}, dtype=DType.FLOAT32)


class Hopper:
    """The part of a driver that compiling asks."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(driver, "_active", Hopper())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))


def make_target(call: Callable[[Any, Any], Any] = lambda module, inputs: module.Scale.apply(inputs["x"])) -> Target:
    return Target(
        name="scale",
        source="scale.py",
        module="scale",
        make_inputs=lambda case, device, generator: {"x": torch.randn(case.axes["N"], generator=generator)},
        call=call,
        reference=lambda inputs: inputs["x"] * 2,
        cost=lambda case, mode: Cost(bytes_moved=1, flops=1),
        cases=(CASE,),
        modes=ALL_MODES,
        differentiable=("x",),
    )


class Compiling:
    """A target, its source wherever it is put, and what its calls launch."""

    source = SOURCE
    case = CASE
    modes = Mode
    target = staticmethod(make_target)
    device = torch.device("cpu")

    @staticmethod
    def load(path: Path, text: str = SOURCE, target: Target | None = None, **settings: int) -> Implementation:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        source = SourceRef(path=str(path), sha256=hashlib.sha256(text.encode()).hexdigest())
        contender = Contender(name="candidate", source=source, settings=settings)
        return load_implementation(target or make_target(), contender, str(path.parent))


@pytest.fixture(scope="session")
def compiling() -> type[Compiling]:
    return Compiling
