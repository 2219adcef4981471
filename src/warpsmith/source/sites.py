"""A knob at one launch: how the source sets it, and where an override stands. Judges no kind of knob."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from warpsmith.contracts.audit import KnobKind, KnobOrigin
from warpsmith.source.context import kept_on_context
from warpsmith.source.launches import Launch
from warpsmith.source.origins import origin_of
from warpsmith.source.places import (
    Place,
    Spot,
    reaching_assignment,
    spot_of_expression,
    spot_of_literal,
    spot_of_name,
)
from warpsmith.source.syntax import Source, parameters_of, statement_told

#: What multiplies nothing and replaces the source's value, whatever that is.
_SIZES_THINGS = frozenset({KnobKind.BLOCK_TILING, KnobKind.PROGRAMS})


@dataclass(frozen=True)
class Site:
    """A knob at one launch. `default` is the value that holds where the source gives none.

    `listed` are the values in the configs of an autotune decorator. A caller's choice holds: `only_if` is the default
    that a parameter must have for an override to replace it, and an override `yields` to the dictionary's own entry.
    """

    launch: Launch
    name: str
    kind: KnobKind
    origin: KnobOrigin
    expression: str
    line: int
    spot: Spot
    default: int | None = None
    refused: str | None = None
    listed: tuple[int, ...] = ()
    only_if: str | None = None
    yields: bool = False

    @property
    def id(self) -> str:
        return f"{self.launch.jit_name}.{self.name}"

    @property
    def multiplies(self) -> bool:
        """Whether the knob's value multiplies what the source computes, and does not replace it."""
        return self.kind is KnobKind.PROGRAMS_PER_SM

    @property
    def why_not(self) -> str | None:
        return self.refused or self.spot.refused


def given(source: Source, launch: Launch, name: str, kind: KnobKind, expression: ast.expr) -> Site:
    """A knob that the launch gives, by an expression of any form."""
    told, line = ast.unparse(expression), expression.lineno
    sizes_things = kind in _SIZES_THINGS
    origin, refused = KnobOrigin.OTHER, None
    if isinstance(expression, ast.Constant):
        spot = spot_of_literal(source, launch, expression, sizes_things=sizes_things)
        origin = KnobOrigin.LITERAL
        if type(expression.value) is not int:
            refused = f"{told} is no whole number"
    elif isinstance(expression, ast.Name):
        spot = spot_of_name(source, launch, expression.id, sizes_things=sizes_things)
        origin, told, line = _origin_of_name(spot, expression.id, told, line)
    else:
        spot = spot_of_expression(launch, expression, sizes_things=sizes_things)
        origin = origin_of(expression)
        if any(isinstance(node, ast.NamedExpr) for node in ast.walk(expression)):
            refused = f"line {line}: it is assigned within the launch"
    if (carried := kept_on_context(source, launch, expression)) is not None:
        origin, told = KnobOrigin.CONTEXT, carried
    return Site(launch, name, kind, origin, told, line, spot, refused=refused)


def refused_site(launch: Launch, name: str, kind: KnobKind, told: tuple[KnobOrigin, str, int], why: str) -> Site:
    """A site that cannot be changed; `told` says how it is set, in words, and in which line."""
    origin, text, line = told
    return Site(launch, name, kind, origin, text, line, Spot(Place.IN_PLACE, line), refused=why)


def origin_of_entry(source: Source, launch: Launch, value: ast.expr) -> tuple[KnobOrigin, str]:
    """How a dictionary's entry is set, and its text: by the variable that it holds, where it holds one."""
    if (carried := kept_on_context(source, launch, value)) is not None:
        return KnobOrigin.CONTEXT, carried
    statement = reaching_assignment(source, launch, value.id) if isinstance(value, ast.Name) else None
    if isinstance(value, ast.Name) and statement is not None:
        return origin_of(statement, value.id), statement_told(statement)
    if isinstance(value, ast.Name) and value.id in parameters_of(launch.scope):
        return KnobOrigin.PARAMETER, value.id
    return origin_of(value), ast.unparse(value)


def _origin_of_name(spot: Spot, name: str, told: str, line: int) -> tuple[KnobOrigin, str, int]:
    if spot.place is Place.ENTRY:
        return KnobOrigin.PARAMETER, told, spot.line
    if spot.place is Place.AFTER and spot.statement is not None:
        return origin_of(spot.statement, name), statement_told(spot.statement), spot.line
    return KnobOrigin.OTHER, told, line
