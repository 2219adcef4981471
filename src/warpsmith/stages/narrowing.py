"""Judges a proposal, and where its tables help some cases and harm others, judges it again without what harms."""

from __future__ import annotations

from collections.abc import Callable

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.verdict import Outcome, Verdict
from warpsmith.search.bench import Bench
from warpsmith.search.strategies.base import Proposal, narrow
from warpsmith.search.sweep import Sweep
from warpsmith.search.table import row_count
from warpsmith.search.tuning.narrowing import narrowed, sizes_at
from warpsmith.search.tuning.results import Tuning
from warpsmith.source.table import SettingsTable
from warpsmith.stages.judge import Judgement, judge
from warpsmith.stages.rules import Rules, Standing


def judge_proposal(
    bench: Bench, rules: Rules, original_text: str, proposal: Proposal, placed: Callable[[Proposal], Standing]
) -> tuple[Proposal, Judgement]:
    """The judgement, and the proposal that it is of. `placed` writes a proposal to where it is judged."""
    judgement = judge(bench, placed(proposal), rules, original_text)
    if judgement.verdict is None or judgement.verdict.outcome is not Outcome.MIXED or not proposal.tables:
        return proposal, judgement
    narrower = _without_what_harms(bench, proposal, judgement.verdict)
    if narrower is None:
        return proposal, judgement
    standing = placed(narrower)
    bench.report(f"{standing.name}: mixed; judged again without the bands that were slower")
    return narrower, judge(bench, standing, rules, original_text)


def _without_what_harms(bench: Bench, proposal: Proposal, verdict: Verdict) -> Proposal | None:
    """The proposal whose tables leave the cases that regressed to the original. None where nothing would be left."""
    spec, tables = bench.spec, list(proposal.tables)
    searches: tuple[Sweep | Tuning, ...] = (*proposal.sweeps, *proposal.tunings)
    modes = {knob.jit_function: search.mode for search in searches for knob in search.knobs}
    for found in verdict.cases:
        if found.regressed:
            case, at_fault = spec.case(found.case), _passes_at_fault(verdict, found.case)
            tables = [_around(t, case, spec.plot_axis) if modes[t.jit_function] in at_fault else t for t in tables]
    tables = [table for table in tables if table.bands]
    return narrow(proposal, tables) if tables and tables != list(proposal.tables) else None


def _around(table: SettingsTable, case: Case, width_axis: str) -> SettingsTable:
    """The table with the original at this case. One that does not say what its sizes are has width and rows."""
    if table.basis is None:
        return narrowed(table, (case.axes[width_axis], row_count(case, width_axis)))
    return narrowed(table, sizes_at(table, case))


def _passes_at_fault(verdict: Verdict, case: str) -> set[Mode]:
    """The passes that are slower at a case that regressed; every pass where none is slower by itself."""
    passes = {c.mode: c.speedup.value for c in verdict.cases if c.case == case and c.mode is not Mode.FULL}
    return {mode for mode, speedup in passes.items() if speedup < 1} or set(Mode)
