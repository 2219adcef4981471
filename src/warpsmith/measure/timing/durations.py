"""Device time of each kernel that one call launches, by torch's profiler: where the time of a call goes.

Owns the comparison of the calls with each other. How a call is profiled, and what is restored and flushed around it,
is the business of the profiler's runner, by which calls are also timed.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Sequence

import torch

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.counters import Durations, KernelDuration
from warpsmith.contracts.measurement import L2
from warpsmith.contracts.target import Target
from warpsmith.measure.timing.rotation import Flush, Rotation, RotationMaker
from warpsmith.measure.timing.runners import NoKernels, ProfilerRunner, Span
from warpsmith.measure.worker.calls import prepared
from warpsmith.measure.worker.failures import told
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import InputMaker

#: Chosen: enough for a median that an outlier or two do not move; a profile of so many calls is read in a moment.
CALLS = 12
#: Chosen: the first compiles, the second finds settled what the first set up.
WARM_UP_CALLS = 2


class Unsteady(Exception):
    """The calls do not launch the same kernels; its message says which differ."""


def measure_durations(
    implementation: Implementation, target: Target, case: Case, mode: Mode, *, seed: int, device: torch.device
) -> Durations:
    """The kernels of a call in the order in which they ran, fills and copies among them, each with a sample a call.

    Inputs are not in L2. A call that fails, launches now these and now those kernels, or shows the profiler none is
    `unavailable`, with the reason. Raises what a broken CUDA context raises, and WorkerError for a target that cannot
    be used.
    """
    rotation = RotationMaker(InputMaker(target, case, mode, device), L2.COLD).make(seed)
    try:
        _warm_up(implementation, mode, rotation)
        calls = ProfilerRunner(implementation, mode, rotation, Flush(device)).run_spans(CALLS)
        return Durations(case=case, mode=mode, kernels=kernels_of(calls))
    except NoKernels as error:
        reason = f"{error}: CUPTI is missing, another profiler has it, or the call launches nothing"
    except Unsteady as error:
        reason = str(error)
    except Exception as error:  # a contender's code may fail in any way
        reason = told(error)
    return Durations(case=case, mode=mode, unavailable=reason)


def kernels_of(calls: Sequence[Sequence[Span]]) -> tuple[KernelDuration, ...]:
    """What each of the calls did, span by span. Raises Unsteady where they did not all do the same."""
    names = [[span.name for span in call] for call in calls]
    for number, others in enumerate(names[1:], start=2):
        if others != names[0]:
            raise Unsteady(
                f"calls launch different kernels: {_named(names[0])} in call 1, {_named(others)} in {number}"
            )
    durations = [tuple(round(each.end_us - each.start_us, 3) for each in spans) for spans in zip(*calls, strict=True)]
    return tuple(KernelDuration(name=name, samples_us=each) for name, each in zip(names[0], durations, strict=True))


def _warm_up(implementation: Implementation, mode: Mode, rotation: Rotation) -> None:
    implementation.activate()
    for _ in range(WARM_UP_CALLS):
        rotation.restore()
        prepared(implementation, mode, rotation.sets[:1])(0)
    torch.cuda.synchronize()


def _named(kernels: Sequence[str]) -> str:
    return f"{len(kernels)} ({', '.join(kernels)[:200]})"
