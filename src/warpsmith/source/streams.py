"""Which of a kernel's accesses stream row data through once, and which read what every program reads again.

Only vectors count: a scalar shares its sector with its neighbours. Left alone are kernels with matrix products
(their tiles are shared between programs), addresses that were themselves loaded, pointers that are loaded in
more than one place (a second pass finds them in cache) or again by a later launch of the same call, and accesses that
say a policy already.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from warpsmith.source.access import Access
from warpsmith.source.handed_on import read_again
from warpsmith.source.jit import Jit, has_dot
from warpsmith.source.launches import Reading
from warpsmith.source.syntax import Source


@dataclass(frozen=True)
class Streams:
    """`once`: loads and stores of rows. `shared`: loads of what does not depend on the program."""

    once: tuple[Access, ...]
    shared: tuple[Access, ...]


def streams(reading: Reading, jit: Jit) -> Streams:
    """What to hint in a jit function; empty where nothing is safe to say."""
    if has_dot(jit.node):
        return Streams((), ())
    addresses = reading.addresses(jit)
    every_axis = addresses.axes()
    row_loops = addresses.row_loops()
    accesses = addresses.accesses()
    loaded = [a.pointer for a in accesses if a.is_load]
    wanted_later = read_again(reading, jit)
    once: list[Access] = []
    shared: list[Access] = []
    for access in accesses:
        vector = access.trait.block and not access.trait.from_memory
        if not vector or access.has_policy() or not (access.is_load or access.is_store):
            continue
        if access.is_load and loaded.count(access.pointer) > 1:
            continue
        walks_rows = not row_loops or _inside(reading.source, access.call, row_loops)
        if every_axis and access.trait.axes == every_axis and walks_rows:
            once += [access] if access.pointer not in wanted_later else []
        elif access.is_load and not access.trait.axes:
            shared.append(access)
    return Streams(tuple(once), tuple(shared))


def _inside(source: Source, call: ast.Call, loops: list[ast.For]) -> bool:
    return any(parent in loops for parent in source.ancestors(call))
