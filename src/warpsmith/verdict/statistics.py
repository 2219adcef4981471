"""Owns the statistics of interleaved timings: medians, speed-ups, their intervals and p-values.

The unit is the round: inputs, addresses, code and captures are made anew for each, and the samples of one block are no
independent observations. A speed-up is the 20% trimmed mean over rounds of the logarithm of the ratio of the two
blocks' medians: drift that both share cancels, and a round that something disturbed does not decide. Its interval is a
percentile bootstrap over rounds, the percentiles expanded for few of them (Hesterberg, What Teachers Should Know About
the Bootstrap, 2015). Pure: the same arguments give the same figures on every machine, which is why they are rounded
far below what can be measured. Must not know thresholds or what a verdict is.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import Block, Timing
from warpsmith.contracts.verdict import Interval

#: Chosen: the outermost quantile, that of eight rounds, rests on 27 draws of 5000.
RESAMPLES = 5000
#: Chosen: no process tells a logarithm more precisely than a millionth.
LEAST_ERROR = 1e-6
#: The share that a 95% interval leaves out at either end.
TAIL = 0.025
#: Cut off at either end of the ordered rounds (Wilcox, Introduction to Robust Estimation and Hypothesis Testing):
#: nearly as sharp as the mean where there are no outliers, and unmoved by them.
TRIM = 0.2

Floats = NDArray[np.float64]
#: case name -> weight in the goal metric, where it is not the case's own
Weights = Mapping[str, float]


@dataclass(frozen=True)
class Comparison:
    """One contender against another at one case and mode.

    Times are medians of block medians. `log_ratios` are the logarithms of baseline_ms / contender_ms, one a round,
    `processes` in which process each was measured, `log_speedups` the resampled estimates, of shape (resamples,).
    """

    case: Case
    mode: Mode
    baseline_ms: float
    contender_ms: float
    log_ratios: Floats
    processes: tuple[int, ...]
    log_speedups: Floats

    @property
    def log_speedup(self) -> float:
        """The estimate."""
        return float(_trimmed_mean(self.log_ratios))

    @property
    def rounds(self) -> int:
        return len(self.log_ratios)

    @property
    def by_process(self) -> tuple[float, ...]:
        """The speed-up that each process found, in their order."""
        return tuple(math.exp(float(_trimmed_mean(each))) for each in self._of_processes())

    @property
    def scale(self) -> float:
        """How much farther apart the processes' estimates lie than their rounds explain; 1 where they do not.

        The Birge ratio: the root of chi-squared over its degrees of freedom (Birge 1932; the Particle Data Group scales
        the errors of averages by it).
        """
        groups = [each for each in self._of_processes() if len(each) > 1]
        if len(groups) < 2:
            return 1.0
        found = np.array([float(_trimmed_mean(each)) for each in groups])
        errors = np.array([max(LEAST_ERROR, _trimmed_error(each)) for each in groups])
        weights = errors**-2
        chi_squared = float(np.sum(weights * (found - np.average(found, weights=weights)) ** 2))
        return max(1.0, math.sqrt(chi_squared / (len(groups) - 1)))

    @property
    def speedup(self) -> Interval:
        """baseline_ms / contender_ms."""
        return _interval(self.log_speedup, self.log_speedups, self.rounds)

    def regression_p(self, guardrail: float) -> float:
        """p-value of "slower by at most `guardrail`", a share; small means regressed. Not yet adjusted.

        The t-test of a trimmed mean by its winsorized scatter (Tukey and McLaughlin 1963): Holm's steps ask for tails
        in which resamples of few rounds are too light. 1 where a single round tells no scatter.
        """
        if self.rounds < 2:
            return 1.0
        error = _trimmed_error(self.log_ratios) * self.scale
        beyond = self.log_speedup + math.log1p(guardrail)
        if error == 0:
            return float(beyond >= 0)
        kept = self.rounds - 2 * int(TRIM * self.rounds)
        return round(float(stats.t.cdf(beyond / error, kept - 1)), 9)

    def _of_processes(self) -> list[Floats]:
        labels = np.array(self.processes)
        return [self.log_ratios[labels == process] for process in dict.fromkeys(self.processes)]


def block_medians(timing: Timing, contender: str) -> Floats:
    """Median in ms of each round's samples of a contender, by round: float64 of shape (rounds,).

    Raises ValueError where the contender has no block.
    """
    return np.array(list(_medians_by_round(timing, contender).values()), dtype=np.float64)


def median_ms(timing: Timing, contender: str, *, seed: int = 0) -> Interval:
    """The median of block medians in ms. Raises ValueError where the contender has no block."""
    medians = block_medians(timing, contender)
    draws = _draws(len(medians), RESAMPLES, seed, timing, contender)
    low, high = np.quantile(_medians(medians[draws]), expanded_tails(len(medians)))
    return Interval(value=float(np.median(medians)), low=round(float(low), 9), high=round(float(high), 9))


def compare(timing: Timing, baseline: str, contender: str, *, seed: int = 0, resamples: int = RESAMPLES) -> Comparison:
    """Both sides over the rounds that they share. Raises ValueError where they share none."""
    of_baseline, of_contender = _medians_by_round(timing, baseline), _medians_by_round(timing, contender)
    rounds = [r for r in of_baseline if r in of_contender]
    if not rounds:
        raise ValueError(f"{baseline} and {contender} share no round at {timing.case.name}, {timing.mode.value}")
    process_of = {block.round: block.process for block in timing.blocks}
    log_ratios = np.log([of_baseline[r] / of_contender[r] for r in rounds])
    comparison = Comparison(
        case=timing.case,
        mode=timing.mode,
        baseline_ms=median(of_baseline[r] for r in rounds),
        contender_ms=median(of_contender[r] for r in rounds),
        log_ratios=log_ratios,
        processes=tuple(process_of[r] for r in rounds),
        log_speedups=_trimmed_mean(log_ratios[_draws(len(rounds), resamples, seed, timing, f"{baseline}/{contender}")]),
    )
    estimate = comparison.log_speedup
    return replace(comparison, log_speedups=estimate + comparison.scale * (comparison.log_speedups - estimate))


def pooled(timing: Timing, more: Timing) -> Timing:
    """Both as one comparison: the rounds of `more`, measured in another process, after those of `timing`.

    Who failed in either has failed. Raises ValueError where the two were timed otherwise: methods are never mixed.
    """
    if (timing.method, timing.l2) != (more.method, more.l2):
        raise ValueError(f"{timing.case.name} was timed by {timing.method.value}, then by {more.method.value}")
    failures = {**more.failures, **timing.failures}
    rounds = 1 + max((block.round for block in timing.blocks), default=-1)
    process = 1 + max((block.process for block in timing.blocks), default=-1)
    moved = (b.model_copy(update={"round": b.round + rounds, "process": process}) for b in more.blocks)
    same = [each.same_addresses for each in (timing, more)]
    return timing.model_copy(
        update={
            "blocks": tuple(block for block in (*timing.blocks, *moved) if block.contender not in failures),
            "capped": timing.capped or more.capped,
            "same_addresses": None if None in same else all(same),
            "failures": failures,
        }
    )


def lower_quartile(values: Sequence[float]) -> float:
    """The median of the lower half: of host times, as what disturbs the host only ever adds. Raises on none."""
    return median(sorted(values)[: (len(values) + 1) // 2])


def rounds_needed(pilot: Sequence[Block], contenders: Sequence[str], half_width: float) -> int:
    """How many rounds bring the 95% interval of each contender against the first to +-`half_width`, a fraction.

    Stein's two-stage rule (Stein 1945): (t s / half_width)^2, with t of the pilot's own degrees of freedom.
    """
    if not contenders:
        return 1
    first, *others = contenders
    of_first = _block_medians(pilot, first)
    needed = 1
    for other in others:
        of_other = _block_medians(pilot, other)
        logs = np.log([of_first[r] / of_other[r] for r in of_first if r in of_other])
        if len(logs) > 1:
            reach = float(stats.t.ppf(1 - TAIL, len(logs) - 1) * np.std(logs, ddof=1))
            needed = max(needed, math.ceil((reach / math.log1p(half_width)) ** 2))
    return needed


def expanded_tails(rounds: int) -> tuple[float, float]:
    """The quantiles of a percentile interval over that many rounds: wider than 2.5% and 97.5% where they are few."""
    if rounds < 2:
        return 0.0, 1.0
    reach = math.sqrt(rounds / (rounds - 1)) * float(stats.t.ppf(1 - TAIL, rounds - 1))
    tail = float(stats.norm.sf(reach))
    return tail, 1 - tail


def geometric_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """Weighted geometric mean of values above 0, with equal weights where none are given. Raises ValueError on none."""
    if not values:
        raise ValueError("the geometric mean of nothing")
    weights = [1.0] * len(values) if weights is None else weights
    return math.exp(math.fsum(w * math.log(v) for w, v in zip(weights, values, strict=True)) / math.fsum(weights))


def goal_of(comparisons: Sequence[Comparison], weights_of: Weights | None = None) -> Interval:
    """Weighted geometric mean of the speed-ups; each case's rounds were drawn independently of the others'.

    Every comparison must have the same number of resamples. Raises ValueError on none.
    """
    if not comparisons:
        raise ValueError("no comparison: a goal needs at least one case")
    weights = np.array([(weights_of or {}).get(c.case.name, c.case.weight) for c in comparisons])
    weights = weights / weights.sum()
    estimates = np.array([c.log_speedup for c in comparisons])
    fewest = min(c.rounds for c in comparisons)
    return _interval(float(weights @ estimates), weights @ np.stack([c.log_speedups for c in comparisons]), fewest)


def goal_speedup(
    timings: Sequence[Timing], baseline: str, contender: str, *, seed: int = 0, weights: Weights | None = None
) -> Interval:
    """The goal metric over these timings, which the caller chose (one mode, tuning cases). Raises ValueError."""
    return goal_of([compare(timing, baseline, contender, seed=seed) for timing in timings], weights)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment (Holm 1979), in the order given. Controls the family-wise error."""
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def _medians_by_round(timing: Timing, contender: str) -> dict[int, float]:
    medians = _block_medians(timing.blocks, contender)
    if not medians:
        why = timing.failures.get(contender, f"timed were {sorted({b.contender for b in timing.blocks})}")
        raise ValueError(f"{contender} has no block at {timing.case.name}, {timing.mode.value}: {why}")
    return medians


