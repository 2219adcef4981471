"""From what a bench measured to its rows: one a contender, case, mode and state of L2.

Pure; must not know where the observations came from or how a row is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from warpsmith.contracts.bench import BenchRow, Finding
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.measurement import L2, ORIGINAL, HostTime, Memory, Timing
from warpsmith.contracts.target import TargetSpec
from warpsmith.contracts.verdict import Interval
from warpsmith.diagnose.roofline import achieved_gb_s, share_of_nearer
from warpsmith.report.rows import ProviderRow
from warpsmith.verdict.decision import MIN_ROUNDS
from warpsmith.verdict.statistics import compare, lower_quartile, median_ms

#: Why a row has no time where a recording does not hold it.
NOT_RECORDED = "not in the recording"


@dataclass(frozen=True)
class Place:
    """What is compared: the contenders at a case and mode, L2 cold or warm."""

    case: Case
    mode: Mode
    l2: L2
    contenders: tuple[str, ...]


@dataclass
class Observations:
    """`refused` says of a place why none of its contenders has a figure."""

    timings: list[Timing] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    host_times: list[HostTime] = field(default_factory=list)
    refused: dict[tuple[str, Mode, L2], str] = field(default_factory=dict)

    def at(self, place: Place) -> list[Timing]:
        wanted = (place.case.name, place.mode, place.l2)
        return [timing for timing in self.timings if (timing.case.name, timing.mode, timing.l2) == wanted]

    def peak_bytes(self, case: str, mode: Mode, contender: str) -> int | None:
        here = (m.peak_bytes for m in self.memories if (m.case.name, m.mode) == (case, mode))
        return next((peaks[contender] for peaks in here if contender in peaks), None)

    def host_us(self, case: str, mode: Mode, contender: str) -> float | None:
        here = (h.samples_us for h in self.host_times if (h.case.name, h.mode) == (case, mode))
        return next((lower_quartile(samples[contender]) for samples in here if samples.get(contender)), None)


def finding(speedup: Interval, rounds: int, minimum_effect: float) -> Finding:
    """`minimum_effect` is a fraction: 0.01 is 1%. Of too few rounds an interval says nothing, narrow as it may be."""
    if rounds < MIN_ROUNDS:
        return Finding.INCONCLUSIVE
    if speedup.low > 1:
        return Finding.FASTER
    if speedup.high < 1:
        return Finding.SLOWER
    within = 1 / (1 + minimum_effect) <= speedup.low and speedup.high <= 1 + minimum_effect
    return Finding.NO_DIFFERENCE if within else Finding.INCONCLUSIVE


def bench_rows(
    observed: Observations,
    places: Sequence[Place],
    spec: TargetSpec,
    device: DeviceFacts,
    minimum_effect: float,
) -> tuple[BenchRow, ...]:
    """A row for every contender of every place. Of one that was timed in several comparisons, the first counts."""
    return tuple(
        _row(observed, place, contender, spec, device, minimum_effect)
        for place in places
        for contender in place.contenders
    )


def _row(
    observed: Observations,
    place: Place,
    contender: str,
    spec: TargetSpec,
    device: DeviceFacts,
    minimum_effect: float,
) -> BenchRow:
    case, mode = place.case, place.mode
    timings = observed.at(place)
    ran = next((t for t in timings if any(block.contender == contender for block in t.blocks)), None)
    about = {"case": case.name, "role": case.role, "mode": mode, "l2": place.l2, "contender": contender}
    seen = {
        "peak_bytes": observed.peak_bytes(case.name, mode, contender),
        "host_us": observed.host_us(case.name, mode, contender),
    }
    if ran is None:
        failures = [t.failures[contender] for t in timings if contender in t.failures]
        why = observed.refused.get((case.name, mode, place.l2), "not timed at this case")
        return BenchRow.model_validate({**about, **seen, "time_ms": None, "unavailable": (failures or [why])[0]})
    return BenchRow.model_validate(
        {**about, **seen, **_figures(ran, contender, spec, device), **_comparison(ran, contender, minimum_effect)}
    )


def _figures(timing: Timing, contender: str, spec: TargetSpec, device: DeviceFacts) -> Mapping[str, object]:
    cost, dtype, time_ms = spec.costs[timing.case.name][timing.mode], timing.case.dtype, median_ms(timing, contender)
    share = share_of_nearer(cost, time_ms.value, dtype, device)
    return {"time_ms": time_ms, "gb_s": achieved_gb_s(cost, time_ms), "share_of_ceiling": share}


def _comparison(timing: Timing, contender: str, minimum_effect: float) -> Mapping[str, object]:
    blocks = [block for block in timing.blocks if block.contender == contender]
    throttled = [block for block in blocks if block.throttle_reasons]
    told: dict[str, object] = {
        "method": timing.method,
        "method_reason": timing.method_reason,
        "same_addresses": timing.same_addresses,
        "rounds": len({block.round for block in blocks}),
        "capped": timing.capped,
        "throttled_blocks": len(throttled),
        "throttle_reasons": tuple(dict.fromkeys(reason for block in throttled for reason in block.throttle_reasons)),
    }
    if contender != ORIGINAL and timing.shared_rounds(ORIGINAL, contender):
        compared = compare(timing, ORIGINAL, contender)
        found = finding(compared.speedup, compared.rounds, minimum_effect)
        told |= {"speedup": compared.speedup, "finding": found}
    return told


def plotted(rows: Sequence[BenchRow], l2: L2) -> tuple[ProviderRow, ...]:
    """The rows of one state of L2, as figures take them."""
    return tuple(
        ProviderRow(
            provider=row.contender,
            case=row.case,
            role=row.role,
            mode=row.mode,
            time_ms=row.time_ms,
            peak_bytes=row.peak_bytes,
            method=row.method,
            rounds=row.rounds,
            samples=row.rounds,
        )
        for row in rows
        if row.l2 is l2 and row.method is not None
    )
