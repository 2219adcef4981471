"""Software pipelining of loops without a matrix product: Triton does it only for a `tl.range` that names its stages."""

from __future__ import annotations

import ast

from warpsmith.source.editing import Edits, NotApplicable
from warpsmith.source.jit import Jit, language_name
from warpsmith.source.launches import Reading, read
from warpsmith.source.opportunities import unpipelined_loops

STAGES_PARAMETER = "LOOP_STAGES"


def parametrise_loop_stages(source: str, jit_function: str) -> str:
    """`range(a, b, c)` as `tl.range(a, b, c, num_stages=LOOP_STAGES)` in every loop that loads and names no stages.

    LOOP_STAGES becomes a last constexpr parameter of the kernel, 1 by default: no pipelining. Raises NotApplicable
    where there is no such loop, or the parameter's name is taken.
    """
    reading = read(source)
    jit = _jit(reading, jit_function)
    if STAGES_PARAMETER in jit.parameters or jit.node.args.vararg or jit.node.args.kwonlyargs:
        raise NotApplicable(f"{jit_function} has no room for a last parameter {STAGES_PARAMETER}")
    edits = Edits(source)
    language = _name_stages(edits, reading, jit)
    edits.add_parameter(jit.node, f"{STAGES_PARAMETER}: {language}.constexpr = 1")
    return edits.apply()


def _jit(reading: Reading, name: str) -> Jit:
    if name not in reading.jits:
        raise NotApplicable(f"{name} is no jit function of this source")
    return reading.jits[name]


def _name_stages(edits: Edits, reading: Reading, jit: Jit) -> str:
    """Edits every loop, and says by which name triton.language goes."""
    language = language_name(reading.source.tree)
    if language is None:
        raise NotApplicable("the source does not import triton.language by a name")
    loops = unpipelined_loops(jit)
    if not loops:
        raise NotApplicable(f"{jit.name} has no loop over global loads that names no stages")
    for loop in loops:
        call = loop.iter
        assert isinstance(call, ast.Call)
        edits.add_argument(call, f"num_stages={STAGES_PARAMETER}")
        if isinstance(call.func, ast.Name) and call.func.id == "range":
            edits.replace(call.func, f"{language}.range")
    return language
