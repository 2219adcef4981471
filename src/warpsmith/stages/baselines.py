"""The profile's baselines: speed, peak memory and host time a call of the original and every provider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import L2, ORIGINAL, Contender, HostTime, Memory, Timing
from warpsmith.measure.worker.protocol import WorkerError
from warpsmith.search.bench import Bench
from warpsmith.stages.timings import (
    contenders,
    everyone_at,
    fits_l2,
    host_time_question,
    memory_question,
    pairs,
    peak_memories,
    smallest_tuning_case,
    with_providers,
)


@dataclass
class Baselines:
    """What was measured. `warm_timings` are `timings` again with L2 warm, where a call's working set fits it.

    `host_times` are of each pass at the smallest tuning case; `no_host_time` says of a pass why it has none.
    """

    timings: list[Timing] = field(default_factory=list)
    warm_timings: list[Timing] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    host_times: list[HostTime] = field(default_factory=list)
    no_host_time: dict[Mode, str] = field(default_factory=dict)


def measure_baselines(bench: Bench) -> Baselines:
    """Every case and mode. Raises WorkerError."""
    spec, sides, found = bench.spec, contenders(**{ORIGINAL: bench.original}), Baselines()
    smallest = smallest_tuning_case(spec)
    for index, (case, mode) in enumerate(todo := pairs(spec.cases, spec.modes)):
        bench.report(f"{case.name} {mode.value}", index, len(todo))
        timings = with_providers(bench, sides, case, mode)
        found.timings.extend(timings)
        if bench.l2 is L2.COLD and fits_l2(spec, bench.device, case, mode):
            found.warm_timings.extend(with_providers(replace(bench, l2=L2.WARM), sides, case, mode))
        if case == smallest and mode in spec.passes:
            _host_time(bench, timings, everyone_at(spec, sides, case), found)
    bench.report(f"peak memory at {len(spec.cases)} cases, each in a process of its own")
    found.memories.extend(
        peak_memories(bench, [memory_question(bench, everyone_at(spec, sides, case), case) for case in spec.cases])
    )
    return found


def _host_time(bench: Bench, timings: Sequence[Timing], everyone: Sequence[Contender], found: Baselines) -> None:
    mode = timings[0].mode
    try:
        found.host_times.append(bench.ask(host_time_question(bench, timings, everyone), HostTime))
    except WorkerError as error:
        found.no_host_time[mode] = error.failure.in_a_line
        bench.report(f"no host time of {mode.value}: {error.failure.in_a_line}")
