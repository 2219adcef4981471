"""Eviction policies: rows that are streamed once leave the cache first, what every program reads stays longest."""

from __future__ import annotations

from warpsmith.source.editing import Edits
from warpsmith.source.launches import read
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.streams import streams


def add_eviction_policy(source: str, jit_function: str) -> str:
    """`evict_first` on the row loads and stores of a jit function, `evict_last` on what all its programs load.

    Accesses that have a policy or a cache modifier are left as they are. Raises NotApplicable where none streams.
    """
    reading = read(source)
    if jit_function not in reading.jits:
        raise NotApplicable(f"{jit_function} is no jit function of this source")
    found = streams(reading, reading.jits[jit_function])
    if not found.once:
        raise NotApplicable(f"{jit_function} has no load or store of row data without a policy that is used once")
    edits = Edits(source)
    for access in found.once:
        edits.add_argument(access.call, 'eviction_policy="evict_first"')
    for access in found.shared:
        edits.add_argument(access.call, 'eviction_policy="evict_last"')
    return edits.apply()
