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
from warpsmith.source.syntax import Source, blocks, last_name, walk_scope

#: FlagGems' cache of launches tells constexprs apart, and neither options nor what a tuner or heuristics choose.
_KEEP_CONSTEXPRS_APART = frozenset({"libentry"})
_OPTIONS = frozenset({KnobKind.NUM_WARPS, KnobKind.NUM_STAGES, KnobKind.MAXNREG})
_DECORATED = frozenset({KnobOrigin.AUTOTUNE, KnobOrigin.HEURISTICS})


def restricted(source: Source, site: Site) -> Site:
    """The site, refused where something around the launch forbids to change it."""
    if site.why_not is not None:
        return site
    why = _on_a_shared_line(source, site) or _cached(site) or _warmed_up(source, site)
    return replace(site, refused=why) if why is not None else site


def _on_a_shared_line(source: Source, site: Site) -> str | None:
    """Why an override, which stands below the line that sets a variable, may come too late."""
    setting = site.spot.statement
    if site.spot.place is not Place.AFTER or setting is None:
        return None
    block = next((each for each in blocks(source.parents[setting]) if setting in each), [])
    shared = any(each.lineno == setting.end_lineno for each in block[block.index(setting) + 1 :]) if block else False
    return f"line {setting.end_lineno} has another statement after it: split the line" if shared else None


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
