"""The knobs of every launch: how each is set today, and where an override of it takes effect.

A knob is one id; it has a site at every launch of its jit function. One variable that feeds several launches of a
function is one knob, that of the first; the others are tied to it. Must not know what values are tried.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from warpsmith.contracts.audit import Knob, KnobKind, KnobOrigin
from warpsmith.source.blocks import block_kind
from warpsmith.source.context import kept_on_context
from warpsmith.source.dictionaries import dictionary_spot, only_entry
from warpsmith.source.launches import Launch, Reading
from warpsmith.source.origins import origin_of
from warpsmith.source.places import (
    Place,
    Spot,
    reaching_assignment,
    spot_of_expression,
    spot_of_literal,
    spot_of_name,
)
from warpsmith.source.sm_count import sm_count_spot
from warpsmith.source.syntax import parameters_of, statement_told

#: What Triton takes on NVIDIA where a launch says nothing (triton/backends/nvidia/compiler.py, CUDAOptions).
TRITON_DEFAULTS = {"num_warps": 4, "num_stages": 3}
_OPTION_KINDS = {
    "num_warps": KnobKind.NUM_WARPS,
    "num_stages": KnobKind.NUM_STAGES,
    "maxnreg": KnobKind.MAXNREG,
}
_NOT_A_BLOCK = re.compile(r"^(NUM|HAS|USE|IS|N|MAX|TOTAL)_|BLOCKS|BLOCK_(PTR|TABLE|IDX|ID)", re.IGNORECASE)
_PROGRAMS = "programs_per_sm"


@dataclass(frozen=True)
class Site:
    """A knob at one launch. `default` is the value that holds where the source gives none."""

    launch: Launch
    name: str
    kind: KnobKind
    origin: KnobOrigin
    expression: str
    line: int
    spot: Spot
    default: int | None = None
    refused: str | None = None

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


def sites(reading: Reading) -> list[Site]:
    """Every knob at every launch, in source order, with those that are tied to another refused."""
    found = [site for launch in reading.launches for site in _sites_of(reading, launch)]
    return _tie(found)


def knobs(found: Iterable[Site]) -> tuple[Knob, ...]:
    """One contract a knob id. It is tunable if it is at any of its launches."""
    by_id: dict[str, Site] = {}
    for site in found:
        if site.id not in by_id or (by_id[site.id].why_not and not site.why_not):
            by_id[site.id] = site
    return tuple(_knob(site) for site in by_id.values())


def _knob(site: Site) -> Knob:
    return Knob(
        id=site.id,
        kind=site.kind,
        jit_function=site.launch.jit_name,
        host_function=site.launch.host_function,
        name=site.name,
        origin=site.origin,
        variable=site.spot.target,
        line=site.line,
        anchor_line=site.spot.line,
        expression=site.expression,
        tunable=site.why_not is None,
        why_not=site.why_not,
    )


def _sites_of(reading: Reading, launch: Launch) -> Iterator[Site]:
    for name in ("num_warps", "num_stages"):
        yield _option(reading, launch, name)
    if launch.argument("maxnreg") is not None:
        yield _option(reading, launch, "maxnreg")
    for name in _block_names(launch):
        yield _block(reading, launch, name)
    spot = sm_count_spot(reading.source, launch)
    if spot is not None:
        told = statement_told(spot.statement) if isinstance(spot.statement, ast.Assign) else "multi_processor_count"
        yield Site(launch, _PROGRAMS, KnobKind.PROGRAMS_PER_SM, KnobOrigin.SM_COUNT, told, spot.line, spot)


def _option(reading: Reading, launch: Launch, name: str) -> Site:
    """num_warps, num_stages or maxnreg at one launch."""
    kind = _OPTION_KINDS[name]
    if launch.jit is not None and launch.jit.autotune is not None:
        return _set_by_autotune(launch, name, kind)
    if launch.jit is not None and (line := launch.jit.heuristics_line(name)) is not None:
        return _set_by_heuristics(launch, name, kind, line)
    expression = launch.argument(name)
    if expression is not None:
        return _given(reading, launch, name, kind, expression)
    in_dictionary = dictionary_spot(reading.source, launch, name)
    default = TRITON_DEFAULTS[name]
    if in_dictionary is not None:
        spot, value = in_dictionary
        if value is None:
            return Site(launch, name, kind, KnobOrigin.ABSENT, str(default), spot.line, spot, default)
        origin, told = _origin_of_entry(reading, launch, value)
        return Site(launch, name, kind, origin, told, spot.line, spot)
    spot = Spot(Place.KEYWORD, launch.line)
    return Site(launch, name, kind, KnobOrigin.ABSENT, str(default), launch.line, spot, default)


def _origin_of_entry(reading: Reading, launch: Launch, value: ast.expr) -> tuple[KnobOrigin, str]:
    """How a dictionary's entry is set, and its text: by the variable that it holds, where it holds one."""
    if (carried := kept_on_context(reading.source, launch, value)) is not None:
        return KnobOrigin.CONTEXT, carried
    statement = reaching_assignment(reading.source, launch, value.id) if isinstance(value, ast.Name) else None
    if isinstance(value, ast.Name) and statement is not None:
        return origin_of(statement, value.id), statement_told(statement)
    if isinstance(value, ast.Name) and value.id in parameters_of(launch.scope):
        return KnobOrigin.PARAMETER, value.id
    return origin_of(value), ast.unparse(value)


def _set_by_heuristics(launch: Launch, name: str, kind: KnobKind, line: int) -> Site:
    assert launch.jit is not None
    told = ast.unparse(launch.jit.heuristics[name]) if name in launch.jit.heuristics else "heuristics"
    may = "sets it" if name in launch.jit.heuristics else "may set it"
    return Site(
        launch, name, kind, KnobOrigin.OTHER, told, line, Spot(Place.IN_PLACE, line),
        refused=f"the heuristics decorator in line {line} {may}, whatever the launch says",
    )  # fmt: skip


