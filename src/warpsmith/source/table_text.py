"""The wording of a settings table: the look-up, the table, and the overrides that read it.

What is written reads as the source's author would have put it: plain dictionaries and lists that torch.compile
traces, comments that say why, no figures. The GPU's key is cached by functools.cache and not in a dictionary of
our own: torch.compile guards on what a dictionary holds, so filling it would compile everything a second time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from warpsmith.source.layout import LINE_LENGTH
from warpsmith.source.overrides import set_entry
from warpsmith.source.sites import Site

LOOK_UP = "_tuned_settings"
TABLE_TYPE = "_SettingsTable"

Ranges = tuple[tuple[int, int], tuple[int, int], dict[str, int]]
Entries = Mapping[tuple[int, int, int], Mapping[int, Sequence[Ranges]]]

_LOOK_UP_CODE = '''

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


def look_up_code() -> str:
    return _LOOK_UP_CODE


def table_name(host_function: str, jit_function: str, alone: bool) -> str:
    """The table's name: after the host function, or after the kernel where the function launches several."""
    stem = host_function if alone and host_function.isidentifier() else jit_function.removesuffix("_kernel")
    return f"_{re.sub(r'[^0-9A-Za-z_]', '_', stem).strip('_').upper()}_SETTINGS"


def table_code(name: str, host_function: str, axes: tuple[str, str], entries: Entries) -> str:
    """The table as a module-level statement with its comment."""
    lines = ["", "", f"# Bands of ({axes[0]}, {axes[1]}) for {host_function}.", f"{name}: {TABLE_TYPE} = {{"]
    for gpu, by_size in entries.items():
        lines.append(f"    {gpu}: {{")
        for itemsize, bands in by_size.items():
            lines.append(f"        {itemsize}: [")
            for band in bands:
                lines += _band_lines(band)
            lines.append("        ],")
        lines.append("    },")
    return "\n".join([*lines, "}"])


def _band_lines(band: Ranges) -> list[str]:
    width, rows, settings = band
    pairs = [f'"{name}": {value}' for name, value in settings.items()]
    line = f"            ({width}, {rows}, {{{', '.join(pairs)}}}),"
    if len(line) <= LINE_LENGTH:
        return [line]
    return [
        "            (",
        f"                {width},",
        f"                {rows},",
        "                {",
        *(f"                    {pair}," for pair in pairs),
        "                },",
        "            ),",
    ]


def options_code(options: str, tuned: str, names: Sequence[str]) -> str:
    """The options that only a measured launch is given; every other launch keeps Triton's own default."""
    listed = ", ".join(f'"{name}"' for name in names) + ("," if len(names) == 1 else "")
    return f"{options} = {{name: {tuned}[name] for name in ({listed}) if name in {tuned}}}"


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
