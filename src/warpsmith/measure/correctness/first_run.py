"""What a first run betrays: results of another form, inputs written, memory shared, values off.

Owns the comparison of one run of the candidate with one of the original and with float64.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.contracts.measurement import CheckFailure
from warpsmith.measure.correctness.bout import Bout
from warpsmith.measure.correctness.errors import compared, figures, inaccuracy, not_finite
from warpsmith.measure.correctness.form import differences


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


def sharing(bout: Bout) -> Iterator[CheckFailure]:
    """No result in the memory of an input, unless the target declares it or the original does as much."""
    for part, name in sorted(bout.found.shared - bout.known.shared):
        if name not in bout.trial.target.overwrites:
            message = f"shares its memory with the input {name}, the original's does not"
            yield CheckFailure(check="sharing", part=part, message=message)


def values(bout: Bout) -> Iterator[CheckFailure]:
    """Errors against float64, of every output and gradient that the original has."""
    for name, theirs in bout.known.results.items():
        ours, wanted = bout.found.results[name], bout.reference[name]
        if theirs is None or ours is None or wanted is None or wanted.numel() == 0:
            continue
        if (wrong := not_finite("values", name, ours, theirs, wanted)) is not None:
            yield wrong
        own = figures(ours, wanted)
        error = compared(name, own, figures(theirs, wanted), wanted, ours.dtype)
        bout.errors.append(error)
        if (wrong := inaccuracy("values", error, own.worst, ours, wanted)) is not None:
            yield wrong
    if not bout.errors and all(size > 0 for size in bout.trial.case.axes.values()):
        yield CheckFailure(check="values", message="no element was compared, though the case is not empty")
