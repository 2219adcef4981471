"""Blocks of one launch, and what says how its kernel's loops, loads and order of tiles are compiled: how each is set.

`blocks` tells whether a block covers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from warpsmith.contracts.audit import KnobKind, KnobOrigin
from warpsmith.source.blocks import COVERS, block_kind
from warpsmith.source.carried import why_it_binds
from warpsmith.source.configs import Configs
from warpsmith.source.dictionaries import dictionary_spot, only_entry
from warpsmith.source.heuristics import computed, set_by_heuristics
from warpsmith.source.launches import Launch, Reading
from warpsmith.source.places import Place, Spot, grid_nodes
from warpsmith.source.sites import Site, given, refused_site
from warpsmith.source.syntax import is_name
from warpsmith.source.tuned import configs_at, further_names, is_set_by_configs, set_by_configs

_NOT_A_BLOCK = re.compile(r"^(NUM|HAS|USE|IS|N|MAX|TOTAL)_|BLOCKS|BLOCK_(PTR|TABLE|IDX|ID)", re.IGNORECASE)


def blocks_of(reading: Reading, launch: Launch) -> Iterator[Site]:
    """Every block at one launch, those that must cover a row included."""
    configs = configs_at(reading.source, launch)
    for name in dict.fromkeys([*_names(launch), *further_names(configs, launch)]):
        yield _block(reading, launch, name, configs)


def _names(launch: Launch) -> list[str]:
    """Constexprs that are named like blocks; for an imported kernel, keywords that are."""
    if launch.jit is not None:
        names = [p for p in launch.jit.parameters if p in launch.jit.constexprs]
    else:
        names = [k.arg for k in launch.call.keywords if k.arg is not None]
    options = launch.jit.compiled_by if launch.jit is not None else {}
    return [n for n in names if n in options or ("BLOCK" in n.upper() and not _NOT_A_BLOCK.search(n))]


def _block(reading: Reading, launch: Launch, name: str, configs: Configs | None) -> Site:
    jit = launch.jit
    kind = jit.compiled_by.get(name, KnobKind.BLOCK_TILING) if jit is not None else KnobKind.BLOCK_TILING
    site, expression = _site(reading, launch, name, kind, configs)
    return site if kind is not KnobKind.BLOCK_TILING else _of_its_kind(reading, site, expression)


def _site(
    reading: Reading, launch: Launch, name: str, kind: KnobKind, configs: Configs | None
) -> tuple[Site, ast.expr | None]:
    """The site, and the expression that says what the block is."""
    source, jit = reading.source, launch.jit
    if (site := set_by_heuristics(source, launch, name, kind)) is not None:
        value = jit.heuristics.get(name) if jit is not None else None
        return site, computed(source, value)[0] if value is not None else None
    if jit is not None and jit.autotune is not None and is_set_by_configs(configs, launch, name):
        return set_by_configs(source, launch, name, kind), None
    expression = launch.argument(name) or only_entry(launch, name)
    if expression is not None:
        return given(source, launch, name, kind, expression), expression
    return _not_given(reading, launch, name, kind), None


def _not_given(reading: Reading, launch: Launch, name: str, kind: KnobKind) -> Site:
    """A constexpr that the launch leaves to the kernel's own default, or hides behind * or **."""
    default = launch.jit.defaults.get(name) if launch.jit is not None else None
    told = ast.unparse(default) if default is not None else "not given"
    set_there = (KnobOrigin.OTHER, told, launch.line)
    if launch.has_star:
        return refused_site(launch, name, kind, set_there, "it is hidden behind * or **")
    if default is None and (found := dictionary_spot(reading.source, launch, name)) is not None:
        return _in_dictionary(launch, name, kind, found[0])
    if launch.dictionaries:
        return refused_site(launch, name, kind, set_there, "it is hidden behind * or **")
    if not (isinstance(default, ast.Constant) and type(default.value) is int):
        return refused_site(launch, name, kind, set_there, "the launch does not give it")
    again = [n for n in ast.walk(launch.scope) if isinstance(n, ast.Constant) and n.value == default.value]
    if kind is KnobKind.BLOCK_TILING and (numbers := [n for n in again if type(n.value) is int]):
        why = f"the kernel's own {told} also stands in line {numbers[0].lineno}, and may depend on it"
        return refused_site(launch, name, kind, set_there, why)
    spot = Spot(Place.KEYWORD, launch.line)
    return Site(launch, name, kind, KnobOrigin.ABSENT, told, launch.line, spot, default.value)


def _in_dictionary(launch: Launch, name: str, kind: KnobKind, spot: Spot) -> Site:
    """A block that only a dictionary can give, whose entries are not seen."""
    told, refused = spot.target or "**", None
    dictionary = told.partition("[")[0]
    nodes = list(grid_nodes(launch))
    asks = any(isinstance(node, ast.Lambda | ast.FunctionDef) or is_name(node, dictionary) for node in nodes)
    if spot.refused is None and not asks:
        refused = "it is hidden behind * or **, and the grid may be computed from it"
    return Site(launch, name, kind, KnobOrigin.OTHER, told, spot.line, spot, refused=refused)


def _of_its_kind(reading: Reading, site: Site, expression: ast.expr | None) -> Site:
    """The site as a block that tiles or covers. What the configs give several values, or no block's name, is free."""
    covering, refused = block_kind(reading, site.launch, site.name, expression)
    is_free = len(site.listed) > 1 or not covering or site.name not in _names(site.launch)
    if site.origin is KnobOrigin.AUTOTUNE and is_free:
        return site
    if refused is None and site.origin is KnobOrigin.CONTEXT and "." in site.expression:
        refused = why_it_binds(reading.source, site.expression)
    kind = KnobKind.BLOCK_COVERING if covering else KnobKind.BLOCK_TILING
    why = site.refused if site.refused is not None and refused != COVERS else refused
    return replace(site, kind=kind, refused=why)
