"""Picks the best of several rewrites of one source by short interleaved runs, the source itself among them."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import Contender, Timing, TimingPlan
from warpsmith.contracts.verdict import Interval
from warpsmith.search.bench import Bench
from warpsmith.verdict.statistics import goal_speedup

#: Chosen: half the rounds of a sweep's finalists, for a handful of rewrites at every case.
PLAN = TimingPlan(rounds=6, most_rounds=6, rounds_a_placement=3)
BASE = "base"


def best_alternative(
    bench: Bench, base: str, alternatives: Mapping[str, str], mode: Mode
) -> tuple[str, dict[str, Interval]]:
    """The alternative with the best weighted geometric mean speed-up over `base`, and every one's speed-up.

    An alternative that fails at a case has no speed-up and is left out. Raises WorkerError, and ValueError
    where none runs.
    """
    contenders = [Contender(name=BASE, source=bench.keep(BASE, base))]
    contenders += [Contender(name=name, source=bench.keep(name, text)) for name, text in alternatives.items()]
    left, timings = list(alternatives), list[Timing]()
    cases = bench.spec.tuning_cases
    for index, case in enumerate(cases):
        bench.report(f"{case.name} {mode.value}: {', '.join(alternatives)}", index, len(cases))
        timings.append(timing := bench.time(contenders, case, mode, PLAN))
        for name in [name for name in left if name in timing.failures]:
            bench.report(f"{name} fails at {case.name}: {timing.failures[name].splitlines()[0]}")
            left.remove(name)
    if not left:
        raise ValueError("no alternative runs at every tuning case")
    speedups = {name: goal_speedup(timings, BASE, name) for name in left}
    for name, speedup in speedups.items():
        bench.report(f"{name}: {speedup.value:.3f}× the best so far, {mode.value}")
    return max(speedups, key=lambda name: speedups[name].value), speedups


def pays(speedup: Interval) -> bool:
    """Whether it is faster by more than its own runs scatter."""
    return speedup.low > 1


def told(speedup: Interval) -> str:
    """A speed-up that does not pay, such as "1.003× [0.996, 1.009], which may be noise"."""
    noise = ", which may be noise" if speedup.value > 1 else ""
    return f"{speedup.value:.3f}× [{speedup.low:.3f}, {speedup.high:.3f}]{noise}"
