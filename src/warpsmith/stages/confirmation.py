"""Measures the winner afresh: in processes that have just started, on inputs that no search has seen.

Owns what a confirmation asks. Must not know what is done with its verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpsmith.contracts.case import Role
from warpsmith.contracts.measurement import OPTIMIZED, ORIGINAL, Contender, SourceRef, Timing
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.result import SearchResult
from warpsmith.search.bench import Bench
from warpsmith.stages.judge import check_all, measure_compilations, measure_host_times, measure_memories
from warpsmith.stages.reporting import Confirmation
from warpsmith.stages.session import Session
from warpsmith.stages.timings import GUARDED, contenders, pairs, with_providers
from warpsmith.verdict.decision import Evidence, decide
from warpsmith.verdict.statistics import pooled

#: The confirmation runs on inputs that no search has seen.
FRESH_SEED_OFFSET = 1000

#: Chosen: where the code of a process lies in memory is worth some tenths of a per cent; three tell what is chance.
CONFIRMING_PROCESSES = 3


def confirm(session: Session, profile: Profile, search: SearchResult) -> Confirmation:
    """Asks a worker that has just started, with a seed that no search used."""
    assert search.winner is not None and search.winner_sha256 is not None
    session.worker.close()
    spec = session.describe()
    bench = replace(
        session.bench(spec, profile.device),
        seed=session.request.seed + FRESH_SEED_OFFSET,
        original=SourceRef(path=str(session.workspace.original), sha256=profile.source_sha256),
    )
    winner = SourceRef(path=str(session.workspace.variant(search.winner)), sha256=search.winner_sha256)
    sides = contenders(**{ORIGINAL: bench.original, OPTIMIZED: winner})
    correctness = check_all(bench, winner)
    timings: list[Timing] = []
    in_goal = pairs(spec.tuning_cases, [session.request.goal])
    todo = pairs(spec.cases, spec.modes)
    for index, (case, mode) in enumerate(todo):
        session.progress.note(f"confirming {case.name} {mode.value}", index, len(todo))
        plan = None if (case, mode) in in_goal else GUARDED
        timings.extend(with_providers(bench, sides, case, mode, plan))
    memories = measure_memories(bench, sides)
    timings = _in_more_processes(session, bench, sides, timings)
    both = tuple(t for t in timings if OPTIMIZED in t.failures or any(b.contender == OPTIMIZED for b in t.blocks))
    evidence = Evidence(
        candidate=OPTIMIZED,
        best=None,
        goal_mode=session.request.goal,
        correctness=correctness,
        timings=both,
        memories=memories,
        compilations=measure_compilations(bench, winner),
        host_times=measure_host_times(bench, sides),
        noise_floor=search.noise_floor,
    )
    return Confirmation(decide(evidence, session.config.thresholds), correctness, tuple(timings), memories)


def _in_more_processes(
    session: Session, bench: Bench, sides: Sequence[Contender], timings: Sequence[Timing]
) -> list[Timing]:
    """The goal's timings with those of more cold processes added: what one process has by chance is not confirmed."""
    found = list(timings)
    in_goal = [
        index
        for index, timing in enumerate(found)
        if timing.mode is session.request.goal and timing.case.role is Role.TUNING and OPTIMIZED not in timing.failures
    ]
    for process in range(1, CONFIRMING_PROCESSES):
        session.worker.close()
        again = replace(bench, seed=bench.seed + process)
        for done, index in enumerate(in_goal):
            timing = found[index]
            told = f"confirming {timing.case.name} {timing.mode.value} in cold process {process + 1}"
            session.progress.note(told, done, len(in_goal))
            if {ORIGINAL, OPTIMIZED} <= {block.contender for block in timing.blocks}:
                found[index] = pooled(timing, again.time(sides, timing.case, timing.mode))
    return found
