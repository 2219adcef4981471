"""Picks the best of several rewrites of one source by short interleaved runs, the source itself among them."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import Contender, TimingPlan
from warpsmith.search.bench import Bench
from warpsmith.verdict.statistics import geometric_mean, median_ms

#: Chosen: half the rounds of a sweep's finalists, for a handful of rewrites at every case.
PLAN = TimingPlan(rounds=6, most_rounds=6, rounds_a_placement=3)
BASE = "base"


def best_alternative(
    bench: Bench, base: str, alternatives: Mapping[str, str], mode: Mode
) -> tuple[str, dict[str, float]]:
    """The alternative with the best weighted geometric mean speed-up over `base`, and every one's speed-up.

    An alternative that fails at a case has no speed-up and is left out. Raises WorkerError, and ValueError
    where none runs.
    """
    contenders = [Contender(name=BASE, source=bench.keep(BASE, base))]
    contenders += [Contender(name=name, source=bench.keep(name, text)) for name, text in alternatives.items()]
    over_base: dict[str, list[float]] = {name: [] for name in alternatives}
    cases = bench.spec.tuning_cases
    for index, case in enumerate(cases):
        bench.report(f"{case.name} {mode.value}: {', '.join(alternatives)}", index, len(cases))
        timing = bench.time(contenders, case, mode, PLAN)
        base_ms = median_ms(timing, BASE).value
        for name in list(over_base):
            if name in timing.failures:
                bench.report(f"{name} fails at {case.name}: {timing.failures[name].splitlines()[0]}")
                del over_base[name]
            else:
                over_base[name].append(base_ms / median_ms(timing, name).value)
    if not over_base:
        raise ValueError("no alternative runs at every tuning case")
    weights = [case.weight for case in cases]
    speedups = {name: geometric_mean(each, weights) for name, each in over_base.items()}
    for name, speedup in speedups.items():
        bench.report(f"{name}: {speedup:.3f}× the best so far, {mode.value}")
    return max(speedups, key=lambda name: speedups[name]), speedups
