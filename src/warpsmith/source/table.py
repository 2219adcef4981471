"""The drop-in variant of a settings sweep: a small table in the source, keyed by GPU, element size and shape.

Owns what the table means; `table_host` owns where the host code reads it, `table_text` its wording. Where no band
holds, and on any other GPU, the source's own expressions do.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from pydantic import Field, model_validator

from warpsmith.contracts.audit import SourceAudit
from warpsmith.contracts.base import Contract
from warpsmith.source.editing import Edits
from warpsmith.source.imports import bound_by
from warpsmith.source.knobs import sites
from warpsmith.source.launches import Reading, read
from warpsmith.source.overrides import beside_host_code, chosen
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.table_forms import form_with, with_form
from warpsmith.source.table_host import LookUp, override
from warpsmith.source.table_owned import (
    TableEntries,
    expect_free,
    form_in,
    look_up_statements,
    table_names,
    tables_in,
)
from warpsmith.source.table_removal import Removed, without_look_up, without_table
from warpsmith.source.table_text import Form, Ranges, look_up_code, table_code, table_name

#: All that a CUDA block allows: 32 x 32 threads.
_WARPS = (1, 2, 4, 8, 16, 32)


class Band(Contract):
    """Shapes that share settings: a range an axis, ends included. `settings` is by knob name, such as "num_warps"."""

    ranges: Ranges
    settings: dict[str, int]

    @model_validator(mode="after")
    def _can_be_written(self) -> Band:
        if (wrong := next((each for each in self.ranges if each[0] > each[1]), None)) is not None:
            raise ValueError(f"expected ranges from their low end to their high end, found {wrong}")
        if not self.settings:
            raise ValueError("expected a setting in every band, found none")
        low = {name: value for name, value in self.settings.items() if value < 1}
        if low:
            raise ValueError(f"expected settings of 1 and more, found {low}")
        warps = self.settings.get("num_warps", 1)
        if warps not in _WARPS:
            raise ValueError(f"expected num_warps to be one of {_WARPS}, found {warps}")
        return self


class Basis(Contract):
    """What bands were drawn from: the sizes that were measured, and what each axis is.

    `products` are the axes of a case whose product an axis is; `covered_up_to` is the widest block that covers an axis
    as a whole, by which its bands are parted at powers of two, and 1 where none does.
    """

    tuned: tuple[tuple[int, ...], ...]
    products: tuple[tuple[str, ...], ...]
    covered_up_to: tuple[int, ...]


class SettingsTable(Contract):
    """Measured settings of one jit function at one launch, on one GPU, for one element size in bytes.

    `tensor` and `axes` are what the look-up reads: variables of the host function, or expressions of them. With no axes
    the settings hold for any size.
    """

    jit_function: str
    host_function: str
    capability: tuple[int, int]
    sm_count: int = Field(ge=1)
    itemsize: int = Field(ge=1)
    tensor: str
    axes: tuple[str, ...] = Field(max_length=3)
    bands: tuple[Band, ...]
    basis: Basis | None = None

    @model_validator(mode="after")
    def _has_a_range_an_axis(self) -> SettingsTable:
        wrong = next((band for band in self.bands if len(band.ranges) != len(self.axes)), None)
        if wrong is not None:
            raise ValueError(f"expected a range for each of {self.axes}, found {wrong.ranges}")
        if not self.axes and len(self.bands) > 1:
            raise ValueError(f"expected one band where there are no axes, found {len(self.bands)}")
        return self

    @property
    def gpu(self) -> tuple[int, int, int]:
        return (*self.capability, self.sm_count)


def without_settings(source: str, jit_function: str) -> str:
    """The source without the table of this jit function's launches: the code's own expressions hold again.

    The look-up goes with the last table.
    """
    reading = read(source)
    for launch in reading.launches:
        if launch.jit_name == jit_function:
            source = without_table(source, _name(reading, launch.host_function, jit_function)).text
    return without_look_up(source)


def without_tables(source: str) -> str:
    """The source without any table, look-up or import for one: what it was before they were written.

    A launch whose arguments had to be spread over lines for them stays spread.
    """
    for table in tables_in(read(source).source):
        for name in table_names(table):
            source = without_table(source, name, exactly=True).text
    return without_look_up(source)


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
    names = {key: _name(read(source), *key) for key in groups}
    if groups:
        expect_free(read(source).source, names.values())
    removed: dict[str, Removed] = {}
    for key, group in groups.items():
        removed[names[key]] = _without(source, names[key], group)
        source = removed[names[key]].text
    form = form_with(source, [len(group[0].axes) for group in groups.values()])
    source = with_form(source, form) if groups else source
    for key, group in groups.items():
        entries = removed[names[key]].entries
        source = _write(source, group, names[key], form, entries)
    return source


def _without(source: str, name: str, group: Sequence[SettingsTable]) -> Removed:
    """The source without the table that is replaced, and its entries for other GPUs. Raises NotApplicable."""
    first, gpus = group[0], {table.gpu for table in group}
    if any((table.tensor, table.axes) != (first.tensor, first.axes) for table in group):
        raise NotApplicable(f"the tables for {first.host_function} are keyed by different variables")
    removed = without_table(source, name)
    kept = {gpu: entries for gpu, entries in removed.entries.items() if gpu not in gpus}
    if kept and removed.axes != first.axes:
        raise NotApplicable(
            f"{name} has entries for another GPU that are keyed by {', '.join(removed.axes) or 'nothing'}, "
            f"and not by {', '.join(first.axes) or 'nothing'}: take them out first"
        )
    return Removed(removed.text, kept, removed.axes)


def _write(source: str, group: Sequence[SettingsTable], name: str, form: Form, earlier: TableEntries) -> str:
    """One launch's table."""
    first = group[0]
    reading = read(source)
    names = list(dict.fromkeys(n for table in group for band in table.bands for n in band.settings))
    ids = [f"{first.jit_function}.{n}" for n in names]
    in_host = [s for s in sites(reading) if s.launch.host_function == first.host_function]
    found = chosen(in_host, ids)
    beside_host_code(found)
    edits = Edits(source, fits=True)
    look_up = LookUp(name, form, first.tensor, first.axes)
    for scope in dict.fromkeys(site.launch.scope for site in found):
        override(edits, reading, look_up, [s for s in found if s.launch.scope is scope])
    entries = dict(earlier)
    for table in group:
        bands = entries.setdefault(table.gpu, {}).setdefault(table.itemsize, [])
        bands += [(band.ranges, dict(band.settings)) for band in table.bands]
    code = table_code(name, form, first.host_function, first.axes, entries)
    host = reading.source.top_level(found[0].launch.call)
    edits.add_before(host, _look_up_before(reading, edits, host, form) + code)
    _require(reading, edits)
    return edits.apply()


def _look_up_before(reading: Reading, edits: Edits, host: ast.stmt, form: Form) -> str:
    """The look-up, where `host` has none above it yet; one that stands below is moved up."""
    present = look_up_statements(reading.source)
    if form_in(reading.source) is not None and present[0].lineno < host.lineno:
        return ""
    for statement in present:
        edits.remove(statement)
    return look_up_code(form)


def _name(reading: Reading, host_function: str, jit_function: str) -> str:
    """The table's name: after the host function where that launches this jit function and no other."""
    here = {launch.jit_name for launch in reading.launches if launch.host_function == host_function}
    return table_name(host_function, jit_function, here <= {jit_function})


def _require(reading: Reading, edits: Edits) -> None:
    """The imports that the look-up needs. Raises NotApplicable where `torch` is not there by its own name."""
    found = [each for statement in reading.source.tree.body for each in bound_by(statement)]
    plain = {each.name for each in found if each.path == each.name}
    if "torch" not in plain:
        raise NotApplicable("the source does not import torch, which the look-up asks for the GPU")
    if "functools" not in plain:
        edits.imports.append("functools")