def _set_by_autotune(launch: Launch, name: str, kind: KnobKind) -> Site:
    assert launch.jit is not None and launch.jit.autotune is not None
    line = launch.jit.autotune.lineno
    return Site(
        launch, name, kind, KnobOrigin.AUTOTUNE, "autotune", line, Spot(Place.IN_PLACE, line),
        refused=f"the autotune decorator in line {line} sets it",
    )  # fmt: skip


def _block_names(launch: Launch) -> list[str]:
    """Constexprs that are named like blocks; for an imported kernel, keywords that are."""
    if launch.jit is not None:
        names = [p for p in launch.jit.parameters if p in launch.jit.constexprs]
    else:
        names = [k.arg for k in launch.call.keywords if k.arg is not None]
    stages = launch.jit.loop_stages if launch.jit is not None else frozenset()
    return [n for n in names if n in stages or ("BLOCK" in n.upper() and not _NOT_A_BLOCK.search(n))]


def _block(reading: Reading, launch: Launch, name: str) -> Site:
    """A block, or the stages of a loop in the kernel, at one launch."""
    jit = launch.jit
    is_stages = jit is not None and name in jit.loop_stages
    kind = KnobKind.LOOP_STAGES if is_stages else KnobKind.BLOCK_TILING
    if jit is not None and (line := jit.heuristics_line(name)) is not None:
        return _set_by_heuristics(launch, name, kind, line)
    expression = launch.argument(name)
    if expression is not None:
        site = _given(reading, launch, name, kind, expression)
    elif (entry := only_entry(launch, name)) is not None:
        expression = entry
        site = _given(reading, launch, name, kind, entry)
    elif jit is not None and jit.autotune is not None:
        return _set_by_autotune(launch, name, kind)
    else:
        return _not_given(launch, name, kind)
    return site if is_stages else _as_block(reading, site, expression)


def _not_given(launch: Launch, name: str, kind: KnobKind) -> Site:
    """A constexpr that the launch leaves to the kernel's own default, or hides behind * or **."""
    default = launch.jit.defaults.get(name) if launch.jit is not None else None
    hidden = launch.has_star or launch.dictionaries
    if isinstance(default, ast.Constant) and type(default.value) is int and not hidden and kind is KnobKind.LOOP_STAGES:
        spot = Spot(Place.KEYWORD, launch.line)
        return Site(launch, name, kind, KnobOrigin.ABSENT, str(default.value), launch.line, spot, default.value)
    refused = "it is hidden behind * or **" if hidden else "the launch does not give it"
    told = ast.unparse(default) if default is not None else "not given"
    return Site(
        launch, name, kind, KnobOrigin.OTHER, told, launch.line, Spot(Place.IN_PLACE, launch.line), refused=refused
    )


def _as_block(reading: Reading, site: Site, expression: ast.expr | None) -> Site:
    covering, refused = block_kind(reading, site.launch, site.name, expression)
    kind = KnobKind.BLOCK_COVERING if covering else KnobKind.BLOCK_TILING
    return replace(site, kind=kind, refused=refused or site.refused)


def _given(reading: Reading, launch: Launch, name: str, kind: KnobKind, expression: ast.expr) -> Site:
    """A knob that the launch gives, by an expression of any form."""
    source, told, line = reading.source, ast.unparse(expression), expression.lineno
    sizes_things = kind is KnobKind.BLOCK_TILING
    origin, refused = KnobOrigin.OTHER, None
    if isinstance(expression, ast.Constant):
        spot = spot_of_literal(launch, expression, sizes_things=sizes_things)
        origin = KnobOrigin.LITERAL
        if type(expression.value) is not int:
            refused = f"{told} is no whole number"
    elif isinstance(expression, ast.Name):
        spot = spot_of_name(source, launch, expression.id, sizes_things=sizes_things)
        origin, told, line = _origin_of_name(spot, expression.id, told, line)
    else:
        spot = spot_of_expression(launch, expression, sizes_things=sizes_things)
        origin = origin_of(expression)
        if sizes_things and told.startswith("ctx."):
            refused = f"{told} is carried from the forward pass, and a saved buffer may depend on it"
    if (carried := kept_on_context(source, launch, expression)) is not None:
        origin, told = KnobOrigin.CONTEXT, carried
    return Site(launch, name, kind, origin, told, line, spot, refused=refused)


def _origin_of_name(spot: Spot, name: str, told: str, line: int) -> tuple[KnobOrigin, str, int]:
    if spot.place is Place.ENTRY:
        return KnobOrigin.PARAMETER, told, spot.line
    if spot.place is Place.AFTER and spot.statement is not None:
        return origin_of(spot.statement, name), statement_told(spot.statement), spot.line
    return KnobOrigin.OTHER, told, line


def _tie(found: list[Site]) -> list[Site]:
    """Refuses the sites whose variable another knob already overrides at the same place, or that covers elsewhere."""
    owners = {_variable(s): s.id for s in found if s.kind is KnobKind.BLOCK_COVERING and s.spot.target is not None}
    result: list[Site] = []
    for site in found:
        spot = site.spot
        if spot.target is None or spot.statement is None or site.why_not is not None:
            result.append(site)
            continue
        owner = owners.setdefault(_variable(site), site.id)
        tied = f"tied to {owner}: the variable {spot.target} feeds both launches"
        result.append(site if owner == site.id else replace(site, refused=tied))
    return result


def _variable(site: Site) -> tuple[int, str | None]:
    return id(site.spot.statement), site.spot.target
