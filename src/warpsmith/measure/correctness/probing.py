"""One more first run of both sides, on a trial made of the case's own.

Owns the rule of every such probe: the original decides. Where it fails or is not right, the probe is skipped with the
reason; where it is right, the candidate is held to all that a first run betrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from warpsmith.contracts.measurement import CheckFailure
from warpsmith.measure.correctness import first_run
from warpsmith.measure.correctness.attempts import attempt, attempt_of_original
from warpsmith.measure.correctness.bout import Bout, Check, Observed, observe
from warpsmith.measure.correctness.errors import RMS_MULTIPLE, compared, figures, near
from warpsmith.measure.correctness.form import Form
from warpsmith.measure.correctness.nudge import nudged_probe
from warpsmith.measure.correctness.trial import Results, Trial


def probed(bout: Bout, check: str, what: str, make: Callable[[], Trial]) -> Iterator[CheckFailure]:
    """What the first judge that fails has against the candidate "with {what}".

    `make` is called once and may raise what the target raises. A probe that the target names in `unprobed` is left
    out. Raises WorkerError (bad_target) where the original breaks the CUDA context.
    """
    skip = f"{check}, {what}"
    if what in bout.trial.target.unprobed:
        bout.skipped[skip] = "the target names it in `unprobed`"
        return
    probe = attempt_of_original(lambda: _of_original(bout, make()), bout.trial, what)
    if isinstance(probe, str):
        bout.skipped[skip] = probe
        return
    found = attempt(lambda: observe(bout.candidate, probe.trial, probe.known), bout.trial)
    if isinstance(found, str):
        yield CheckFailure(check=check, message=f"with {what} it fails, the original does not: {found}")
        return
    probe.found = found
    judges: tuple[Check, ...] = (first_run.inputs, first_run.guards, _form, first_run.sharing, first_run.values)
    for judge in judges:
        if failures := list(judge(probe)):
            for failure in failures:
                yield failure.model_copy(update={"check": check, "message": f"with {what}: {failure.message}"})
            return


def _form(probe: Bout) -> Iterator[CheckFailure]:
    """The form of a first run, but for the strides of gradients: autograd gives those the layout that they need."""
    yield from first_run.form(
        replace(
            probe,
            found=replace(probe.found, gradients=_without_strides(probe.found.gradients)),
            known=replace(probe.known, gradients=_without_strides(probe.known.gradients)),
        )
    )


def _without_strides(form: Form) -> Form:
    return replace(form, parts={name: replace(part, strides=()) for name, part in form.parts.items()})


def _not_right(trial: Trial, known: Observed, reference: Results, nudged: Results) -> str | None:
    """Why the original's results there are no measure for anyone, or None."""
    if undeclared := sorted(set(known.changed) & set(trial.inputs) - set(trial.target.overwrites)):
        return f"the original changes {', '.join(undeclared)} there"
    if known.violations:
        return f"the original {known.violations[0]} there"
    for name, part in known.results.items():
        if part is None:
            continue
        wanted = reference.get(name)
        if wanted is None or wanted.shape != part.shape:
            return f"the reference has no {name} of the original's shape there"
        if part.numel() == 0:
            continue
        if not bool((part.isfinite() | ~wanted.isfinite()).all()):
            return f"the original's {name} is not finite there"
        error, moved = figures(part, wanted), nudged.get(name)
        right = near(error, compared(name, error, error, wanted, part.dtype).scale, part.dtype)
        # a result that is nothing but rounding, such as the gradient of a sum that is always one
        if not right and (moved is None or error.rms > RMS_MULTIPLE * figures(moved, wanted).rms):
            return f"the original's {name} is off by {error.rms:.3g} (RMS) there"
    return None


def _of_original(bout: Bout, trial: Trial) -> Bout | str:
    """The original against itself, or why it is no measure. Raises what the original or its reference raises."""
    known = observe(bout.original, trial)
    reference = trial.reference()
    nudged = nudged_probe(trial, reference, bout.reference)
    if (why := _not_right(trial, known, reference, nudged)) is not None:
        return why
    return Bout(bout.candidate, bout.original, trial, known, reference, known, nudged=nudged)
