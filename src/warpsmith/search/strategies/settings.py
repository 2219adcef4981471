"""Settings: num_warps, num_stages, blocks and the number of programs, swept per case and written as a table.

Why: a heuristic that was stepped by hand fits the GPU and the shapes it was stepped on. A row-looping kernel
with one program a SM leaves most warp slots empty, so memory latency is not hidden; too many programs cost
partial sums. Both ends of the trade depend on the shape, so the winner is a table and not a number.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from warpsmith.contracts.audit import SourceAudit
from warpsmith.contracts.base import Settings
from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Bottleneck
from warpsmith.search.space import sweepable
from warpsmith.search.strategies.base import Ground, Inapplicable, Proposal
from warpsmith.search.sweep import Sweep, sweep
from warpsmith.search.table import NoTable, settings_table
from warpsmith.search.tuning.writing import told
from warpsmith.source.rewrites import NotApplicable
from warpsmith.source.scan import scan
from warpsmith.source.table import SettingsTable, without_settings, write_table
from warpsmith.source.tunable import make_tunable


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
    """`source` with a table of the best settings of each pass of the goal; of the jit functions in `only`, if given.

    Raises Inapplicable where no settings beat the original's, WorkerError where measuring broke down.
    """
    learnings: list[str] = []
    swept_functions = [
        (mode, jit_function)
        for mode in passes_with_headroom(ground, learnings)
        for jit_function in sorted(launched_in(ground, mode))
        if only is None or jit_function in only
    ]
    for _, jit_function in swept_functions:  # a table of an earlier sweep would hide what the code itself does
        source = without_settings(source, jit_function)
    audit = scan(source)
    sweeps = _sweeps(ground, source, audit, swept_functions)
    tables: list[SettingsTable] = []
    for found in sweeps:
        learnings += [f"{k.name} cannot matter: all its values give one machine code" for k in found.inert_knobs]
        try:
            if found.knobs and found.cases:
                tables.append(settings_table(found, ground.bench.spec.plot_axis, ground.bench.device))
        except NoTable as reason:
            learnings.append(str(reason))
    tables = [table for table in tables if table.bands]
    learnings = list(dict.fromkeys(learnings))
    if not tables:
        raise Inapplicable("; ".join([*learnings, "no settings were better than the original's at any tuning case"]))
    try:
        written = write_table(source, audit, tables)
    except NotApplicable as reason:
        raise Inapplicable("; ".join([*learnings, str(reason)])) from reason
    return Proposal(
        source=written,
        changes=tuple(told(table) for table in tables),
        chosen_settings=_chosen(sweeps),
        sweeps=tuple(sweeps),
        tables=tuple(tables),
        table_base=source,
        learnings=tuple(learnings),
    )


def _sweeps(ground: Ground, source: str, audit: SourceAudit, functions: Sequence[tuple[Mode, str]]) -> list[Sweep]:
    """A sweep of each jit function that has knobs left to turn. Raises WorkerError."""
    sweeps: list[Sweep] = []
    for mode, jit_function in functions:
        knobs = [k for k in sweepable(audit.knobs, [jit_function]) if k.id not in ground.inert]
        if knobs:
            tunable = ground.bench.keep(f"tunable_{jit_function}", make_tunable(source, knobs))
            sweeps.append(sweep(ground.bench, tunable, knobs, mode))
    return sweeps


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


def _chosen(sweeps: list[Sweep]) -> dict[str, Settings]:
    chosen: dict[str, Settings] = {}
    for found in sweeps:
        for case_sweep in (c for c in found.cases if c.finalists):
            chosen.setdefault(case_sweep.case.name, {}).update(case_sweep.best[0])
    return chosen
