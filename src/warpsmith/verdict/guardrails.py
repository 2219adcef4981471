"""Owns the metrics outside the goal that a winner must not pay with: the other passes, memory, host time,
compilation.

Each rule turns figures into a GuardrailResult. Must not know how the overall decision is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import Compilation, HostTime, Memory
from warpsmith.contracts.verdict import CaseSpeedup, GuardrailResult
from warpsmith.verdict.statistics import lower_quartile
from warpsmith.verdict.thresholds import Thresholds

#: Chosen: of twelve chunks of one code, nine differ one way by chance once in some hundred times.
MOST_CHUNKS = 0.75


@dataclass(frozen=True)
class Pair:
    """One figure of the original and of the candidate, in the unit of the metric."""

    original: float
    candidate: float

    @property
    def growth(self) -> float:
        """Relative growth; 0.05 is 5% more. Something where there was nothing has no bound."""
        if self.original == 0:
            return 0.0 if self.candidate <= 0 else float("inf")
        return self.candidate / self.original - 1


def pass_guardrails(
    cases: Sequence[CaseSpeedup], goal_mode: Mode, thresholds: Thresholds
) -> tuple[GuardrailResult, ...]:
    """The worst case of each mode outside the goal. It fails where a case regressed beyond the trade-off."""
    results: list[GuardrailResult] = []
    for mode in dict.fromkeys(c.mode for c in cases if c.mode is not goal_mode):
        of_mode = [c for c in cases if c.mode is mode]
        worst = min(of_mode, key=lambda c: (not c.regressed, c.speedup.value))
        results.append(
            GuardrailResult(
                metric=f"{mode.value} time at its worst case, {worst.case}",
                baseline=worst.baseline_ms,
                variant=worst.variant_ms,
                unit="ms",
                limit=f"at most {thresholds.pass_tradeoff:.0%} slower, beyond noise",
                ok=not worst.regressed,
            )
        )
    return tuple(results)


def memory_guardrails(
    memories: Sequence[Memory], original: str, candidate: str, thresholds: Thresholds
) -> tuple[GuardrailResult, ...]:
    """Each mode's hungriest call over the cases: what a GPU must have free to run them at all, inputs included.

    Growth at a case that needs less than another is not felt and does not count. Cases where one side was not
    measured are left out on both.
    """
    results: list[GuardrailResult] = []
    for mode in dict.fromkeys(m.mode for m in memories):
        both = [m for m in memories if m.mode is mode and {original, candidate} <= m.peak_bytes.keys()]
        if not both:
            continue
        worst = max(both, key=lambda m: m.needed(candidate))
        pair = Pair(max(m.needed(original) for m in both), worst.needed(candidate))
        results.append(
            GuardrailResult(
                metric=f"largest memory of a call in {mode.value}, {worst.case.name}",
                baseline=pair.original,
                variant=pair.candidate,
                unit="bytes",
                limit=f"at most {thresholds.memory:.0%} more, inputs included",
                ok=pair.growth <= thresholds.memory,
            )
        )
    return tuple(results)


def host_time_guardrails(
    host_times: Sequence[HostTime], original: str, candidate: str, thresholds: Thresholds
) -> tuple[GuardrailResult, ...]:
    """Host time a call, one result a case and mode. Both the share and the microseconds must be exceeded.

    What disturbs the host only ever adds time, and a busy host doubles it for a while. So the sides are compared
    chunk by chunk, the two that ran next to each other by their lower quartiles, and a candidate fails where it costs
    too much in three of four chunks. Of answers that tell no chunks, the least call and the lower quartile of all have
    both to be too much.
    """
    results: list[GuardrailResult] = []
    for host_time in host_times:
        samples = host_time.samples_us
        if not (samples.get(original) and samples.get(candidate)):
            continue
        chunks = _by_chunk(host_time, original, candidate)
        if chunks:
            named, share = "median of chunks", MOST_CHUNKS
            shown = Pair(median([p.original for p in chunks]), median([p.candidate for p in chunks]))
        else:
            named, share = "lower quartile", 1.0
            shown = Pair(lower_quartile(samples[original]), lower_quartile(samples[candidate]))
            chunks = [shown, Pair(min(samples[original]), min(samples[candidate]))]
        more_us = [p.candidate - p.original for p in chunks if p.growth > thresholds.host_time]
        costly = sum(us > thresholds.host_time_us for us in more_us)
        results.append(
            GuardrailResult(
                metric=f"host time a call ({named}), {host_time.case.name} {host_time.mode.value}",
                baseline=shown.original,
                variant=shown.candidate,
                unit="us",
                limit=f"at most {thresholds.host_time:.0%} or {thresholds.host_time_us:g} us more",
                ok=costly < share * len(chunks),
            )
        )
    return tuple(results)


def _by_chunk(host_time: HostTime, *sides: str) -> list[Pair]:
    """The lower quartiles of both sides in each chunk; none where the answer does not say what a chunk is."""
    size = host_time.calls_per_chunk
    if size is None:
        return []
    quartiles = []
    for side in sides:
        samples = host_time.samples_us[side]
        quartiles.append([lower_quartile(samples[i : i + size]) for i in range(0, len(samples), size)])
    return [Pair(*pair) for pair in zip(*quartiles, strict=False)]


def compile_guardrails(
    original: Compilation, candidate: Compilation, thresholds: Thresholds
) -> tuple[GuardrailResult, ...]:
    """Cold compile time, where both the share and the seconds must be exceeded, and the number of kernels in all.

    Compared by the least sample: what disturbs a compiler only adds. Nothing where one side was not measured.
    """
    if not (original.cold_s and candidate.cold_s):
        return ()
    cold = Pair(min(original.cold_s), min(candidate.cold_s))
    kernels = Pair(sum(original.specializations.values()), sum(candidate.specializations.values()))
    return (
        GuardrailResult(
            metric=f"cold compile time (least of {len(candidate.cold_s)}), {candidate.case.name}",
            baseline=cold.original,
            variant=cold.candidate,
            unit="s",
            limit=f"at most {thresholds.compile_time:.0%} or {thresholds.compile_time_s:g} s more",
            ok=not (
                cold.growth > thresholds.compile_time and cold.candidate - cold.original > thresholds.compile_time_s
            ),
        ),
        GuardrailResult(
            metric="specializations, all cases",
            baseline=kernels.original,
            variant=kernels.candidate,
            unit="kernels",
            limit=f"at most {1 + thresholds.specializations:g} times as many",
            ok=kernels.growth <= thresholds.specializations,
        ),
    )
