"""What the original supports beside a plain call, the candidate supports: autocast and torch.compile.

Owns both ways of calling, and that nothing of dynamo stays behind. The checks of a first run judge what comes out.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import torch

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import CheckFailure
from warpsmith.measure.correctness import first_run
from warpsmith.measure.correctness.attempts import attempt, attempt_of_original
from warpsmith.measure.correctness.bout import Bout, Observed, observe
from warpsmith.measure.correctness.errors import compared, figures
from warpsmith.measure.correctness.trial import Results, Trial
from warpsmith.measure.worker.implementation import Implementation

#: The dtypes of autocast by type of device.
AUTOCAST_DTYPES = {"cuda": (torch.bfloat16, torch.float16), "cpu": (torch.bfloat16,)}

#: Traces the call and its gradients and runs the graphs without generating code, in tenths of a second. What inductor
#: would add is code for a graph that is right by then, at several seconds for every source.
BACKEND = "aot_eager"

#: Chosen: a hundred times what tracing takes. More is a loop that dynamo unrolls without end.
COMPILE_LIMIT_S = 60.0

#: Chosen, as for the reference when a run begins: an original whose typical error is above this many epsilons of its
#: result's scale is not supported there.
_FAR_EPSILONS = 16.0

_JUDGES = (first_run.inputs, first_run.form, first_run.sharing, first_run.values)


class _TookTooLong(BaseException):
    """What `_at_most` raises. No Exception, so that no handler on its way takes it for one of its own."""


def autocast(bout: Bout) -> Iterator[CheckFailure]:
    """Under autocast, results of the original's form, as near to float64 as the original's are there.

    The first dtype of autocast that the candidate fails under ends it.
    """
    trial, skipped = bout.trial, []
    if not _is_probed(bout, "autocast"):
        return
    trial.refill(trial.seed)  # what the reference is of: checks before this one went on to other values
    for dtype in AUTOCAST_DTYPES.get(trial.device.type, ()):
        context = f"under torch.autocast({trial.device.type!r}, {dtype})"
        original, candidate = (_under_autocast(side, trial, dtype) for side in (bout.original, bout.candidate))
        known = _unless_off(_attempt(original, trial, "autocast"), bout.reference, dtype)
        if isinstance(known, str):
            skipped.append(f"{context} the original {known}")
            bout.skipped["autocast"] = "; ".join(skipped)
            continue
        found = _attempt(candidate, trial, "autocast", known)
        if isinstance(found, str):
            yield CheckFailure(check="autocast", message=f"{context} it {found}; the original does not")
            return
        probe = Bout(candidate, original, trial, known, bout.reference, found)
        if failures := list(_judged("autocast", context, probe)):
            yield from failures
            return


def compiles(bout: Bout) -> Iterator[CheckFailure]:
    """Under torch.compile, forward and backward, right results and no more graph breaks than the original has."""
    trial, context = bout.trial, "under torch.compile"
    if not _is_probed(bout, "compile"):
        return
    if os.environ.get("TRITON_INTERPRET") == "1":
        bout.skipped["compile"] = "kernels are interpreted here, and dynamo would trace the interpreter"
        return
    trial.refill(trial.seed)
    original, ran, known_breaks = _compiled(bout.original, trial)
    known = _unless_off(ran, bout.reference)
    if isinstance(known, str):
        bout.skipped["compile"] = f"{context} the original {known}"
        return
    candidate, found, breaks = _compiled(bout.candidate, trial, known)
    if isinstance(found, str):
        yield CheckFailure(check="compile", message=f"{context} it {found}; the original does not")
        return
    yield from _judged("compile", context, Bout(candidate, original, trial, known, bout.reference, found))
    if len(breaks) > len(known_breaks):
        new = next((each for each in breaks if each not in known_breaks), breaks[0])
        message = f"{context} its graph breaks {len(breaks)} times, the original's {len(known_breaks)} times: {new}"
        yield CheckFailure(check="compile", message=message)


def _is_probed(bout: Bout, check: str) -> bool:
    """Whether this is the smallest case of its dtype, and the target does not leave the check out."""
    if bout.trial.case != smallest_case(bout.trial):
        return False
    if check in bout.trial.target.unprobed:
        bout.skipped[check] = "the target names it in `unprobed`"
        return False
    return True


def smallest_case(trial: Trial) -> Case | None:
    """Of the target's cases of this dtype the one that moves the fewest bytes, not of a single row if there are more.

    None where the target has none that is not empty.
    """

    def size(case: Case) -> tuple[bool, int]:
        return min(case.axes.values(), default=2) < 2, trial.target.cost(case, Mode.FORWARD).bytes_moved

    same = [c for c in trial.target.cases if c.dtype is trial.case.dtype and all(n > 0 for n in c.axes.values())]
    return min(same, key=size, default=None)


def _under_autocast(side: Implementation, trial: Trial, dtype: torch.dtype) -> Implementation:
    """Its calls under autocast; gradients are taken outside, as torch's documentation has it."""

    def call(inputs: Any) -> Any:
        with torch.autocast(trial.device.type, dtype):
            return side.call(inputs)

    return replace(side, call=call)


