"""Which of a kernel's accesses stream data through once, and which read what every program reads again.

Only vectors count: a scalar shares its sector with its neighbours. Left alone are addresses that were themselves
loaded, pointers that are loaded again by a later launch of the same call, and accesses that say already how the caches
treat them. Of loads, also those of kernels with matrix products (their tiles are shared between programs), and pointers
that are loaded in more than one place (a second pass finds them in cache). Of stores, also pointers that the kernel
reads or adds to, that it stores to in more than one place, or that stay where they are in a loop.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from warpsmith.source.access import Access
from warpsmith.source.branches import exclusive
from warpsmith.source.handed_on import read_again
from warpsmith.source.jit import Jit, has_dot
from warpsmith.source.launches import Reading
from warpsmith.source.loops import changing, loops_around
from warpsmith.source.syntax import Source, names_read


@dataclass(frozen=True)
class Streams:
    """`loads` and `stores` of data that each program has for itself; `shared`: loads of what no program id decides."""

    loads: tuple[Access, ...]
    stores: tuple[Access, ...]
    shared: tuple[Access, ...]


def streams(reading: Reading, jit: Jit) -> Streams:
    """What to hint in a jit function; empty where nothing is safe to say."""
    addresses = reading.addresses(jit)
    every_axis = addresses.axes()
    row_loops = addresses.row_loops()
    accesses = addresses.accesses()
    loaded = [a.pointer for a in accesses if a.is_load]
    wanted_later = read_again(reading, jit)
    loads: list[Access] = []
    stores: list[Access] = []
    shared: list[Access] = []
    for access in accesses:
        vector = access.trait.block and not access.trait.from_memory and not access.through_descriptor
        if not vector or access.has_policy():
            continue
        walks_rows = not row_loops or _inside(reading.source, access.call, row_loops)
        own = every_axis and access.trait.axes == every_axis and walks_rows and access.pointer not in wanted_later
        if access.is_load and not has_dot(jit.node) and loaded.count(access.pointer) == 1:
            loads += [access] if own else []
            shared += [access] if not access.trait.axes else []
        elif access.is_store and own and _is_written_once(reading, jit, access):
            stores.append(access)
    return Streams(tuple(loads), tuple(stores), tuple(shared))


def _is_written_once(reading: Reading, jit: Jit, store: Access) -> bool:
    """Whether nothing else in the kernel is seen to read or write through its pointer, and no loop stays in place."""
    addresses, source = reading.addresses(jit), reading.source
    others = [each for each in addresses.accesses() if each is not store and store.pointer in each.trait.parameters]
    moves = names_read(store.address)
    return (
        store.pointer is not None
        and all(each.is_store and exclusive(source, each.call, store.call) for each in others)
        and all(moves & changing(addresses, loop) for loop in loops_around(source, store.call, jit))
    )


def _inside(source: Source, call: ast.Call, loops: list[ast.For]) -> bool:
    return any(parent in loops for parent in source.ancestors(call))
