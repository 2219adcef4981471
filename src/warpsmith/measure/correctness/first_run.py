"""What a first run betrays: results of another form, inputs written, memory shared, values off.

Owns the comparison of one run of the candidate with one of the original and with float64.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from warpsmith.contracts.measurement import CheckFailure, OutputError
from warpsmith.measure.correctness.bout import Bout
from warpsmith.measure.correctness.errors import Figures, compared, figures, inaccuracy, larger, not_finite
from warpsmith.measure.correctness.form import differences
from warpsmith.measure.correctness.nudge import nudged_reference


def form(bout: Bout) -> Iterator[CheckFailure]:
    """Results of the type, number, shape, dtype, device and strides that the original gives."""
    wrong = differences(bout.found.outputs, bout.known.outputs)
    for part, message in wrong or differences(bout.found.gradients, bout.known.gradients):
        yield CheckFailure(check="form", part=part, message=message)


def inputs(bout: Bout) -> Iterator[CheckFailure]:
    """Inputs and output gradients as they were, unless the target declares it or the original writes them too."""
    permitted = {*bout.trial.target.overwrites, *bout.known.changed}
    for name, where in bout.found.changed.items():
        if name not in permitted:
            declared = ", which the target does not declare in `overwrites`" * (name in bout.trial.inputs)
            yield CheckFailure(check="inputs", message=f"changes {name}{declared}: {where}")


def guards(bout: Bout) -> Iterator[CheckFailure]:
    """Nothing written beside a buffer, an input or an output gradient, where the original keeps to them."""
    if bout.known.violations:
        bout.skipped["guards"] = f"the original {bout.known.violations[0]}"
        return
    for told in bout.found.violations:
        yield CheckFailure(check="guards", message=told)


def sharing(bout: Bout) -> Iterator[CheckFailure]:
    """No result in the memory of an input, unless the target declares it or the original does as much."""
    for part, name in sorted(bout.found.shared - bout.known.shared):
        if name not in bout.trial.target.overwrites:
            message = f"shares its memory with the input {name}, the original's does not"
            yield CheckFailure(check="sharing", part=part, message=message)


def values(bout: Bout) -> Iterator[CheckFailure]:
    """Errors against float64, of every output and gradient that the original has.

    Where the original may be exact by luck, in a probe and in fp32, at least what a few roundings of the inputs do is
    granted.
    """
    for name, theirs in bout.known.results.items():
        ours, wanted = bout.found.results[name], bout.reference[name]
        if theirs is None or ours is None or wanted is None or wanted.numel() == 0:
            continue
        if (wrong := not_finite("values", name, ours, theirs, wanted)) is not None:
            yield wrong
        own, granted = figures(ours, wanted), figures(theirs, wanted)
        error = _compared(bout, name, own, granted, wanted, ours.dtype)
        wrong = inaccuracy("values", error, own.worst, ours, wanted)
        if wrong is not None and ours.dtype is torch.float32 and not bout.nudged:
            bout.nudged = nudged_reference(bout.trial)
            error = _compared(bout, name, own, granted, wanted, ours.dtype)
            wrong = inaccuracy("values", error, own.worst, ours, wanted)
        bout.errors.append(error)
        if wrong is not None:
            yield wrong
    if not bout.errors and all(size > 0 for size in bout.trial.case.axes.values()):
        yield CheckFailure(check="values", message="no element was compared, though the case is not empty")


def _compared(
    bout: Bout, name: str, own: Figures, original: Figures, reference: Tensor, dtype: torch.dtype
) -> OutputError:
    moved = bout.nudged.get(name)
    granted = original if moved is None else larger(original, figures(moved, reference))
    return compared(name, own, granted, reference, dtype)
