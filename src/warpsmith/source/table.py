"""The drop-in variant of a settings sweep: a small table in the source, keyed by GPU, element size and shape.

Owns what the table means and where it stands in the host code; `table_text` owns its wording. Where no band
holds, and on any other GPU, the source's own expressions do.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from pydantic import Field

from warpsmith.contracts.audit import SourceAudit
from warpsmith.contracts.base import Contract
from warpsmith.source.editing import Edits, NotApplicable
from warpsmith.source.knobs import Site, sites
from warpsmith.source.launches import Launch, Reading, read
from warpsmith.source.overrides import Wording, add_override, assignment, beside_host_code, chosen
from warpsmith.source.places import Place, reaching_assignment
from warpsmith.source.syntax import Scope, assigns, parameters_of, walk_scope
from warpsmith.source.table_removal import TableEntries, without_table
from warpsmith.source.table_text import (
    LOOK_UP,
    FromTable,
    look_up_code,
    options_code,
    table_code,
    table_name,
)


class Band(Contract):
    """A range of shapes that share settings. Ranges are inclusive; `settings` is by knob name, such as "num_warps"."""

    width: tuple[int, int]
    rows: tuple[int, int]
    settings: dict[str, int]


class SettingsTable(Contract):
    """Measured settings of one jit function at one launch, on one GPU, for one element size in bytes.

    `tensor`, `width_variable` and `rows_variable` are the host function's variables that the look-up reads.
    """

    jit_function: str
    host_function: str
    capability: tuple[int, int]
    sm_count: int = Field(ge=1)
    itemsize: int = Field(ge=1)
    tensor: str
    width_variable: str
    rows_variable: str
    bands: tuple[Band, ...]

    @property
    def gpu(self) -> tuple[int, int, int]:
        return (*self.capability, self.sm_count)


def without_settings(source: str, jit_function: str) -> str:
    """The source without the table of this jit function's launches: the code's own expressions hold again."""
    reading = read(source)
    for launch in reading.launches:
        if launch.jit_name == jit_function:
            host_function = launch.host_function
            alone = _is_alone(reading, host_function, jit_function)
            source, _ = without_table(source, table_name(host_function, jit_function, alone))
    return source


def write_table(source: str, audit: SourceAudit, tables: Sequence[SettingsTable]) -> str:
    """The source with these tables and their look-ups. A table that it already has for the same launch is replaced.

    Entries of an earlier table for other GPUs are kept. `audit` is what `scan` said of `source`. Raises
    NotApplicable where a table names a knob, variable or launch that is not there or cannot be changed.
    """
    groups: dict[tuple[str, str], list[SettingsTable]] = {}
    for table in tables:
        known = {f"{k.jit_function}.{k.name}" for k in audit.knobs}
        for name in {name for band in table.bands for name in band.settings}:
            if f"{table.jit_function}.{name}" not in known:
                raise NotApplicable(f"{table.jit_function}.{name} is no knob of this source")
        if table.bands:
            groups.setdefault((table.host_function, table.jit_function), []).append(table)
    for group in groups.values():
        source = _write(source, group)
    return source


def _write(source: str, group: Sequence[SettingsTable]) -> str:
    """One launch's table."""
    first = group[0]
    reading = read(source)
    name = table_name(
        first.host_function, first.jit_function, _is_alone(reading, first.host_function, first.jit_function)
    )
    source, earlier = without_table(source, name)
    reading = read(source)
    names = list(dict.fromkeys(n for table in group for band in table.bands for n in band.settings))
    ids = [f"{first.jit_function}.{n}" for n in names]
    in_host = [s for s in sites(reading) if s.launch.host_function == first.host_function]
    found = chosen(in_host, ids)
    beside_host_code(found)
    edits = Edits(source)
    for scope in dict.fromkeys(site.launch.scope for site in found):
        _override(edits, reading, first, [s for s in found if s.launch.scope is scope], name)
    entries = {gpu: kept for gpu, kept in earlier.items() if gpu not in {t.gpu for t in group}}
    edits.add_before(reading.source.top_level(found[0].launch.call), _module_code(reading, first, name, entries, group))
    _require(reading, edits)
    return edits.apply()


