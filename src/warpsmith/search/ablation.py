"""Owns what a winner is made of: its source without each of its parts, and which parts bring something. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from warpsmith.contracts.result import AblatedPart
from warpsmith.contracts.variant import Variant
from warpsmith.contracts.verdict import Interval
from warpsmith.source.merging import merged
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.scan import scan
from warpsmith.source.table import without_settings


@dataclass(frozen=True)
class Part:
    """Something that can be taken out of a source. `variants` are the numbers of those that it is all of."""

    name: str
    remove: Callable[[str], str]
    variants: tuple[int, ...] = ()


def parts_of(winner: str, original: str, chain: Sequence[Variant], sources: Mapping[int, str]) -> list[Part]:
    """The parts of a winner: tables of settings, one a jit function, and each variant that is more than settings.

    `chain` is the winner's lineage and `sources` their texts by number, with the original as 0.
    """
    tables = _tables(winner, original)
    settings = [variant for variant in chain if variant.chosen_settings]
    tabled = tuple(variant.number for variant in settings if _is_all_settings(variant, sources))
    found = [
        Part(f"settings of {function}", _without_table_of(function), tabled if len(tables) == 1 else ())
        for function in tables
    ]
    for variant in chain:
        if variant.number not in tabled:
            found.append(Part(variant.title, _undoing(variant, sources), (variant.number,)))
    return found


def without(source: str, parts: Sequence[Part]) -> tuple[str, tuple[Part, ...]]:
    """The source without as many of these parts as can be taken out of it one after the other, and which those are."""
    taken: list[Part] = []
    for part in parts:
        try:
            source = part.remove(source)
        except NotApplicable:
            continue
        taken.append(part)
    return source, tuple(taken)


def brings_something(gain: Interval, noise_floor: float) -> bool:
    """Whether the winner is faster with a part than without it, beyond noise."""
    return gain.low > 1 and gain.value >= 1 + noise_floor


def needless(found: Sequence[AblatedPart]) -> tuple[str, ...]:
    return tuple(part.name for part in found if part.needed is False)


def _tables(winner: str, original: str) -> list[str]:
    """The jit functions whose table of settings the winner has and the original lacks."""
    functions = sorted({knob.jit_function for knob in scan(winner).knobs})
    return [f for f in functions if without_settings(winner, f) != winner and without_settings(original, f) == original]


def _is_all_settings(variant: Variant, sources: Mapping[int, str]) -> bool:
    """Whether a variant differs from what it builds on by tables alone."""
    return _without_all_settings(sources[variant.number]) == _without_all_settings(sources[variant.based_on])


def _without_all_settings(source: str) -> str:
    for function in sorted({knob.jit_function for knob in scan(source).knobs}):
        source = without_settings(source, function)
    return source


def _without_table_of(function: str) -> Callable[[str], str]:
    def remove(source: str) -> str:
        return without_settings(source, function)

    return remove


def _undoing(variant: Variant, sources: Mapping[int, str]) -> Callable[[str], str]:
    def remove(source: str) -> str:
        return merged(sources[variant.number], source, sources[variant.based_on])

    return remove
