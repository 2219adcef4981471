"""Grouped order: programs that run together work on a square of tiles, so that they share both of its operands."""

from __future__ import annotations

from warpsmith.source.editing import Edits
from warpsmith.source.launches import Reading, read
from warpsmith.source.layout import LINE_LENGTH
from warpsmith.source.program_places import NoTileOrder
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.rewrites.switches import jit_with_room, language_name
from warpsmith.source.tile_order import TileOrder, tile_order

GROUP_PARAMETER = "GROUP_TILES"
WHY = "# Programs that run together share operands in L2."


def group_tiles(source: str, jit_function: str, tiles: int = 1) -> str:
    """Gives a jit function its tiles in groups of GROUP_TILES along the axis that is walked last, by `tl.swizzle2d`.

    GROUP_TILES becomes a last constexpr parameter of the kernel, `tiles` by default; 1 is the original's order.
    Raises NotApplicable where the order of tiles is not seen to be free, or the parameter's name is taken.
    """
    reading = read(source)
    order = _order(reading, jit_function)
    jit = jit_with_room(reading, jit_function, GROUP_PARAMETER)
    language = language_name(reading.source.tree)
    edits = Edits(source, fits=True)
    edits.add_parameter(jit.node, f"{GROUP_PARAMETER}: {language}.constexpr = {tiles}")
    edits.add_after(order.last, f"{WHY}\n{_grouped(edits, order, language, order.last.col_offset)}")
    return edits.apply()


def _order(reading: Reading, jit_function: str) -> TileOrder:
    if jit_function not in reading.jits:
        raise NotApplicable(f"{jit_function} is no jit function of this source")
    try:
        return tile_order(reading, reading.jits[jit_function])
    except NoTileOrder as reason:
        raise NotApplicable(str(reason)) from reason


def _grouped(edits: Edits, order: TileOrder, language: str, indent: int) -> str:
    """swizzle2d counts row by row, so the variable that changes last comes first."""
    programs = f"{language}.num_programs({order.fast_axis})"
    if order.n_fast is None:
        n_slow, n_fast = f"{language}.num_programs({order.slow_axis})", programs
    else:
        n_fast = edits.text(order.n_fast)
        n_slow = f"{language}.cdiv({programs}, {n_fast})"
    given = [order.slow, order.fast, n_slow, n_fast, GROUP_PARAMETER]
    call, inside = f"{order.slow}, {order.fast} = {language}.swizzle2d", ", ".join(given)
    if indent + len(f"{call}({inside})") <= LINE_LENGTH:
        return f"{call}({inside})"
    if indent + 4 + len(inside) <= LINE_LENGTH:
        return f"{call}(\n    {inside}\n)"
    return f"{call}(\n" + "".join(f"    {each},\n" for each in given) + ")"
