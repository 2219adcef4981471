"""Owns the finding that nothing looks wrong: accesses as wide as can be, and no bytes but those that must be moved."""

from __future__ import annotations

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.diagnose.counted import counted_bytes
from warpsmith.diagnose.counter_signals import EXCESS
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.places import Site

#: The widest access of a thread before 10.0, in bytes.
WIDE = 16
#: What moves bytes that need not be moved, by the source.
WASTE = frozenset(
    {
        OpportunityKind.NEEDLESS_INITIALISATION,
        OpportunityKind.UNCOALESCED,
        OpportunityKind.LOOP_INVARIANT_LOAD,
        OpportunityKind.REPEATED_PASS,
        OpportunityKind.SHORT_ROWS,
    }
)


def nothing_wrong(site: Site, evidence: Evidence) -> str | None:
    """Why nothing does; None where something may, or where the code was not read.

    The bytes are the least by the counters, else by the source, in which nothing was found that moves more.
    """
    widths = [access.bytes_a_thread for r in site.launches for access in r.compiled.accesses or ()]
    read = all(record.compiled.accesses for record in site.launches)
    if not widths or not read or any(width is None or width < WIDE for width in widths):
        return None
    functions = {name for record in site.launches for name in (record.jit_function, record.host_function)}
    if any(o.kind in WASTE and o.function in functions for o in evidence.audit.opportunities):
        return None
    counted = counted_bytes(site.rows)
    if counted is None:
        return f"its accesses are {WIDE} bytes wide, and none is seen to move what need not be moved"
    if counted > EXCESS * site.cost.bytes_moved:
        return None
    return f"its accesses are {WIDE} bytes wide, and the counters saw no needless traffic"
