"""The wording of a settings table: the look-up, the table, and the overrides that read it.

What is written reads as the source's author would have put it: plain dictionaries and lists that torch.compile
traces, comments that say why, no figures. The GPU's key is cached by functools.cache and not in a dictionary of
our own: torch.compile guards on what a dictionary holds, so filling it would compile everything a second time.
Behind the cache torch.compile finds a constant, and newer versions warn once that they look there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from enum import Enum

from warpsmith.source.layout import LINE_LENGTH
from warpsmith.source.overrides import set_entry
from warpsmith.source.sites import Site

LOOK_UP = "_tuned_settings"
GPU_KEY = "_gpu_key"
TABLE_TYPE = "_SettingsTable"

#: One range an axis, ends included.
Ranges = tuple[tuple[int, int], ...]
#: GPU -> bytes an element -> bands of (ranges, settings).
Entries = Mapping[tuple[int, int, int], Mapping[int, Sequence[tuple[Ranges, Mapping[str, int]]]]]


class Form(Enum):
    """How a file's tables and its one look-up are written, by how many sizes the tables are keyed by."""

    GPU_ALONE = "no sizes"
    ROWS = "a row width and a number of rows"
    SIZES = "any sizes"


_ROWS_LOOK_UP = '''

# Launch settings that were measured to be faster: GPU (compute capability, number of SMs) -> bytes an element ->
# bands of row widths and row counts, ends included. Outside the bands, and on any other GPU, the code's own
# expressions hold.
_SettingsTable = dict[tuple[int, int, int], dict[int, list[tuple[tuple[int, int], tuple[int, int], dict[str, int]]]]]


@functools.cache
def _gpu_key(device_index: int) -> tuple[int, int, int]:
    """(major, minor, number of SMs), asked once a GPU: the question costs more than the rest of a look-up."""
    properties = torch.cuda.get_device_properties(device_index)
    return properties.major, properties.minor, properties.multi_processor_count


def _tuned_settings(table: _SettingsTable, tensor: torch.Tensor, n_rows: int, n_cols: int) -> dict[str, int]:
    """The settings of the band that this launch falls into; none where nothing was measured."""
    device = tensor.device
    if device.type != "cuda" or torch.version.cuda is None:
        return {}
    bands = table.get(_gpu_key(device.index), {}).get(tensor.element_size(), [])
    for (narrowest, widest), (fewest, most), settings in bands:
        if narrowest <= n_cols <= widest and fewest <= n_rows <= most:
            return settings
    return {}
'''

_OF_A_GPU = _ROWS_LOOK_UP[_ROWS_LOOK_UP.index("\n\n\n@functools.cache") : _ROWS_LOOK_UP.index(f"\n\n\ndef {LOOK_UP}")]

_SIZES_LOOK_UP = f'''

# Launch settings that were measured to be faster: GPU (compute capability, number of SMs) -> bytes an element ->
# bands of sizes, ends included. Outside the bands, and on any other GPU, the code's own expressions hold.
{TABLE_TYPE} = dict[tuple[int, int, int], dict[int, list[tuple[list[tuple[int, int]], dict[str, int]]]]]{_OF_A_GPU}


def {LOOK_UP}(table: {TABLE_TYPE}, tensor: torch.Tensor, *sizes: int) -> dict[str, int]:
    """The settings of the band that this launch falls into; none where nothing was measured."""
    device = tensor.device
    if device.type != "cuda" or torch.version.cuda is None:
        return {{}}
    bands = table.get({GPU_KEY}(device.index), {{}}).get(tensor.element_size(), [])
    for ranges, settings in bands:
        if all(low <= size <= high for size, (low, high) in zip(sizes, ranges)):
            return settings
    return {{}}
'''

_GPU_LOOK_UP = f'''

# Launch settings that were measured to be faster: GPU (compute capability, number of SMs) -> bytes an element ->
# settings. On any other GPU the code's own expressions hold.
{TABLE_TYPE} = dict[tuple[int, int, int], dict[int, dict[str, int]]]{_OF_A_GPU}


def {LOOK_UP}(table: {TABLE_TYPE}, tensor: torch.Tensor) -> dict[str, int]:
    """The settings for this launch's GPU; none where nothing was measured."""
    device = tensor.device
    if device.type != "cuda" or torch.version.cuda is None:
        return {{}}
    return table.get({GPU_KEY}(device.index), {{}}).get(tensor.element_size(), {{}})
'''


def form_of(numbers_of_axes: Collection[int]) -> Form:
    """The form of a file whose tables have these numbers of axes."""
    found = set(numbers_of_axes)
    return Form.GPU_ALONE if found == {0} else Form.ROWS if found == {2} else Form.SIZES


def look_up_code(form: Form) -> str:
    return {Form.GPU_ALONE: _GPU_LOOK_UP, Form.ROWS: _ROWS_LOOK_UP, Form.SIZES: _SIZES_LOOK_UP}[form]


