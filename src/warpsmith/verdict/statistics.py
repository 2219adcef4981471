"""Owns the statistics of interleaved timings: medians, speed-ups, their intervals and p-values.

Everything is a percentile bootstrap over rounds, never over samples: samples of one block share its clock and
its placement. In each resample both sides keep the same rounds, so drift that they share cancels. Pure: the
same arguments give the same figures on every machine. Must not know thresholds or what a verdict is.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import Timing
from warpsmith.contracts.verdict import Interval

#: Chosen: the 2.5% quantile of 2000 draws rests on 50 of them.
RESAMPLES = 2000
#: The tails outside a 95% interval, in percent.
TAILS = (2.5, 97.5)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """One contender against another at one case and mode.

    `log_speedups` are the resampled logarithms of baseline_ms / contender_ms, float64 of shape (resamples,).
    """

    case: Case
    mode: Mode
    baseline_ms: float
    contender_ms: float
    log_speedups: Floats

    @property
    def log_speedup(self) -> float:
        """The estimate: the ratio of the medians of block medians."""
        return math.log(self.baseline_ms / self.contender_ms)

    @property
    def speedup(self) -> Interval:
        """speedup = baseline_ms / contender_ms."""
        return _interval(self.log_speedup, self.log_speedups)

    def regression_p(self, guardrail: float) -> float:
        """Bootstrap p-value of "slower by at most `guardrail`", a share; small means regressed. Not yet adjusted.

        The least possible is 1 / (resamples + 1).
        """
        within = np.count_nonzero(-self.log_speedups <= math.log1p(guardrail))
        return (1 + int(within)) / (1 + len(self.log_speedups))


def block_medians(timing: Timing, contender: str) -> Floats:
    """Median in ms of each round's samples of a contender, by round: float64 of shape (rounds,).

    Raises ValueError where the contender has no block.
    """
    return np.array(list(_medians_by_round(timing, contender).values()), dtype=np.float64)


def median_ms(timing: Timing, contender: str, *, seed: int = 0) -> Interval:
    """The median of block medians in ms. Raises ValueError where the contender has no block."""
    medians = block_medians(timing, contender)
    draws = _draws(len(medians), RESAMPLES, seed, timing, contender)
    low, high = np.percentile(np.median(medians[draws], axis=1), TAILS)
    return Interval(value=float(np.median(medians)), low=float(low), high=float(high))


def compare(timing: Timing, baseline: str, contender: str, *, seed: int = 0, resamples: int = RESAMPLES) -> Comparison:
    """Both sides over the rounds that they share. Raises ValueError where they share none."""
    of_baseline, of_contender = _medians_by_round(timing, baseline), _medians_by_round(timing, contender)
    rounds = [r for r in of_baseline if r in of_contender]
    if not rounds:
        raise ValueError(f"{baseline} and {contender} share no round at {timing.case.name}, {timing.mode.value}")
    sides = np.array([[of_baseline[r] for r in rounds], [of_contender[r] for r in rounds]])
    draws = _draws(len(rounds), resamples, seed, timing, f"{baseline}/{contender}")
    resampled = np.median(sides[:, draws], axis=2)
    baseline_ms, contender_ms = np.median(sides, axis=1)
    return Comparison(
        case=timing.case,
        mode=timing.mode,
        baseline_ms=float(baseline_ms),
        contender_ms=float(contender_ms),
        log_speedups=np.log(resampled[0] / resampled[1]),
    )


def geometric_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """Weighted geometric mean of values above 0, with equal weights where none are given. Raises ValueError on none."""
    if not values:
        raise ValueError("the geometric mean of nothing")
    weights = [1.0] * len(values) if weights is None else weights
    return math.exp(math.fsum(w * math.log(v) for w, v in zip(weights, values, strict=True)) / math.fsum(weights))


def goal_of(comparisons: Sequence[Comparison]) -> Interval:
    """Weighted geometric mean of the speed-ups; each case's rounds were drawn independently of the others'.

    Every comparison must have the same number of resamples. Raises ValueError on none.
    """
    if not comparisons:
        raise ValueError("no comparison: a goal needs at least one case")
    weights = np.array([c.case.weight for c in comparisons])
    weights = weights / weights.sum()
    estimates = np.array([c.log_speedup for c in comparisons])
    return _interval(float(weights @ estimates), weights @ np.stack([c.log_speedups for c in comparisons]))


def goal_speedup(timings: Sequence[Timing], baseline: str, contender: str, *, seed: int = 0) -> Interval:
    """The goal metric over these timings, which the caller chose (one mode, tuning cases). Raises ValueError."""
    return goal_of([compare(timing, baseline, contender, seed=seed) for timing in timings])


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment (Holm 1979), in the order given. Controls the family-wise error."""
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def noise_floor(timings: Sequence[Timing], baseline: str, copy: str, *, seed: int = 0) -> float:
    """How far from 1 the goal metric of a source against an identical copy of itself may lie, as a fraction.

    It is the end of the goal's 95% interval that is farther from 1: bias that the procedure has (placement,
    order) and scatter both count. 0.002 means that 0.2% can be nothing at all. Raises ValueError.
    """
    goal = goal_speedup(timings, baseline, copy, seed=seed)
    return math.expm1(max(abs(math.log(goal.low)), abs(math.log(goal.high))))


def _medians_by_round(timing: Timing, contender: str) -> dict[int, float]:
    samples: dict[int, list[float]] = {}
    for block in timing.blocks:
        if block.contender == contender:
            samples.setdefault(block.round, []).extend(block.samples_ms)
    if not samples:
        why = timing.failures.get(contender, f"timed were {sorted({b.contender for b in timing.blocks})}")
        raise ValueError(f"{contender} has no block at {timing.case.name}, {timing.mode.value}: {why}")
    return {number: median(samples[number]) for number in sorted(samples)}


def _draws(rounds: int, resamples: int, seed: int, timing: Timing, sides: str) -> NDArray[np.int64]:
    """Indices of rounds, (resamples, rounds). The stream depends on what is compared, not on the order of asking."""
    stream = zlib.crc32(f"{timing.case.name}/{timing.mode.value}/{sides}".encode())
    generator = np.random.default_rng([abs(seed), stream])
    return generator.integers(0, rounds, size=(resamples, rounds))


def _interval(log_estimate: float, log_draws: Floats) -> Interval:
    low, high = np.percentile(log_draws, TAILS)
    return Interval(value=math.exp(log_estimate), low=math.exp(low), high=math.exp(high))
