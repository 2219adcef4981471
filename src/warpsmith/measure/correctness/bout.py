"""One candidate against the original at one case: what both did in their first run, and what is known since.

Owns the first run of a side and what is observed of it. Must not judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from warpsmith.contracts.measurement import CheckFailure, OutputError
from warpsmith.measure.correctness.allocations import GuardedAllocations, Poison
from warpsmith.measure.correctness.form import Form, gradient_form, output_form
from warpsmith.measure.correctness.launched import Launches, watched_launches
from warpsmith.measure.correctness.surroundings import Surroundings
from warpsmith.measure.correctness.switches import random_states
from warpsmith.measure.correctness.trial import Results, Trial
from warpsmith.measure.worker.implementation import Implementation


@dataclass(frozen=True)
class Observed:
    """What the first run of a side did.

    `changed`: inputs and output gradients that it wrote -> where. `shared`: (result, input) that lie in one storage.
    `violations`: what it wrote out of bounds. `operations`: the operators that it called, such as "aten::mm".
    `launches`: the jit functions that it launched, by pass, "forward" and "backward". `random`: the generators that
    everything shares and that it drew from or seeded.
    """

    outputs: Form
    gradients: Form
    results: Results
    changed: dict[str, str]
    shared: frozenset[tuple[str, str]]
    violations: tuple[str, ...] = ()
    operations: frozenset[str] = frozenset()
    launches: Mapping[str, Launches] = field(default_factory=dict)
    random: frozenset[str] = frozenset()


@dataclass
class Bout:
    """Both sides at one case. Checks read it; `errors` and `skipped` are what they leave behind."""

    candidate: Implementation
    original: Implementation
    trial: Trial
    known: Observed
    reference: Results
    found: Observed
    #: as they were before the candidate; None is not watched
    surroundings: Surroundings | None = None
    #: the reference after a few roundings of the inputs, where a candidate may err by as much as that moves it
    nudged: Results = field(default_factory=dict)
    errors: list[OutputError] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


#: Yields every reason that one check has against the candidate. What the candidate raises is a reason too.
Check = Callable[[Bout], Iterator[CheckFailure]]


def observe(
    implementation: Implementation, trial: Trial, known: Observed | None = None, *, guarded: bool = True
) -> Observed:
    """The first run of a side, its allocations poisoned and guarded. Raises what the implementation raises.

    The pass backward is made only where the pass forward did what is `known` of the other side; else there are no
    results. torch.compile is put out of action by what guards allocations: without it, what they would tell and the
    operations are left out.
    """
    allocations = GuardedAllocations(Poison.NOT_A_NUMBER, trial.guard_bytes)
    within = allocations if guarded else None
    generators = random_states(trial.device)
    with watched_launches() as forward:
        outputs = trial.forward(implementation, within)
    launches = {"forward": forward}
    form = output_form(outputs)
    changed = trial.changes()
    results: Results = {}
    if known is None or (form == known.outputs and set(changed) <= {*known.changed, *trial.target.overwrites}):
        with watched_launches() as backward:
            results = trial.backward(implementation, outputs, within)
        launches["backward"] = backward
    del outputs  # and with them the graph of autograd, which would bind a capture to this stream
    return Observed(
        outputs=form,
        gradients=gradient_form(results),
        results=trial.kept(results),
        changed={**changed, **trial.changes()},
        shared=frozenset(_shared(trial, results)),
        violations=(*allocations.violations(), *trial.violations()),
        operations=frozenset(allocations.operations),
        launches=launches,
        random=frozenset(name for name, state in random_states(trial.device).items() if state != generators[name]),
    )


def _shared(trial: Trial, results: Results) -> Iterator[tuple[str, str]]:
    for name, part in results.items():
        if isinstance(part, Tensor) and (owner := trial.memory.owner(part)) is not None:
            yield name, owner
