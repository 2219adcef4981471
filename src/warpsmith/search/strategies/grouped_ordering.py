"""Grouped ordering: tiles of a matrix product are walked in groups, so that neighbours in time share both operands.

Why: programs start in the order of the grid. A wave that walks one row of tiles shares the row's operand and reads
every column of the other; a wave that covers a square reads fewer different parts of both, and L2 holds them. How
many tiles make a group depends on the shape and on the tiles' sizes, so it becomes a constexpr of the kernel that is
swept with the rest. Where Triton's tuner sets those, a few sizes are compared under it instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.contracts.case import Mode
from warpsmith.search.strategies.alternatives import best_alternative, pays, told
from warpsmith.search.strategies.base import Card, Ground, Inapplicable, Proposal
from warpsmith.search.strategies.settings import launched_in, passes_with_headroom, swept
from warpsmith.source.launches import read
from warpsmith.source.rewrites import NotApplicable, group_tiles
from warpsmith.source.rewrites.grouping import GROUP_PARAMETER

CARD = Card(
    name="grouped_ordering",
    title="Walk tiles in groups that share operands",
    applies="a launched kernel below its ceiling multiplies tiles whose two operands depend on one program id each, "
    "and takes these ids from two axes of its grid or from one that it divides",
    hypothesis="Programs that run together share one operand only; in groups they share both, so that L2 answers more "
    "loads and DRAM fewer.",
    expected="at most a tenth of the kernel's time: Triton's tutorial tells of 220 to 245 TFLOPS on an A100; nothing "
    "where both operands fit L2",
    risk="a kernel that learns of its place elsewhere would compute a tile twice; whatever reads a program's place in "
    "another way, or waits for other programs, is refused",
    takes_up=(OpportunityKind.UNGROUPED_TILES,),
    searches_settings=True,
)
#: Chosen, where nothing else is swept with it: around the 8 that tutorials and libraries have.
SIZES = (4, 8, 16)


@dataclass(frozen=True)
class GroupedOrdering:
    card: Card = CARD

    def propose(self, ground: Ground) -> Proposal:
        """Raises Inapplicable where no kernel's tiles are free to change places, or none is faster for it;
        WorkerError."""
        learnings: list[str] = []
        jits = read(ground.source).jits
        places = [
            (mode, function)
            for mode in passes_with_headroom(ground, learnings)
            for function in sorted(self._ungrouped(ground) & launched_in(ground, mode))
        ]
        tuned = [(mode, function) for mode, function in places if jits[function].autotune is not None]
        free = {place[1] for place in places if place not in tuned}
        source, changes = _under_its_tuner(ground, tuned, learnings)
        swept_too = _swept(ground, source, free, learnings) if free else None
        if swept_too is not None:
            return replace(
                swept_too,
                changes=(*changes, *swept_too.changes),
                learnings=tuple(dict.fromkeys([*learnings, *swept_too.learnings])),
            )
        if not changes:
            if not places:
                learnings.append("no launched kernel has tiles that share operands and are free to change places")
            raise Inapplicable("; ".join(dict.fromkeys(learnings)))
        return Proposal(source=source, changes=tuple(changes), learnings=tuple(learnings))

    def _ungrouped(self, ground: Ground) -> set[str]:
        return {o.function for o in ground.audit.opportunities if o.kind in self.card.takes_up}


def _under_its_tuner(ground: Ground, places: Iterable[tuple[Mode, str]], learnings: list[str]) -> tuple[str, list[str]]:
    """The source with a group's size as the default of each kernel for which one is faster."""
    source, changes = ground.source, list[str]()
    for mode, function in places:
        try:
            alternatives = {f"group_of_{size}_{function}": group_tiles(source, function, size) for size in SIZES}
            best, speedups = best_alternative(ground.bench, source, alternatives, mode)
        except (NotApplicable, ValueError) as reason:
            learnings.append(f"{function}: {reason}")
            continue
        if pays(speedups[best]):
            source = alternatives[best]
            size = best.removeprefix("group_of_").partition("_")[0]
            changes.append(f"{function}: tiles in groups of {size}")
        else:
            learnings.append(f"groups of tiles bring nothing to {function} in {mode.value}: {told(speedups[best])}")
    return source, changes


def _swept(ground: Ground, source: str, functions: set[str], learnings: list[str]) -> Proposal | None:
    """The source whose kernels' groups are swept with their other settings; None where no case wants a group."""
    grouped: set[str] = set()
    for function in sorted(functions):
        try:
            source = group_tiles(source, function)
        except NotApplicable as reason:
            learnings.append(f"{function}: {reason}")
        else:
            grouped.add(function)
    if not grouped:
        return None
    try:
        proposal = swept(ground, source, only=grouped)
    except Inapplicable as reason:
        learnings.append(str(reason))
        return None
    ids = {f"{function}.{GROUP_PARAMETER}" for function in grouped}
    if not any((settings.get(knob) or 1) > 1 for settings in proposal.chosen_settings.values() for knob in ids):
        learnings.append(f"no tuning case is fastest with tiles in groups, of {' and '.join(sorted(grouped))}")
        return None
    return proposal
