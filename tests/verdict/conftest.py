"""Timings, correctness and cases made of figures, for the tests of this room."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

# Test modules are imported by path, so their neighbours are found only if they are told where.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from synthetic import make_case

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import Block, CaseCheck, CheckFailure, Correctness, Timing, TimingMethod

Maker = Callable[..., Timing]


def make_timing(
    block_ms: Mapping[str, Sequence[float]],
    *,
    case: Case | None = None,
    mode: Mode = Mode.FULL,
    failures: Mapping[str, str] | None = None,
) -> Timing:
    """Blocks of one sample: `block_ms` is contender -> its time in each round."""
    return Timing(
        case=case or make_case(),
        mode=mode,
        method=TimingMethod.GRAPH,
        calls_per_sample=1,
        input_sets=2,
        same_addresses=True,
        blocks=tuple(
            Block(contender=name, round=number, samples_ms=(time_ms,))
            for name, times in block_ms.items()
            for number, time_ms in enumerate(times)
        ),
        failures=dict(failures or {}),
    )


def make_noisy(
    means_ms: Mapping[str, float], *, noise: float = 0.003, rounds: int = 20, seed: int = 0, **place: object
) -> Timing:
    """Every round of every contender lies around its mean, normal, with `noise` as relative deviation."""
    generator = np.random.default_rng(seed)
    blocks = {n: (mean * (1 + noise * generator.standard_normal(rounds))).tolist() for n, mean in means_ms.items()}
    return make_timing(blocks, **place)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def case() -> Callable[..., Case]:
    return make_case


@pytest.fixture(scope="session")
def timing() -> Maker:
    return make_timing


@pytest.fixture(scope="session")
def noisy() -> Maker:
    return make_noisy


@pytest.fixture(scope="session")
def correctness() -> Callable[..., Correctness]:
    def make(*failures: str) -> Correctness:
        return Correctness(
            source_sha256="0" * 64,
            checks=(
                CaseCheck(
                    case=make_case(),
                    errors=(),
                    failures=tuple(CheckFailure(check="values", message=told) for told in failures),
                ),
            ),
        )

    return make
