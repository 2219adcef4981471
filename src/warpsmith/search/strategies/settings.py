"""Settings: warps, stages, blocks, register caps and the number of programs, searched per case and written down.

Why: a heuristic that was stepped by hand fits the GPU and the shapes it was stepped on. A row-looping kernel
with one program a SM leaves most warp slots empty, so memory latency is not hidden; too many programs cost
partial sums. Both ends of the trade depend on the shape, so the winner is a table and not a number. A kernel that
Triton's tuner sets gets further configs for the tuner to choose from.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Bottleneck
from warpsmith.search.strategies.base import Card, Ground, Proposal
from warpsmith.search.strategies.tuned import tuned

CARD = Card(
    name="settings",
    title="Launch settings by GPU and shape",
    applies="a pass below its ceiling launches a kernel with a knob whose values compile to different machine code",
    hypothesis="The launch settings come from a stepped heuristic and one SM count; measured per shape, other numbers "
    "of warps and programs keep more loads in flight.",
    expected="a fifth to seven tenths of the headroom where latency or the grid holds it back: 1.0 to 2.0 times as "
    "fast for Liger-Kernel's row kernels on an H200",
    risk="a band that was tuned at few shapes harms others; held-out cases between the tuned ones would show it, and "
    "outside the bands the original's own expressions hold",
    takes_up=(OpportunityKind.ONE_PROGRAM_PER_SM, OpportunityKind.STEPPED_WARPS, OpportunityKind.SHORT_ROWS),
    searches_settings=True,
)


@dataclass(frozen=True)
class SettingsSweep:
    card: Card = CARD

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
