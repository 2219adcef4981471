"""The landscapes that searches are tried on: a row kernel, a matrix product, and landscapes that mislead."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace

from landscapes import Landscape, Values, case_of, knob

from warpsmith.contracts.audit import KnobKind
from warpsmith.contracts.case import Case

SMS = 132


def log2(value: float) -> float:
    return math.log2(value)


def row_kernel() -> Landscape:
    """Rows of one block: the best warps follow the width, the best programs the rows, and both each other."""

    def time_us(case: Case, values: Values) -> float:
        width, rows = case.axes["N"], case.axes["M"]
        warps, programs = log2(values["num_warps"]), log2(values["programs_per_sm"])
        best_warps = log2(width / 512)
        best_programs = 3 - 0.5 * (warps - best_warps) - (1 if width >= 8192 else 0)
        penalty = 0.04 * (warps - best_warps) ** 2 + 0.05 * (programs - best_programs) ** 2
        return width * rows / 4e5 * (1 + penalty)

    return Landscape(
        knobs=(
            knob("num_warps", KnobKind.NUM_WARPS),
            knob("num_stages", KnobKind.NUM_STAGES),
            knob("programs_per_sm", KnobKind.PROGRAMS_PER_SM),
        ),
        cases=tuple(case_of(M=m, N=n) for m, n in ((2048, 2048), (8192, 4096), (8192, 8192), (4096, 16384))),
        original=lambda case: {
            "num_warps": 8,
            "num_stages": 3,
            "programs_per_sm": 1,
            "BLOCK_SIZE": 1 << (case.axes["N"] - 1).bit_length(),
        },
        time_us=time_us,
        in_code=frozenset({"num_warps", "BLOCK_SIZE"}),
        programs=lambda case, values: SMS * values["programs_per_sm"],
    )


def _matrix_us(case: Case, values: Values) -> float:
    """Tiles that move too much, warps that hold too much, stages that hide latency, and waves that end ragged."""
    m, n, k = (case.axes[axis] for axis in "MNK")
    bm, bn, bk = (values[f"BLOCK_SIZE_{axis}"] for axis in "MNK")
    warps, stages = values["num_warps"], values["num_stages"]
    flops_us = 2 * m * n * k / 6e8
    traffic_us = (m * n * k / bn + m * n * k / bm) * 2 / 2.5e7
    accumulators = bm * bn / (32 * warps)
    held = 0.15 * max(0.0, log2(accumulators / 64)) ** 2 + 0.10 * max(0.0, log2(32 / accumulators)) ** 2
    hidden = 0.35 / (stages * bk / 64) ** 1.2
    tiles = -(-m // bm) * -(-n // bn)
    ragged = math.ceil(tiles / SMS) / (tiles / SMS)
    return max(flops_us, traffic_us) * (1 + held + hidden) * (0.6 + 0.4 * ragged) + 0.2 * min(flops_us, traffic_us)


def _no_room(case: Case, values: Values) -> str | None:
    bm, bn, bk = (values[f"BLOCK_SIZE_{axis}"] for axis in "MNK")
    used = (bm + bn) * bk * 2 * values["num_stages"]
    return None if used <= 232448 else f"needs more than the GPU has: shared memory, required {used}"


def matrix_product() -> Landscape:
    return Landscape(
        knobs=(
            *(knob(f"BLOCK_SIZE_{axis}", KnobKind.BLOCK_TILING) for axis in "MNK"),
            knob("num_warps", KnobKind.NUM_WARPS),
            knob("num_stages", KnobKind.NUM_STAGES),
        ),
        cases=tuple(case_of(M=m, N=n, K=k) for m, n, k in ((4096, 4096, 4096), (1024, 8192, 2048), (512, 512, 8192))),
        original=lambda case: {
            "BLOCK_SIZE_M": 64,
            "BLOCK_SIZE_N": 64,
            "BLOCK_SIZE_K": 32,
            "num_warps": 4,
            "num_stages": 2,
        },
        time_us=_matrix_us,
        in_code=frozenset({"BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "num_warps", "num_stages"}),
        programs=lambda case, v: -(-case.axes["M"] // v["BLOCK_SIZE_M"]) * -(-case.axes["N"] // v["BLOCK_SIZE_N"]),
        compile_failure=_no_room,
        shared_bytes=16384,
        matrix=True,
    )


def rugged_product() -> Landscape:
    """The matrix product, with up to 3% on top that no neighbour knows of: bank conflicts, odd schedules."""

    def time_us(case: Case, values: Values) -> float:
        return _matrix_us(case, values) * (1 + 0.03 * draw(values))

    return replaced(matrix_product(), time_us)


def two_basins() -> Landscape:
    """Every way from the original leads down to a small optimum; the large one lies beyond a ridge."""

    def time_us(case: Case, values: Values) -> float:
        tile = log2(values["BLOCK_SIZE_M"]) + log2(values["BLOCK_SIZE_N"])
        near = 100 + 8 * abs(tile - 11) + 4 * abs(log2(values["num_warps"]) - 2)
        far = 80 + 12 * abs(tile - 16) + 5 * abs(log2(values["num_warps"]) - 3)
        square = 3 * abs(log2(values["BLOCK_SIZE_M"] / values["BLOCK_SIZE_N"]))
        return min(near, far) + square + 2 * abs(values["num_stages"] - 4) + 3 * abs(log2(values["BLOCK_SIZE_K"]) - 6)

    return replaced(matrix_product(), time_us)


def narrow_valley() -> Landscape:
    """Tiles of one area are fast, the taller the better: to move along, one side must grow as the other shrinks."""

    def time_us(case: Case, values: Values) -> float:
        tall, wide = log2(values["BLOCK_SIZE_M"]), log2(values["BLOCK_SIZE_N"])
        others = 4 * abs(log2(values["BLOCK_SIZE_K"] / values["BLOCK_SIZE_M"])) + 3 * abs(values["num_stages"] - 3)
        return 100 + 20 * abs(tall + wide - 12) + 5 * abs(tall - 8) + others + 4 * abs(log2(values["num_warps"]) - 2)

    return replaced(matrix_product(), time_us)


def needle() -> Landscape:
    """Level, but for one place that is a quarter faster and that nothing around points to."""

    def time_us(case: Case, values: Values) -> float:
        there = {"BLOCK_SIZE_M": 256, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 16, "num_warps": 2, "num_stages": 5}
        return 75.0 if dict(values) == there else 100.0

    return replaced(matrix_product(), time_us)


def replaced(landscape: Landscape, time_us: Callable[[Case, Values], float]) -> Landscape:
    return replace(landscape, time_us=time_us)


def draw(values: Values) -> float:
    """Between 0 and 1, the same for the same values."""
    digest = hashlib.sha256(repr(sorted(values.items())).encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32
