"""Software pipelining of loops without a matrix product: Triton does it only for a `tl.range` that names its stages."""

from __future__ import annotations

import ast

from warpsmith.source.editing import Edits
from warpsmith.source.jit import Jit
from warpsmith.source.launches import Reading, read
from warpsmith.source.opportunities import unpipelined_loops
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.rewrites.switches import jit_with_room, language_name

STAGES_PARAMETER = "LOOP_STAGES"


def parametrise_loop_stages(source: str, jit_function: str) -> str:
    """`range(a, b, c)` as `tl.range(a, b, c, num_stages=LOOP_STAGES)` in every loop that loads and names no stages.

    LOOP_STAGES becomes a last constexpr parameter of the kernel, 1 by default: no pipelining. Raises NotApplicable
    where there is no such loop, or the parameter's name is taken.
    """
    reading = read(source)
    jit = jit_with_room(reading, jit_function, STAGES_PARAMETER)
    edits = Edits(source, fits=True)
    language = _name_stages(edits, reading, jit)
    edits.add_parameter(jit.node, f"{STAGES_PARAMETER}: {language}.constexpr = 1")
    return edits.apply()


def _name_stages(edits: Edits, reading: Reading, jit: Jit) -> str:
    """Edits every loop, and says by which name triton.language goes."""
    language = language_name(reading.source.tree)
    loops = unpipelined_loops(jit)
    if not loops:
        raise NotApplicable(f"{jit.name} has no loop over global loads that names no stages")
    for loop in loops:
        name_in_range(edits, loop, f"num_stages={STAGES_PARAMETER}", language)
    return language


def name_in_range(edits: Edits, loop: ast.For, argument: str, language: str) -> None:
    """Gives a loop's range a further argument, which only Triton's own range takes."""
    call = loop.iter
    assert isinstance(call, ast.Call)
    edits.add_argument(call, argument)
    if isinstance(call.func, ast.Name) and call.func.id == "range":
        edits.replace(call.func, f"{language}.range")
