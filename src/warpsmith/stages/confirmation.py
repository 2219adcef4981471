"""Measures the winner afresh: in processes that have just started, on inputs that no search has seen.

Owns what a confirmation asks. Must not know what is done with its verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import OPTIMIZED, ORIGINAL, Contender, SourceRef, Timing
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.result import SearchResult
from warpsmith.contracts.sanitizing import SanitizerTool
from warpsmith.search.bench import Bench
from warpsmith.stages.apart import measure_apart
from warpsmith.stages.judge import check_all, measure_host_times
from warpsmith.stages.reporting import Confirmation
from warpsmith.stages.rules import Rules, Standing
from warpsmith.stages.sanitizing import Sanitizer
from warpsmith.stages.session import Session
from warpsmith.stages.timings import GUARDED, contenders, pairs, with_providers
from warpsmith.verdict.decision import decide
from warpsmith.verdict.statistics import pooled

#: The confirmation runs on inputs that no search has seen.
FRESH_SEED_OFFSET = 1000

#: Chosen: three tell whether processes agree. Where they do not, the interval is widened.
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
    correctness = Sanitizer.of(bench).examine(winner, check_all(bench, winner), SanitizerTool)
    timings: list[Timing] = []
    both: list[Timing] = []
    rules = Rules.of(session.request, session.config.thresholds, spec, search.noise_floor)
    in_goal = pairs(rules.counted(spec), [rules.goal])
    todo = pairs(spec.cases, spec.modes)
    for index, (case, mode) in enumerate(todo):
        session.progress.note(f"confirming {case.name} {mode.value}", index, len(todo))
        plan = None if (case, mode) in in_goal else GUARDED
        both.append(bench.time(sides, case, mode, plan))
        timings += with_providers(bench, sides, case, mode, GUARDED) if spec.providers else both[-1:]
    memories, compilations = measure_apart(bench, sides)
    evidence = replace(
        rules.evidence(Standing(OPTIMIZED, winner, ""), correctness),
        timings=_in_more_processes(session, bench, sides, both, in_goal),
        memories=memories,
        compilations=compilations,
        host_times=measure_host_times(bench, sides),
    )
    verdict = decide(evidence, rules.thresholds)
    return Confirmation(verdict, correctness, tuple(timings), memories, pairs=evidence.timings)


def _in_more_processes(
    session: Session,
    bench: Bench,
    sides: Sequence[Contender],
    timings: Sequence[Timing],
    goal_pairs: Sequence[tuple[Case, Mode]],
) -> tuple[Timing, ...]:
    """With the goal's timings of more cold processes added: what one process has by chance is not confirmed."""
    found = list(timings)
    in_goal = [i for i, t in enumerate(found) if (t.case, t.mode) in goal_pairs]
    for process in range(1, CONFIRMING_PROCESSES):
        session.worker.close()
        again = replace(bench, seed=bench.seed + process)
        for done, index in enumerate(in_goal):
            case, mode = found[index].case, found[index].mode
            told = f"confirming {case.name} {mode.value} in cold process {process + 1}"
            session.progress.note(told, done, len(in_goal))
            found[index] = _pooled(found[index], again.time(sides, case, mode))
    return tuple(found)


def _pooled(timing: Timing, more: Timing) -> Timing:
    """Both, or the winner as failed where it could not be timed the same way again."""
    try:
        return pooled(timing, more)
    except ValueError as error:
        without = tuple(block for block in timing.blocks if block.contender != OPTIMIZED)
        return timing.model_copy(update={"blocks": without, "failures": {**timing.failures, OPTIMIZED: str(error)}})