def _compiled(
    side: Implementation, trial: Trial, known: Observed | None = None
) -> tuple[Implementation, Observed | str, list[str]]:
    """The side compiled, its first run or why there is none, and its graph breaks, each with its reason."""
    from torch._dynamo.utils import counters  # seconds to import, in processes that may never check anything

    with _dynamo_to_itself():
        compiled = replace(side, call=torch.compile(side.call, backend=BACKEND))
        found: Observed | str
        try:
            with _at_most(COMPILE_LIMIT_S):
                found = _attempt(compiled, trial, "compile", known, guarded=False)
        except _TookTooLong:
            found = f"does not finish within {COMPILE_LIMIT_S:g} s"
        reasons = counters["graph_break"].items()
        breaks = [reason.partition("\n")[0] for reason, times in reasons for _ in range(times)]
    return compiled, found, breaks


def _attempt(
    side: Implementation, trial: Trial, check: str, known: Observed | None = None, *, guarded: bool = True
) -> Observed | str:
    """The first run of a side, of the original where nothing is `known`; or what happens instead.

    Raises as `attempts` does.
    """

    def run() -> Observed:
        return observe(side, trial, known, guarded=guarded)

    found = attempt_of_original(run, trial, check) if known is None else attempt(run, trial)
    return f"fails ({found})" if isinstance(found, str) else found


def _unless_off(ran: Observed | str, reference: Results, coarsest: torch.dtype = torch.float64) -> Observed | str:
    """The original's run, if its results lie near float64 by the epsilon of their dtype, or of a coarser one."""
    if isinstance(ran, str):
        return ran
    for name, part in ran.results.items():
        wanted = reference[name]
        if part is None or wanted is None or wanted.numel() == 0 or not part.is_floating_point():
            continue
        error = figures(part, wanted)
        scale = compared(name, error, error, wanted, part.dtype).scale
        epsilon = max(torch.finfo(dtype).eps for dtype in (part.dtype, coarsest))
        if bool((part.isnan() & ~wanted.isnan()).any()) or error.rms > _FAR_EPSILONS * epsilon * scale:
            return "is far from float64"
    return ran


def _judged(check: str, context: str, probe: Bout) -> Iterator[CheckFailure]:
    """What the first check that fails has against the probe."""
    for judge in _JUDGES:
        failures = list(judge(probe))
        for failure in failures:
            yield failure.model_copy(update={"check": check, "message": f"{context}: {failure.message}"})
        if failures:
            return


@contextmanager
def _dynamo_to_itself() -> Iterator[None]:
    """Dynamo with nothing compiled, counted or logged, and as empty afterwards."""
    import torch._dynamo
    from torch._dynamo.utils import counters

    silenced = logging.root.manager.disable
    torch._dynamo.reset()
    counters.clear()
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(silenced)
        torch._dynamo.reset()
        counters.clear()


@contextmanager
def _at_most(limit_s: float) -> Iterator[None]:
    """Raises _TookTooLong out of dynamo past the limit, between two instructions that it traces.

    An alarm would raise anywhere: torch ends the process where that is in Python that it calls from C++.
    """
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase

    deadline, traced = time.monotonic() + limit_s, InstructionTranslatorBase.step

    def step(self: Any) -> bool:
        if time.monotonic() > deadline:
            raise _TookTooLong
        return traced(self)

    with mock.patch.object(InstructionTranslatorBase, "step", step):
        yield
