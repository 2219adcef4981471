"""The best settings that a search finds, written into a source: tables, or configs where Triton's tuner sets them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warpsmith.contracts.base import Settings
from warpsmith.contracts.case import Mode
from warpsmith.search.bench import Bench
from warpsmith.search.strategies.base import Inapplicable, Proposal
from warpsmith.search.tuning.budget import Budget
from warpsmith.search.tuning.choices import knobs_to_search
from warpsmith.search.tuning.driver import tune
from warpsmith.search.tuning.results import Tuning
from warpsmith.search.tuning.writing import Written, write
from warpsmith.source.rewrites import NotApplicable
from warpsmith.source.scan import scan
from warpsmith.source.table import without_settings
from warpsmith.source.tunable import make_tunable

#: Chosen: a search of one jit function may time this much. On an H200 a row kernel at seven cases takes a few seconds.
BUDGET = Budget(device_time_ms=60_000.0)


def tuned(
    bench: Bench,
    source: str,
    places: Sequence[tuple[Mode, str]],
    *,
    inert: frozenset[str] = frozenset(),
    learnings: Iterable[str] = (),
) -> Proposal:
    """`source` with the best settings of these jit functions, each searched in the first pass that is named with it.

    `inert` are the ids of knobs that are known to change nothing. Raises Inapplicable where no settings beat the
    original's, WorkerError where measuring broke down.
    """
    learned = list(learnings)
    first_pass = {jit_function: mode for mode, jit_function in reversed(places)}
    for jit_function in first_pass:  # a table of an earlier sweep would hide what the code itself does
        source = without_settings(source, jit_function)
    audit = scan(source)
    tunings: list[Tuning] = []
    for jit_function, mode in reversed(first_pass.items()):
        knobs, left_out = knobs_to_search(audit.knobs, jit_function, inert)
        learned += left_out
        if knobs:
            try:
                tunable = bench.keep(f"tunable_{jit_function}", make_tunable(source, knobs))
            except NotApplicable as reason:
                learned.append(f"{jit_function} was not searched: {reason}")
                continue
            tunings.append(tune(bench, tunable, knobs, mode, BUDGET))
    written = write(source, tunings, bench.spec.plot_axis, bench.device)
    learned += [*_said(tunings), *written.reasons]
    if not written.changes:
        nothing = "no settings were better than the original's at any tuning case"
        raise Inapplicable("; ".join(dict.fromkeys([*learned, nothing])))
    return _proposal(source, tunings, written, learned)


def _proposal(source: str, tunings: Sequence[Tuning], written: Written, learned: Sequence[str]) -> Proposal:
    return Proposal(
        source=written.source,
        changes=written.changes,
        chosen_settings=_chosen(tunings),
        sweeps=tuple(tunings),
        tables=written.tables,
        table_base=written.base,
        learnings=tuple(dict.fromkeys(learned)),
    )


def _said(tunings: Iterable[Tuning]) -> list[str]:
    """What a person learns of the searches beside their winners."""
    said: list[str] = []
    for tuning in tunings:
        said += [f"{knob.name} cannot matter: all its values give one machine code" for knob in tuning.inert_knobs]
        said += tuning.notes
        if tuning.stopped is not None:
            said.append(f"the search of {tuning.mode.value} ended early: {tuning.stopped}")
    return said


def _chosen(tunings: Iterable[Tuning]) -> dict[str, Settings]:
    """By case, what was fastest there in the full comparison; nothing where that was the original."""
    chosen: dict[str, Settings] = {}
    for tuning in tunings:
        for found in tuning.cases:
            if best := found.best[0]:
                chosen.setdefault(found.case.name, {}).update(best)
    return chosen
