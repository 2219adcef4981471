"""Where a settings table is read in the host code: the look-up, and the overrides that it feeds.

Must not know what a table holds.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.source.editing import Edits
from warpsmith.source.knobs import Site
from warpsmith.source.launches import Launch, Reading
from warpsmith.source.overrides import Wording, add_override, assignment
from warpsmith.source.places import Place, reaching_assignment
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.syntax import FunctionNode, Scope, assigns, names_read, parameters_of, parse, walk_scope
from warpsmith.source.table_text import Form, FromTable, fitted, look_up_call, options_code


@dataclass(frozen=True)
class LookUp:
    """What a host function asks of a table: by name, the tensor whose GPU and dtype count, and the sizes."""

    table_name: str
    form: Form
    tensor: str
    axes: tuple[str, ...]


def override(edits: Edits, reading: Reading, look_up: LookUp, found: Sequence[Site]) -> None:
    """The look-up and the overrides in one host function."""
    launch = found[0].launch
    scope = launch.scope
    variable = _free_name(scope, "tuned", launch.jit_name)
    options = _free_name(scope, "launch_options", launch.jit_name)
    wording = FromTable(variable, options)
    ready = _ready(reading, launch, look_up)
    placed = [(site, _place(site, ready)) for site in found]
    statements = [statement for _, statement in placed if statement is not None]
    for site in found:
        _require_in_time(reading, site, ready)
    anchor = _anchor(reading, found, statements, ready)
    if anchor is not None:
        _require_own_line(found, anchor)
    given = look_up_call(look_up.form, look_up.table_name, look_up.tensor, look_up.axes)
    if launch.chosen_as is not None:
        given = f"{given} if {launch.chosen_as} is {launch.jit_name} else {{}}"
    add = edits.add_at_entry if anchor is None else edits.add_after
    where = anchor if anchor is not None else scope
    assert isinstance(where, ast.stmt)
    indent = where.col_offset if anchor is not None else scope.body[0].col_offset
    add(where, fitted(f"{variable} = {given}", indent))
    absent = [s.name for s in found if s.spot.place is Place.KEYWORD and s.name not in _own_default(s)]
    if absent:
        add(where, fitted(options_code(options, variable, absent), indent))
    for site, statement in placed:
        if site.spot.place in (Place.AFTER, Place.ENTRY):
            _put(edits, site, statement, scope, wording)
        else:
            add_override(edits, site, wording)


def _put(edits: Edits, site: Site, statement: ast.stmt | None, scope: Scope, wording: Wording) -> None:
    if statement is None:
        assert isinstance(scope, ast.stmt)
        edits.add_at_entry(scope, fitted(assignment(site, wording), scope.body[0].col_offset))
    else:
        edits.add_after(statement, fitted(assignment(site, wording), statement.col_offset))


def _own_default(site: Site) -> frozenset[str]:
    """Constexprs, whose default the kernel itself gives on every backend."""
    return site.launch.jit.constexprs if site.launch.jit is not None else frozenset()


def _ready(reading: Reading, launch: Launch, look_up: LookUp) -> ast.stmt | None:
    """The statement after which the look-up's variables have their values; None for the function's entry."""
    last: ast.stmt | None = None
    kernel = (launch.chosen_as,) if launch.chosen_as is not None else ()
    asked = [names_read(parse(expression)) for expression in (look_up.tensor, *look_up.axes, *kernel)]
    for variable in dict.fromkeys(name for names in asked for name in sorted(names)):
        statement = reaching_assignment(reading.source, launch, variable)
        if statement is None and variable not in parameters_of(launch.scope):
            if _is_around(reading, launch.scope, variable):
                raise NotApplicable(
                    f"{launch.host_function} takes {variable} from the function around it, and a table reads what "
                    "its own function is given or sets"
                )
            raise NotApplicable(
                f"{launch.host_function} has no variable {variable} where it launches {launch.jit_name}"
            )
        if statement is not None and (last is None or statement.lineno > last.lineno):
            last = statement
    return last


def _is_around(reading: Reading, scope: Scope, variable: str) -> bool:
    """Whether a function around this one has the variable, which a closure reads."""
    around = [each for each in reading.source.ancestors(scope) if isinstance(each, FunctionNode)]
    return any(variable in parameters_of(each) or assigns(each, variable) for each in around)


def _place(site: Site, ready: ast.stmt | None) -> ast.stmt | None:
    """The statement after which to override: the site's own, or `ready` if that comes later and nothing reads between.

    None for the function's entry.
    """
    own = site.spot.statement if site.spot.place is Place.AFTER else None
    end = ready.end_lineno or ready.lineno if ready is not None else 0
    start = own.lineno if own is not None else site.launch.scope.body[0].lineno - 1
    if site.spot.place in (Place.IN_PLACE, Place.KEYWORD):
        early = next((read for read in site.spot.reads if read.lineno <= end), None)
        if early is not None:
            raise NotApplicable(f"line {early.lineno}: {site.name} is read before the row's width is known")
        return None
    if start >= (ready.lineno if ready is not None else 0):
        return own
    name = (site.spot.target or "").partition("[")[0]
    for node in walk_scope(site.launch.scope):
        if (
            isinstance(node, ast.Name)
            and node.id == name
            and isinstance(node.ctx, ast.Load)
            and start < node.lineno <= end
        ):
            raise NotApplicable(f"line {node.lineno}: {name} is read before the row's width is known")
    return ready


def _require_in_time(reading: Reading, site: Site, ready: ast.stmt | None) -> None:
    """Raises NotApplicable where an override stands in a branch of its own that the look-up could only follow."""
    own = site.spot.statement
    if site.spot.place is not Place.AFTER or own is None or ready is None:
        return
    above = [block for block, _ in reading.source.blocks_above(site.launch.call, site.launch.scope)]
    if any(own in block for block in above) or own.lineno > (ready.end_lineno or ready.lineno):
        return
    raise NotApplicable(f"line {own.lineno}: {site.name} is set in a branch before the row's width is known")


def _require_own_line(found: Sequence[Site], anchor: ast.stmt) -> None:
    """Raises NotApplicable where what reads the look-up stands in the line after which it is written."""
    end = anchor.end_lineno or anchor.lineno
    for site in found:
        if any(node.lineno == end for node in (site.launch.call, *site.spot.reads)):
            raise NotApplicable(
                f"line {end}: {site.launch.jit_name} is launched in the same line: split its line first"
            )


def _anchor(
    reading: Reading, found: Sequence[Site], statements: Sequence[ast.stmt], ready: ast.stmt | None
) -> ast.stmt | None:
    """Where to look up: beside the first override if that reaches all others, else where its variables are ready."""
    if any(site.spot.place is Place.ENTRY for site in found) and not statements:
        return ready
    first = min(statements, key=lambda s: s.lineno, default=None)
    if first is None:
        return ready
    scope = found[0].launch.scope
    block = next(block for block, _ in reading.source.blocks_above(first, scope))
    others: list[ast.AST] = [*statements, *(s.launch.call for s in found), *(r for s in found for r in s.spot.reads)]
    reaches = all(any(above is block for above, _ in reading.source.blocks_above(node, scope)) for node in others)
    early = any(read.lineno <= (first.end_lineno or first.lineno) for site in found for read in site.spot.reads)
    return first if reaches and not early else ready


def _free_name(scope: Scope, wanted: str, jit_function: str) -> str:
    if not assigns(scope, wanted) and wanted not in parameters_of(scope):
        return wanted
    return f"{wanted}_{jit_function.strip('_')}"
