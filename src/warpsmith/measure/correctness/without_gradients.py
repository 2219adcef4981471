"""Calls that no gradient is asked of, as in inference: inputs that require none, no_grad and inference_mode.

Owns these three ways of calling. The original decides, as in every probe.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from warpsmith.contracts.measurement import CheckFailure
from warpsmith.measure.correctness.bout import Bout
from warpsmith.measure.correctness.probing import probed
from warpsmith.measure.correctness.support import smallest_case
from warpsmith.measure.correctness.trial import Trial
from warpsmith.measure.worker.implementation import Implementation

_WAYS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "inputs that require no gradient": nullcontext,
    "torch.no_grad": torch.no_grad,
    "torch.inference_mode": torch.inference_mode,
}


def without_gradients(bout: Bout) -> Iterator[CheckFailure]:
    """All that a first run betrays, at the smallest case of a dtype. The first way that the candidate fails ends it."""
    if bout.trial.case != smallest_case(bout.trial):
        return
    for what, context in _WAYS.items():
        original, candidate = (_within(side, context) for side in (bout.original, bout.candidate))
        probe = replace(bout, candidate=candidate, original=original)
        make = partial(_asking_nothing, bout.trial)
        if failures := list(probed(probe, "no gradients", what, make)):
            yield from failures
            return


def _within(side: Implementation, context: Callable[[], AbstractContextManager[Any]]) -> Implementation:
    def call(inputs: Any) -> Any:
        with context():
            return side.call(inputs)

    return replace(side, call=call)


def _asking_nothing(trial: Trial) -> Trial:
    trial.restore()
    inputs = {name: each.detach() if isinstance(each, Tensor) else each for name, each in trial.inputs.items()}
    return replace(trial, inputs=inputs, differentiated=(), output_gradients={})