def _is_alone(reading: Reading, host_function: str, jit_function: str) -> bool:
    """Whether the host function launches this jit function and no other."""
    here = {launch.jit_name for launch in reading.launches if launch.host_function == host_function}
    return here <= {jit_function}


def _require(reading: Reading, edits: Edits) -> None:
    """The imports that the look-up needs. Raises NotApplicable where `torch` is not there by its own name."""
    plain = {alias.asname or alias.name for node in reading.source.tree.body if isinstance(node, ast.Import)
             for alias in node.names}  # fmt: skip
    if "torch" not in plain:
        raise NotApplicable("the source does not import torch, which the look-up asks for the GPU")
    if "functools" not in plain:
        edits.imports.append("functools")


def _module_code(
    reading: Reading,
    first: SettingsTable,
    name: str,
    earlier: TableEntries,
    group: Sequence[SettingsTable],
) -> str:
    """What goes above the host function: the look-up if it is not there yet, and the table."""
    entries = dict(earlier)
    for table in group:
        by_size = entries.setdefault(table.gpu, {})
        bands = by_size.setdefault(table.itemsize, [])
        bands += [(band.width, band.rows, dict(band.settings)) for band in table.bands]
    code = table_code(name, first.host_function, (first.width_variable, first.rows_variable), entries)
    has_look_up = any(isinstance(s, ast.FunctionDef) and s.name == LOOK_UP for s in reading.source.tree.body)
    return code if has_look_up else look_up_code() + code


def _override(edits: Edits, reading: Reading, table: SettingsTable, found: Sequence[Site], name: str) -> None:
    """The look-up and the overrides in one host function."""
    launch = found[0].launch
    scope = launch.scope
    variable = _free_name(scope, "tuned", table.jit_function)
    options = _free_name(scope, "launch_options", table.jit_function)
    wording = FromTable(variable, options)
    ready = _ready(reading, launch, table)
    placed = [(site, _place(site, ready)) for site in found]
    statements = [statement for _, statement in placed if statement is not None]
    anchor = _anchor(reading, found, statements, ready)
    given = f"{LOOK_UP}({name}, {table.tensor}, {table.rows_variable}, {table.width_variable})"
    if launch.chosen_as is not None:
        given = f"{given} if {launch.chosen_as} is {launch.jit_name} else {{}}"
    add = edits.add_at_entry if anchor is None else edits.add_after
    where = anchor if anchor is not None else scope
    assert isinstance(where, ast.stmt)
    add(where, f"{variable} = {given}")
    absent = [s.name for s in found if s.spot.place is Place.KEYWORD and s.name not in _own_default(s)]
    if absent:
        add(where, options_code(options, variable, absent))
    for site, statement in placed:
        if site.spot.place in (Place.AFTER, Place.ENTRY):
            _put(edits, site, statement, scope, wording)
        else:
            add_override(edits, site, wording)


def _put(edits: Edits, site: Site, statement: ast.stmt | None, scope: Scope, wording: Wording) -> None:
    if statement is None:
        assert isinstance(scope, ast.stmt)
        edits.add_at_entry(scope, assignment(site, wording))
    else:
        edits.add_after(statement, assignment(site, wording))


def _own_default(site: Site) -> frozenset[str]:
    """Constexprs, whose default the kernel itself gives on every backend."""
    return site.launch.jit.constexprs if site.launch.jit is not None else frozenset()


def _ready(reading: Reading, launch: Launch, table: SettingsTable) -> ast.stmt | None:
    """The statement after which the look-up's variables have their values; None for the function's entry."""
    last: ast.stmt | None = None
    kernel = (launch.chosen_as,) if launch.chosen_as is not None else ()
    for variable in (table.tensor, table.width_variable, table.rows_variable, *kernel):
        statement = reaching_assignment(reading.source, launch, variable)
        if statement is None and variable not in parameters_of(launch.scope):
            raise NotApplicable(
                f"{table.host_function} has no variable {variable} where it launches {table.jit_function}"
            )
        if statement is not None and (last is None or statement.lineno > last.lineno):
            last = statement
    return last


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
