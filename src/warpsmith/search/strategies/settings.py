"""Settings: warps, stages, blocks, register caps and the number of programs, searched per case and written down.

Why: a heuristic that was stepped by hand fits the GPU and the shapes it was stepped on. A row-looping kernel
with one program a SM leaves most warp slots empty, so memory latency is not hidden; too many programs cost
partial sums. Both ends of the trade depend on the shape, so the winner is a table and not a number. A kernel that
Triton's tuner sets gets further configs for the tuner to choose from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from warpsmith.contracts.base import Settings
from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Bottleneck
from warpsmith.search.bench import Bench
from warpsmith.search.strategies.base import Ground, Inapplicable, Proposal
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


@dataclass(frozen=True)
class SettingsSweep:
    name: str = "settings"
    title: str = "Launch settings by GPU and shape"
    hypothesis: str = (
        "The launch settings come from a stepped heuristic and one SM count; measured per shape, other numbers of "
        "warps and programs keep more loads in flight."
    )

    def propose(self, ground: Ground) -> Proposal:
        return swept(ground, ground.source)


def swept(ground: Ground, source: str, only: Collection[str] | None = None) -> Proposal:
    """`source` with the best settings of each pass of the goal; of the jit functions in `only`, if given.

    Raises Inapplicable where no settings beat the original's, WorkerError where measuring broke down.
    """
    learnings: list[str] = []
    places = [
        (mode, jit_function)
        for mode in passes_with_headroom(ground, learnings)
        for jit_function in sorted(launched_in(ground, mode))
        if only is None or jit_function in only
    ]
    return tuned(ground.bench, source, places, inert=ground.inert, learnings=learnings)


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


def passes_with_headroom(ground: Ground, learnings: list[str]) -> list[Mode]:
    """The passes of the goal that are not near their ceiling; what is left alone goes to `learnings`."""
    passes: list[Mode] = []
    for mode in ground.profile.goal.passes:
        if mode not in ground.bench.spec.modes:
            continue
        profile = ground.profile.mode_profile(mode)
        if profile.bottleneck is Bottleneck.NEAR_PEAK:
            learnings.append(f"{mode.value} was left alone: it reaches {profile.share_of_ceiling:.0%} of its ceiling")
        else:
            passes.append(mode)
    return passes


def launched_in(ground: Ground, mode: Mode) -> set[str]:
    """The jit functions that the original launches in this mode."""
    return {launch.jit_function for by_mode in ground.profile.launches.values() for launch in by_mode.get(mode, ())}
