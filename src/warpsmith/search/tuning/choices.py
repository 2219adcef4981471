"""Which knobs of a jit function a search turns, and which it leaves, with the reason."""

from __future__ import annotations

from collections.abc import Iterable

from warpsmith.contracts.audit import Knob, KnobOrigin
from warpsmith.search.tuning.values import KINDS, searchable


def knobs_to_search(
    knobs: Iterable[Knob], jit_function: str, inert: frozenset[str]
) -> tuple[tuple[Knob, ...], list[str]]:
    """The knobs of this jit function that are searched together, and what there is to say of others.

    Where Triton's tuner sets some, those are searched and no others: what wins becomes a config, and one config has a
    value for each of them.
    """
    own = [knob for knob in knobs if knob.jit_function == jit_function]
    free = [knob for knob in searchable(own, [jit_function]) if knob.id not in inert]
    said = [f"{knob.id} was not searched: {knob.why_not}" for knob in own if _matters(knob)]
    if tuner := tuple(knob for knob in free if knob.origin is KnobOrigin.AUTOTUNE):
        beside = [knob.name for knob in free if knob.origin is not KnobOrigin.AUTOTUNE and not knob.is_unset_cap]
        if beside:
            said.append(
                f"{', '.join(beside)} of {jit_function} stay as they are: its autotune decorator sets the others"
            )
        return tuner, said
    for knob in free:
        if knob.is_set_by_decorator:
            said.append(f"{knob.id} was not searched: a decorator in line {knob.line} sets it, and no table could")
    return tuple(knob for knob in free if not knob.is_set_by_decorator), said


def _matters(knob: Knob) -> bool:
    """Whether a knob would be searched if it could be changed."""
    return not knob.tunable and knob.kind in KINDS and not knob.is_unset_cap and knob.why_not is not None
