"""Owns peak memory as a goal metric: the ratio of two sides over the cases that count. Exact: it has no noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import Memory
from warpsmith.contracts.verdict import Interval
from warpsmith.verdict.statistics import geometric_mean

#: torch's allocator hands out nothing smaller (CUDACachingAllocator, kMinBlockSize): what needs none counts as this.
LEAST_BYTES = 512


def memory_ratio(
    memories: Sequence[Memory], mode: Mode, weights: Mapping[str, float], baseline: str, contender: str
) -> Interval | None:
    """Weighted geometric mean of baseline_bytes / contender_bytes over the cases of `weights`.

    None where one of them was not weighed for both; `unweighed` says which.
    """
    if not weights or unweighed(memories, mode, weights, baseline, contender):
        return None
    found = _peaks(memories, mode)
    ratios = [max(LEAST_BYTES, found[name][baseline]) / max(LEAST_BYTES, found[name][contender]) for name in weights]
    value = round(geometric_mean(ratios, list(weights.values())), 6)
    return Interval(value=value, low=value, high=value)


def unweighed(memories: Sequence[Memory], mode: Mode, weights: Mapping[str, float], *sides: str) -> tuple[str, ...]:
    """The cases of `weights` at which the peak of a side is not known."""
    found = _peaks(memories, mode)
    return tuple(name for name in weights if not set(sides) <= found.get(name, {}).keys())


def _peaks(memories: Sequence[Memory], mode: Mode) -> dict[str, dict[str, int]]:
    return {memory.case.name: memory.peak_bytes for memory in memories if memory.mode is mode}