def look_up_call(form: Form, name: str, tensor: str, axes: Sequence[str]) -> str:
    """The call that looks a launch up; a table of rows is asked for the number of rows first."""
    asked = reversed(axes) if form is Form.ROWS else axes
    return f"{LOOK_UP}({', '.join((name, tensor, *asked))})"


def axes_of_call(form: Form, sizes: Sequence[str]) -> tuple[str, ...]:
    """The axes in the table's order, from the sizes that its look-up is given."""
    return tuple(reversed(sizes)) if form is Form.ROWS else tuple(sizes)


def table_name(host_function: str, jit_function: str, alone: bool) -> str:
    """The table's name: after the host function, or after the kernel where the function launches several."""
    stem = host_function if alone and host_function.isidentifier() else jit_function.removesuffix("_kernel")
    return f"_{re.sub(r'[^0-9A-Za-z_]', '_', stem).strip('_').upper()}_SETTINGS"


def table_code(name: str, form: Form, host_function: str, axes: Sequence[str], entries: Entries) -> str:
    """The table as a module-level statement with its comment."""
    listed = axes[0] if len(axes) == 1 else f"({', '.join(axes)})"
    told = f"Bands of {listed}" if axes else "Settings"
    value = table_value(form, entries)
    return "\n".join(["", "", f"# {told} for {host_function}.", f"{name}: {TABLE_TYPE} = {value}"])


def table_value(form: Form, entries: Entries) -> str:
    """The table's dictionary, an entry a line."""
    lines = ["{"]
    for gpu, by_size in entries.items():
        lines.append(f"    {gpu}: {{")
        for itemsize, bands in by_size.items():
            if form is Form.GPU_ALONE:
                lines += [f"        {itemsize}: {{", *_settings_lines(dict(bands[0][1]), 12), "        },"]
                continue
            lines.append(f"        {itemsize}: [")
            for ranges, settings in bands:
                parts = [str(r) for r in ranges] if form is Form.ROWS else [f"[{', '.join(map(str, ranges))}]"]
                lines += _band_lines(parts, settings)
            lines.append("        ],")
        lines.append("    },")
    return "\n".join([*lines, "}"])


def _band_lines(parts: Sequence[str], settings: Mapping[str, int]) -> list[str]:
    line = f"            ({', '.join(parts)}, {{{', '.join(_pairs(settings))}}}),"
    if len(line) <= LINE_LENGTH:
        return [line]
    return [
        "            (",
        *(f"                {part}," for part in parts),
        "                {",
        *_settings_lines(settings, 20),
        "                },",
        "            ),",
    ]


def _settings_lines(settings: Mapping[str, int], indent: int) -> list[str]:
    return [f"{' ' * indent}{pair}," for pair in _pairs(settings)]


def _pairs(settings: Mapping[str, int]) -> list[str]:
    return [f'"{name}": {value}' for name, value in settings.items()]


def options_code(options: str, tuned: str, names: Sequence[str]) -> str:
    """The options that only a measured launch is given; every other launch keeps Triton's own default."""
    listed = ", ".join(f'"{name}"' for name in names) + ("," if len(names) == 1 else "")
    return f"{options} = {{name: {tuned}[name] for name in ({listed}) if name in {tuned}}}"


def fitted(code: str, indent: int) -> str:
    """A statement as it stands `indent` deep: one that would pass the line's end is broken as a formatter does."""
    if indent + len(code) <= LINE_LENGTH or "\n" in code:
        return code
    (statement,) = ast.parse(code).body
    value = getattr(statement, "value", None)
    if isinstance(value, ast.DictComp):
        head, _, inside = code.removesuffix("}").partition("{")
        if indent + 4 + len(inside) > LINE_LENGTH:
            inside = inside.replace(" for ", "\n    for ").replace(" if ", "\n    if ")
        return f"{head}{{\n    {inside}\n}}"
    if not isinstance(value, ast.Call) or value.func.end_col_offset is None:
        return code
    head = code[: value.func.end_col_offset]
    given = [ast.get_source_segment(code, argument) or "" for argument in value.args]
    if indent + 4 + len(", ".join(given)) <= LINE_LENGTH:
        return f"{head}(\n    {', '.join(given)}\n)"
    return "\n".join([f"{head}(", *(f"    {argument}," for argument in given), ")"])


class FromTable:
    """Overrides that read the settings of the band."""

    def __init__(self, tuned: str, options: str) -> None:
        self.tuned = tuned
        self.options = options

    def value(self, site: Site, current: str) -> str:
        return f'{self.tuned}.get("{site.name}", {current})'

    def argument(self, site: Site) -> str:
        if site.launch.jit is not None and site.name in site.launch.jit.constexprs:
            return f"{site.name}={self.value(site, str(site.default))}"
        return f"**{self.options}"

    def entry(self, site: Site) -> str:
        value = f'{self.tuned}["{site.name}"]'
        return f'if "{site.name}" in {self.tuned}:\n    {set_entry(site, value)}'
