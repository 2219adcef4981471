"""One candidate against the original at one case: what both did in their first run, and what is known since.

Owns the first run of a side and what is observed of it. Must not judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from torch import Tensor

from warpsmith.contracts.measurement import CheckFailure, OutputError
from warpsmith.measure.correctness.form import Form, gradient_form, output_form
from warpsmith.measure.correctness.poison import poisoned_memory
from warpsmith.measure.correctness.trial import Results, Trial
from warpsmith.measure.worker.implementation import Implementation


@dataclass(frozen=True)
class Observed:
    """What the first run of a side did.

    `changed`: inputs and output gradients that it wrote -> where. `shared`: (result, input) that lie in one storage.
    """

    outputs: Form
    gradients: Form
    results: Results
    changed: dict[str, str]
    shared: frozenset[tuple[str, str]]


@dataclass
class Bout:
    """Both sides at one case. Checks read it; `errors` and `skipped` are what they leave behind."""

    candidate: Implementation
    original: Implementation
    trial: Trial
    known: Observed
    reference: Results
    found: Observed
    errors: list[OutputError] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


#: Yields every reason that one check has against the candidate. What the candidate raises is a reason too.
Check = Callable[[Bout], Iterator[CheckFailure]]


def observe(implementation: Implementation, trial: Trial, known: Observed | None = None) -> Observed:
    """The first run of a side, with unwritten memory poisoned. Raises what the implementation raises.

    The pass backward is made only where the pass forward did what is `known` of the other side; else there are no
    results.
    """
    with poisoned_memory():
        outputs = trial.forward(implementation)
    form = output_form(outputs)
    changed = trial.changes()
    results: Results = {}
    if known is None or (form == known.outputs and set(changed) <= {*known.changed, *trial.target.overwrites}):
        with poisoned_memory():
            results = trial.backward(implementation, outputs)
    del outputs  # and with them the graph of autograd, which would bind a capture to this stream
    return Observed(
        outputs=form,
        gradients=gradient_form(results),
        results=results,
        changed={**changed, **trial.changes()},
        shared=frozenset(_shared(trial, results)),
    )


def _shared(trial: Trial, results: Results) -> Iterator[tuple[str, str]]:
    for name, part in results.items():
        if isinstance(part, Tensor) and (owner := trial.memory.owner(part)) is not None:
            yield name, owner
