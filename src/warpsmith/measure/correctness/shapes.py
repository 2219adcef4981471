"""Shapes beside a case: each axis at 0 ("empty"), at 1 ("one row") and one longer, the others as they are.

Owns which shapes are tried, and only at the smallest case of a dtype. Nobody can say beforehand that a kernel is safe
at such a size: most return early, launch an empty grid (which Triton leaves out) or do not compile, and what
make_inputs or the original refuses is skipped with the reason. Where the original does break the CUDA context, that is
told as a fault of the target, which mends it by naming the size in `unprobed`, such as "N=0".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from warpsmith.contracts.case import Case
from warpsmith.contracts.measurement import CheckFailure
from warpsmith.measure.correctness.bout import Bout
from warpsmith.measure.correctness.probing import probed
from warpsmith.measure.correctness.trial import Trial


def shapes(bout: Bout) -> Iterator[CheckFailure]:
    """All that a first run betrays, at every such shape where the original is right. The first failure ends it."""
    trial = bout.trial
    if trial.case.name != (smallest := _smallest(trial)).name:
        bout.skipped["shapes"] = f"made at {smallest.name}, the smallest case of that dtype"
        return
    for axis, size in ((axis, size) for axis, usual in trial.case.axes.items() for size in (0, 1, usual + 1)):
        if trial.case.axes[axis] == size:
            continue
        case = trial.case.model_copy(update={"axes": {**trial.case.axes, axis: size}})
        make = partial(Trial.of, trial.target, case, device=trial.device, seed=trial.seed)
        if failures := list(probed(bout, "shapes", f"{axis}={size}", make)):
            yield from failures
            return


def _smallest(trial: Trial) -> Case:
    """Of the target's cases in that dtype. The case itself where the target names none."""
    cases = [case for case in trial.target.cases if case.dtype is trial.case.dtype] or [trial.case]
    return min(cases, key=lambda case: (math.prod(case.axes.values()), len(case.options), case.name))
