"""Streamed loads that are cached in L2 alone, behind a constexpr that is off unless a table turns it on."""

from __future__ import annotations

from warpsmith.source.editing import Edits
from warpsmith.source.launches import read
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.rewrites.switches import jit_with_switch, language_name
from warpsmith.source.streams import streams

PAST_L1_PARAMETER = "PAST_L1"


def load_past_l1(source: str, jit_function: str) -> str:
    """`cache_modifier=".cg" if PAST_L1 else ""` on the row loads of a jit function that are used once.

    PAST_L1 becomes a last constexpr parameter of the kernel, 0 by default: as before. Loads that have a policy or a
    modifier are left as they are. Raises NotApplicable where no other load streams, or there is no room.
    """
    reading = read(source)
    jit = jit_with_switch(reading, jit_function, PAST_L1_PARAMETER)
    language = language_name(reading.source.tree)
    loads = streams(reading, jit).loads
    if not loads:
        raise NotApplicable(f"{jit_function} has no load of row data without a policy that is used once")
    edits = Edits(source, fits=True)
    edits.comment(reading.source.statement_of(loads[0].call), "# Streamed once: it need not pass through L1.")
    for access in loads:
        edits.add_argument(access.call, f'cache_modifier=".cg" if {PAST_L1_PARAMETER} else ""')
    edits.add_parameter(jit.node, f"{PAST_L1_PARAMETER}: {language}.constexpr = 0")
    return edits.apply()