def _block_medians(blocks: Sequence[Block], contender: str) -> dict[int, float]:
    """By round, of all its samples in it."""
    samples: dict[int, list[float]] = {}
    for block in blocks:
        if block.contender == contender:
            samples.setdefault(block.round, []).extend(block.samples_ms)
    return {number: median(samples[number]) for number in sorted(samples)}


def _trimmed_error(values: Floats) -> float:
    """Standard error of the trimmed mean, by the winsorized scatter (Tukey and McLaughlin 1963)."""
    cut = int(TRIM * len(values))
    kept = len(values) - 2 * cut
    ordered = np.sort(values)
    scatter = float(np.std(np.clip(ordered, ordered[cut], ordered[-1 - cut]), ddof=1))
    return scatter * math.sqrt((len(values) - 1) / (kept * (kept - 1)))


def _trimmed_mean(values: Floats) -> Floats:
    """Over the last axis. Sorted, so that the sum is of the same order, and to the same last bit, on every machine."""
    cut = int(TRIM * values.shape[-1])
    kept = np.sort(values, axis=-1)[..., cut : values.shape[-1] - cut]
    return np.asarray(kept.mean(axis=-1), dtype=np.float64)


def _medians(values: Floats) -> Floats:
    """Over the last axis. np.median, which partitions each short row for itself, takes several times as long."""
    ordered, half = np.sort(values, axis=-1), values.shape[-1] // 2
    middle = ordered[..., half] if values.shape[-1] % 2 else (ordered[..., half - 1] + ordered[..., half]) / 2
    return np.asarray(middle, dtype=np.float64)


def _draws(rounds: int, resamples: int, seed: int, timing: Timing, sides: str) -> NDArray[np.int64]:
    """Indices of rounds, (resamples, rounds). The stream depends on what is compared, not on the order of asking."""
    stream = zlib.crc32(f"{timing.case.name}/{timing.mode.value}/{sides}".encode())
    generator = np.random.default_rng([abs(seed), stream])
    return generator.integers(0, rounds, size=(resamples, rounds))


def _interval(log_estimate: float, log_draws: Floats, rounds: int) -> Interval:
    low, high = np.quantile(log_draws, expanded_tails(rounds))
    value, low, high = (round(math.exp(log), 6) for log in (log_estimate, low, high))
    return Interval(value=value, low=low, high=high)
