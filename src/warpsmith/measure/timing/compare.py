"""Times contenders against each other: interleaved blocks in random order, one method for all of them.

Graph replay where every contender can be captured, else the profiler's kernel durations, else pairs of events. The
fall-back holds for the whole comparison and is recorded with its reason.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import L2, Timing, TimingMethod, TimingPlan
from warpsmith.contracts.target import Target
from warpsmith.device.clocks import ClockReader
from warpsmith.measure.timing.blocks import BlockRunner, Blocks, Failed, Placements
from warpsmith.measure.timing.contest import Contest, Impossible
from warpsmith.measure.timing.rotation import RotationMaker
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import InputMaker
from warpsmith.measure.worker.protocol import WorkerError, WorkerFailure
from warpsmith.measure.worker.streams import graph_stream


def time_contenders(
    implementations: Sequence[Implementation],
    target: Target,
    case: Case,
    mode: Mode,
    *,
    plan: TimingPlan,
    method: TimingMethod | None,
    l2: L2,
    seed: int,
    device: torch.device,
) -> Timing:
    """Samples in ms a call of every contender that runs; the others are in `failures`.

    Raises what a broken CUDA context raises: after that nothing in this process can be believed. Raises WorkerError
    for a target that cannot be used (bad_target) or a method that was asked for and is not possible (runtime_failed).
    """
    rotations = RotationMaker(InputMaker(target, case, mode, device), l2)
    clock = ClockReader()
    with torch.cuda.stream(graph_stream(device)):
        contest = Contest(list(implementations), rotations, seed)
        contest.warm_up()
        judged = _judged([each for each in implementations if each.name not in contest.failures])
        blocks, used, reason = _timed(contest, method, lambda by: BlockRunner(by, plan, seed, clock, judged))
        contest.close()
    rotation = contest.last
    assert rotation is not None, "warming up makes one"
    return Timing(
        case=case,
        mode=mode,
        method=used,
        method_reason=reason,
        l2=l2,
        calls_per_sample=blocks.calls,
        input_sets=len(rotation.sets),
        l2_flushed=rotation.flushed or (used is not TimingMethod.GRAPH and l2 is L2.COLD),
        same_addresses=all(contest.equal_addresses) if used is TimingMethod.GRAPH else None,
        blocks=tuple(block for block in blocks.measured if block.contender not in contest.failures),
        pilot=tuple(block for block in blocks.pilot if block.contender not in contest.failures),
        capped=blocks.capped,
        clock_unread=clock.absent,
        failures=contest.failures,
    )


def _timed(
    contest: Contest, method: TimingMethod | None, runner: Callable[[Placements], BlockRunner]
) -> tuple[Blocks, TimingMethod, str | None]:
    """By the first method that can time every contender, with the reasons why it is not the one before.

    Where a contender fails on the way, the others begin anew without it; where its graph is disproved in the end, they
    do not: their blocks are as they were.
    """
    reasons: list[str] = []
    untried = list(TimingMethod) if method is None else [method]
    while untried:
        try:
            contest.equal_addresses.clear()  # of an attempt that was given up nothing counts
            try:
                blocks = runner(partial(contest.runners, untried[0]))
                found = blocks.run()
                contest.prove(blocks.runners)
                return found, untried[0], "; ".join(reasons) or None
            except Failed as failed:
                assert failed.__cause__ is not None
                contest.fail(failed.name, failed.__cause__)
        except Impossible as error:
            reasons.append(str(error))
            untried.pop(0)
    raise WorkerError(WorkerFailure(status="runtime_failed", message="; ".join(reasons)))


def _judged(implementations: Sequence[Implementation]) -> list[str]:
    """Whose scatter settles the number of rounds: sources, not baselines, unless there are baselines alone."""
    sources = [each for each in implementations if each.source_path is not None]
    return [each.name for each in (sources if len(sources) > 1 else implementations[:2])]
