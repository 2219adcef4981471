"""What forbids to change a knob at a launch however it is set: caches around the kernel, a warm-up that must match.

Must not know how a knob is set.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from warpsmith.contracts.audit import KnobKind, KnobOrigin
from warpsmith.source.launches import Launch
from warpsmith.source.places import Place, reaching_assignment
from warpsmith.source.sites import Site
from warpsmith.source.syntax import FunctionNode, Source, blocks, last_name, mentions, walk_scope

#: FlagGems' cache of launches tells constexprs apart, and neither options nor what a tuner or heuristics choose.
_KEEP_CONSTEXPRS_APART = frozenset({"libentry"})
_OPTIONS = frozenset({KnobKind.NUM_WARPS, KnobKind.NUM_STAGES, KnobKind.MAXNREG})
_DECORATED = frozenset({KnobOrigin.AUTOTUNE, KnobOrigin.HEURISTICS})


def restricted(source: Source, site: Site) -> Site:
    """The site, refused where something around the launch forbids to change it."""
    if site.why_not is not None:
        return site
    why = _on_one_line(source, site) or _cached(site) or _warmed_up(source, site)
    return replace(site, refused=why) if why is not None else site


def _cached(site: Site) -> str | None:
    """Why a decorator that is not Triton's may launch a kernel that was compiled for other settings."""
    jit = site.launch.jit
    if jit is None or not jit.other_decorators:
        return None
    name, line = jit.other_decorators[0]
    known = all(name in _KEEP_CONSTEXPRS_APART for name, _ in jit.other_decorators)
    if known and site.kind not in _OPTIONS and site.origin not in _DECORATED:
        return None
    return f"{jit.name} is wrapped by {name} in line {line}, whose cache may launch it as it was compiled before"


def _on_one_line(source: Source, site: Site) -> str | None:
    """Why no statement can be added between what sets the knob and what reads it: they share a line."""
    spot = site.spot
    if spot.place is Place.ENTRY and isinstance(spot.statement, FunctionNode):
        shares = spot.statement.body[0].lineno == _header_end(spot.statement)
        return f"the body of {spot.statement.name} stands beside its name: split its line" if shares else None
    if spot.place is not Place.AFTER or spot.statement is None or spot.target is None:
        return None
    name, line = spot.target.partition("[")[0], spot.statement.end_lineno
    beside = [s for block in blocks(source.parents[spot.statement]) if spot.statement in block
              for s in block[block.index(spot.statement) + 1 :] if s.lineno == line]  # fmt: skip
    if any(mentions(each, name) for each in beside):
        return f"line {line} sets {name} and reads it: split its line"
    return None


def _header_end(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The last line of a function's name and parameters."""
    parts = [*ast.walk(function.args), *([function.returns] if function.returns is not None else [])]
    return max((getattr(part, "end_lineno", 0) or 0 for part in parts), default=0) or function.lineno


def _warmed_up(source: Source, site: Site) -> str | None:
    """Why a warm-up of the kernel in the same function would compile it for other settings than the launch takes."""
    for call in _warmups(site.launch):
        if site.spot.place in (Place.CONFIGS, Place.HEURISTIC) or _follows(source, site, call):
            continue
        return f"{site.launch.jit_name}.warmup in line {call.lineno} takes its own {site.name}"
    return None


def _warmups(launch: Launch) -> list[ast.Call]:
    return [
        node
        for node in walk_scope(launch.scope)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "warmup"
        and last_name(node.func.value) == launch.jit_name
    ]


def _follows(source: Source, site: Site, warmup: ast.Call) -> bool:
    """Whether a warm-up after the override reads the variable, or unpacks the dictionary, that the override sets."""
    target = (site.spot.target or "").partition("[")[0]
    beside = Launch(warmup, site.launch.jit_name, site.launch.jit, site.launch.scope, warmup)
    expression = beside.argument(site.name)
    if "[" in (site.spot.target or ""):
        read = any(isinstance(each, ast.Name) and each.id == target for each in beside.dictionaries)
    else:
        read = isinstance(expression, ast.Name) and expression.id == target
    if site.spot.place is Place.ENTRY:
        return read
    return (
        site.spot.place is Place.AFTER and read and reaching_assignment(source, beside, target) is site.spot.statement
    )
