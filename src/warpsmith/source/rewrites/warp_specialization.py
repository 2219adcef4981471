"""Warp specialization of loops around matrix products, behind a constexpr that is off unless a table turns it on."""

from __future__ import annotations

from warpsmith.source.editing import Edits
from warpsmith.source.launches import read
from warpsmith.source.product_loops import is_by_descriptor, product_loops
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.rewrites.pipeline import name_in_range
from warpsmith.source.rewrites.switches import jit_with_switch, language_name

SPECIALIZE_PARAMETER = "WARP_SPECIALIZE"


def parametrise_warp_specialization(source: str, jit_function: str, *, by_descriptor_alone: bool) -> str:
    """`warp_specialize=WARP_SPECIALIZE` in every loop that loads and multiplies tiles; `by_descriptor_alone` leaves out
    those that load otherwise.

    WARP_SPECIALIZE becomes a last constexpr parameter of the kernel, 0 by default: as before. Raises NotApplicable
    where there is no such loop, or no room for the parameter.
    """
    reading = read(source)
    jit = jit_with_switch(reading, jit_function, SPECIALIZE_PARAMETER)
    language = language_name(reading.source.tree)
    loops = [each for each in product_loops(jit) if not by_descriptor_alone or is_by_descriptor(reading, jit, each)]
    if not loops:
        tiles = "tiles that descriptors load" if by_descriptor_alone else "tiles"
        raise NotApplicable(f"{jit_function} has no loop over products of {tiles} whose warps are not specialized")
    edits = Edits(source, fits=True)
    for loop in loops:
        name_in_range(edits, loop, f"warp_specialize={SPECIALIZE_PARAMETER}", language)
    edits.add_parameter(jit.node, f"{SPECIALIZE_PARAMETER}: {language}.constexpr = 0")
    return edits.apply()
