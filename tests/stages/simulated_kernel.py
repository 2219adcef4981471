"""How long RMSNorm takes on a GPU that is only arithmetic: a function of case, mode, source text and settings.

The backward pass is far from its ceiling and gains from more programs an SM, from other warps, from loop stages
and from not zeroing its partial sums; the forward pass is near its ceiling and gains from nothing.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import math
from dataclasses import dataclass, field
from typing import Any

from warpsmith.contracts.base import Settings
from warpsmith.contracts.case import Case, Cost, Mode
from warpsmith.contracts.launch import CompiledFacts, LaunchRecord

CAPABILITY, SM_COUNT, CEILING_GB_S = (9, 0), 132, 4000.0
FORWARD, BACKWARD = "_rms_norm_forward_kernel", "_rms_norm_backward_kernel"
KERNELS = {Mode.FORWARD: (FORWARD,), Mode.BACKWARD: (BACKWARD,), Mode.FULL: (FORWARD, BACKWARD)}
HOSTS = {FORWARD: "rms_norm_forward", BACKWARD: "rms_norm_backward"}

#: Share of the ceiling by programs an SM, for narrow and for wide rows.
NARROW = {1: 0.50, 2: 0.65, 4: 0.80, 8: 0.78, 16: 0.60}
WIDE = {1: 0.55, 2: 0.75, 4: 0.70, 8: 0.60, 16: 0.50}
STAGES = {1: 1.0, 2: 1.06, 3: 1.05, 4: 0.98}
ZEROING_US = 2.0


@dataclass(frozen=True)
class Work:
    """One call of one source: what a simulated duration, failure or error is a function of."""

    case: Case
    mode: Mode
    text: str
    settings: Settings = field(default_factory=dict)

    @property
    def width(self) -> int:
        return self.case.axes["N"]

    @property
    def block(self) -> int:
        return 1 << (self.width - 1).bit_length()

    def knob(self, kernel: str, name: str, default: int) -> int:
        """A tunable source's settings first, then the source's own table, then what the original does."""
        own = _from_table(self.text, HOSTS[kernel], self.case)
        return self.settings.get(f"{kernel}.{name}", own.get(name, default))

    def warps(self, kernel: str) -> int:
        stepped = 32 if self.block >= 32768 else 16 if self.block >= 8192 else 8 if self.block >= 2048 else 4
        return self.knob(kernel, "num_warps", stepped)

    @property
    def programs_per_sm(self) -> int:
        return self.knob(BACKWARD, "programs_per_sm", 1)


def duration_us(work: Work, costs: dict[Mode, Cost]) -> float:
    """Device time a call."""
    return sum(_pass_us(work, mode, costs) for mode in (Mode.FORWARD, Mode.BACKWARD) if work.mode in (mode, Mode.FULL))


def _pass_us(work: Work, mode: Mode, costs: dict[Mode, Cost]) -> float:
    ideal_us = costs[mode].bytes_moved / (CEILING_GB_S * 1e3)
    if mode is Mode.FORWARD:
        return ideal_us / 0.93
    wide = work.block >= 8192
    share = (WIDE if wide else NARROW)[work.programs_per_sm]
    share *= 1 - 0.04 * abs(math.log2(work.warps(BACKWARD) / (16 if wide else 4)))
    share *= STAGES[work.knob(BACKWARD, "LOOP_STAGES", 1)]
    share *= 0.995 if "evict_first" in work.text else 1.0
    return ideal_us / share + (ZEROING_US if "torch.zeros(" in work.text else 0.0)


def launches(work: Work, also_in_code: object = None) -> tuple[LaunchRecord, ...]:
    """What the call launches. Launch stages change nothing of the machine code; warps and loop stages do."""
    rows = math.prod(size for axis, size in work.case.axes.items() if axis != "N")
    return tuple(_launch(work, kernel, rows, also_in_code) for kernel in KERNELS[work.mode])


def _launch(work: Work, kernel: str, rows: int, also_in_code: object) -> LaunchRecord:
    warps, programs = work.warps(kernel), SM_COUNT * work.programs_per_sm
    stages = work.knob(kernel, "LOOP_STAGES", 1)
    binary = repr((_function(work.text, kernel), work.block, warps, stages, also_in_code))
    integers = {"n_rows": rows, "n_cols": work.width, "block_size": work.block, "num_warps": warps}
    return LaunchRecord(
        jit_function=kernel,
        host_function=HOSTS[kernel],
        line=1,
        grid=(rows,) if kernel == FORWARD else (programs,),
        constexprs={"BLOCK_SIZE": work.block},
        host_integers=integers,
        host_tensors={"rstd": "float32", "x": work.case.dtype.value},
        compiled=CompiledFacts(
            binary_sha256=hashlib.sha256(binary.encode()).hexdigest(),
            registers=64,
            spills=0,
            shared_bytes=128,
            num_warps=warps,
            num_stages=3,
        ),
    )


@functools.cache
def _function(text: str, name: str) -> str:
    tree = ast.parse(text)
    return next(ast.unparse(n) for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)


def _from_table(text: str, host_function: str, case: Case) -> Settings:
    """What the look-up of a written table finds on this GPU."""
    rows = math.prod(size for axis, size in case.axes.items() if axis != "N")
    bands = _table(text, host_function).get((*CAPABILITY, SM_COUNT), {}).get(case.dtype.itemsize_bytes, [])
    for width, height, settings in bands:
        if width[0] <= case.axes["N"] <= width[1] and height[0] <= rows <= height[1]:
            return dict(settings)
    return {}


@functools.cache
def _table(text: str, host_function: str) -> dict[tuple[int, int, int], dict[int, list[Any]]]:
    for node in ast.parse(text).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == f"_{host_function.upper()}_SETTINGS":
            assert node.value is not None
            return dict(ast.literal_eval(node.value))
    return {}
