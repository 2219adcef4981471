"""Timings of two sides with a known truth, disturbed in the ways in which a GPU disturbs them.

Every disturbance is a function of a generator and of the slots, int64 of shape (rounds, 2): the place in time of each
side's block. It returns deviations of the logarithm of a time, of shape (rounds, 2, 1) where a block shares it, else
(rounds, 2, SAMPLES). All but `one_sided_spikes` is the same to both sides, in distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from warpsmith.contracts.case import Case, DType, Mode, Role
from warpsmith.contracts.measurement import Block, Timing, TimingMethod

Floats = NDArray[np.float64]
Slots = NDArray[np.int64]
Disturbance = Callable[[np.random.Generator, Slots], Floats]

SIDES = ("original", "v1")
SAMPLES = 12
#: Scatter from block to block and from sample to sample, as seen on an H200 at 35 us: the ratio of two blocks
#: then scatters by 0.4%.
BLOCK_SCATTER = 0.0025
SAMPLE_SCATTER = 0.004
#: The smallest number of rounds by the usual plan.
ROUNDS = 16


def make_case(rows: int = 8192, *, role: Role = Role.TUNING, weight: float = 1.0) -> Case:
    return Case(axes={"M": rows, "N": 4096}, dtype=DType.BFLOAT16, role=role, weight=weight)


def simulated(
    disturbance: Disturbance,
    seed: int,
    *,
    slowdown: float = 1.0,
    rounds: int = ROUNDS,
    interleaved: bool = True,
    counts: tuple[int, int] = (SAMPLES, SAMPLES),
    case: Case | None = None,
) -> Timing:
    """The original takes 0.1 ms and v1 `slowdown` times as long; not interleaved, all of v1's blocks come last.

    `counts` is the number of samples a block of either side, at most SAMPLES.
    """
    generator = np.random.default_rng(seed)
    slots = in_turn(generator, rounds) if interleaved else one_after_the_other(rounds)
    deviations = disturbance(generator, slots) + SAMPLE_SCATTER * generator.standard_normal((rounds, 2, SAMPLES))
    times_ms = 0.1 * np.array([1.0, slowdown])[:, None] * np.exp(deviations)
    return Timing(
        case=case or make_case(),
        mode=Mode.FULL,
        method=TimingMethod.GRAPH,
        calls_per_sample=1,
        input_sets=2,
        same_addresses=True,
        blocks=tuple(
            Block(contender=name, round=number, samples_ms=tuple(times_ms[number, side, : counts[side]].tolist()))
            for number in range(rounds)
            for side, name in enumerate(SIDES)
        ),
    )


def in_turn(generator: np.random.Generator, rounds: int) -> Slots:
    """Both sides in every round, which of them first by chance."""
    places: Slots = generator.permuted(np.tile([0, 1], (rounds, 1)), axis=1)
    return 2 * np.arange(rounds)[:, None] + places


def one_after_the_other(rounds: int) -> Slots:
    return np.stack([np.arange(rounds), rounds + np.arange(rounds)], axis=1)


def quiet(generator: np.random.Generator, slots: Slots) -> Floats:
    """Nothing but scatter from block to block."""
    return (BLOCK_SCATTER * generator.standard_normal(slots.shape))[..., None]


def linear_drift(generator: np.random.Generator, slots: Slots) -> Floats:
    """A GPU that warms up: 5% slower at the end."""
    return quiet(generator, slots) + 0.05 * slots[..., None] / slots.size


def periodic_drift(generator: np.random.Generator, slots: Slots) -> Floats:
    """A power limit that is regulated: 2% up and down, twice a run."""
    phases = 4 * math.pi * slots / slots.size + generator.uniform(0, 2 * math.pi)
    return quiet(generator, slots) + 0.02 * np.sin(phases)[..., None]


def clock_ramp(generator: np.random.Generator, slots: Slots) -> Floats:
    """5% slower until a block in about the first third, which may be the first of its round."""
    risen = generator.integers(slots.size // 4, slots.size // 2)
    return quiet(generator, slots) + 0.05 * (slots < risen)[..., None]


def clock_steps(generator: np.random.Generator, slots: Slots) -> Floats:
    """Three steps of 3% down or up, each between any two blocks."""
    at = generator.choice(slots.size, size=3, replace=False)
    steps = 0.03 * generator.choice([-1.0, 1.0], size=3)
    return quiet(generator, slots) + ((slots[..., None] >= at) @ steps)[..., None]


def two_modes(generator: np.random.Generator, slots: Slots) -> Floats:
    """Every block in one of two modes 0.5% apart, as placements in memory are."""
    return quiet(generator, slots) + 0.005 * generator.integers(0, 2, slots.shape)[..., None]


def sample_spikes(generator: np.random.Generator, slots: Slots) -> Floats:
    """One sample in twenty takes twice as long."""
    return quiet(generator, slots) + math.log(2) * (generator.random((*slots.shape, SAMPLES)) < 0.05)


def block_spikes(generator: np.random.Generator, slots: Slots) -> Floats:
    """One block in thirty is 20% slower, of whichever side."""
    return quiet(generator, slots) + math.log(1.2) * (generator.random(slots.shape) < 1 / 30)[..., None]


def one_sided_spikes(generator: np.random.Generator, slots: Slots) -> Floats:
    """One block of v1 in twenty-five is 20% slower, and none of the original."""
    hit = generator.random(slots.shape) < np.array([0.0, 0.04])
    return quiet(generator, slots) + math.log(1.2) * hit[..., None]


def heavy_tails(generator: np.random.Generator, slots: Slots) -> Floats:
    """Blocks and samples scatter by Student's t with three degrees of freedom."""
    blocks = BLOCK_SCATTER * generator.standard_t(3, slots.shape)[..., None]
    return blocks + SAMPLE_SCATTER * generator.standard_t(3, (*slots.shape, SAMPLES))


def autocorrelation(generator: np.random.Generator, slots: Slots) -> Floats:
    """A clock that wanders by 1% for both, and within a block samples that follow the ones before."""
    wander = 0.01 * _wandering(generator.standard_normal(slots.size), 0.9)
    within = SAMPLE_SCATTER * _wandering(generator.standard_normal((*slots.shape, SAMPLES)), 0.8)
    return quiet(generator, slots) + wander[slots][..., None] + within


DISTURBANCES: Mapping[str, Disturbance] = {
    each.__name__: each
    for each in (
        quiet,
        linear_drift,
        periodic_drift,
        clock_ramp,
        clock_steps,
        two_modes,
        sample_spikes,
        block_spikes,
        one_sided_spikes,
        heavy_tails,
        autocorrelation,
    )
}


def _wandering(shocks: Floats, memory: float) -> Floats:
    """A first-order autoregression along the last axis, of unit variance."""
    values = shocks.copy()
    for place in range(1, shocks.shape[-1]):
        fresh = math.sqrt(1 - memory**2) * shocks[..., place]
        values[..., place] = memory * values[..., place - 1] + fresh
    return values
