"""The space of settings: which values a knob may take, and every combination of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from warpsmith.contracts.audit import Knob, KnobKind
from warpsmith.contracts.base import Settings

#: Chosen. num_warps: all that a CUDA block allows (32 × 32 threads). Programs a SM: doubling, to where a
#: block of 128 threads fills an SM's 2048.
VALUES: dict[KnobKind, tuple[int, ...]] = {
    KnobKind.NUM_WARPS: (1, 2, 4, 8, 16, 32),
    KnobKind.NUM_STAGES: (1, 2, 3, 4, 5),
    KnobKind.BLOCK_TILING: (32, 64, 128, 256, 512, 1024),
    KnobKind.PROGRAMS_PER_SM: (1, 2, 4, 8, 16),
    KnobKind.LOOP_STAGES: (1, 2, 3, 4),
}

#: Values that leave a launch as it was.
NEUTRAL: dict[KnobKind, int] = {KnobKind.PROGRAMS_PER_SM: 1, KnobKind.LOOP_STAGES: 1}

#: Knobs of the host code: they change the grid and not the machine code.
HOST_ONLY = frozenset({KnobKind.PROGRAMS_PER_SM, KnobKind.PROGRAMS})


def sweepable(knobs: Iterable[Knob], jit_functions: Iterable[str]) -> tuple[Knob, ...]:
    """The knobs of these jit functions that a table can give and that have values to try."""
    functions = set(jit_functions)
    found = (k for k in knobs if k.tunable and k.jit_function in functions and k.kind in VALUES)
    return tuple(k for k in found if not k.is_set_by_decorator)


def combinations(knobs: Sequence[Knob]) -> tuple[Settings, ...]:
    """Every combination of the knobs' values. One empty combination for no knobs."""
    names = [knob.id for knob in knobs]
    return tuple(dict(zip(names, values, strict=True)) for values in product(*(VALUES[k.kind] for k in knobs)))


def compile_knobs(knobs: Sequence[Knob]) -> tuple[Knob, ...]:
    return tuple(knob for knob in knobs if knob.kind not in HOST_ONLY)


def host_knobs(knobs: Sequence[Knob]) -> tuple[Knob, ...]:
    return tuple(knob for knob in knobs if knob.kind in HOST_ONLY)
