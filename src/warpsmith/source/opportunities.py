"""Concrete things to try, found in the source alone, each with its line. Must not know whether they pay."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from warpsmith.contracts.audit import KnobKind, KnobOrigin, Opportunity, OpportunityKind
from warpsmith.source.call_paths import CallPaths
from warpsmith.source.cheap_functions import cheap_functions
from warpsmith.source.dot_precision import dot_precision
from warpsmith.source.host_copies import host_copies
from warpsmith.source.host_waits import host_waits
from warpsmith.source.initialisation import needless_initialisations
from warpsmith.source.jit import LOADS, Jit, has_dot, operation, operations, reductions
from warpsmith.source.knobs import Site
from warpsmith.source.launches import Reading
from warpsmith.source.performance_notes import performance_notes
from warpsmith.source.product_loops import unspecialized
from warpsmith.source.redundant_loads import loop_invariant_loads, repeated_passes
from warpsmith.source.row_programs import one_row_a_program
from warpsmith.source.short_rows import short_rows
from warpsmith.source.streams import streams
from warpsmith.source.syntax import lines_told, walk_scope
from warpsmith.source.tile_order import ungrouped_tiles
from warpsmith.source.uncoalesced import uncoalesced
from warpsmith.source.wide_arithmetic import wide_in_kernel, wide_on_host


def opportunities(reading: Reading, sites: Sequence[Site], paths: CallPaths) -> tuple[Opportunity, ...]:
    """Everything found: what a strategy works on in the order of its lines, then what is for a person, likewise."""
    return (*_in_order(_for_strategies(reading, sites)), *_in_order(_for_people(reading, sites, paths)))


def _in_order(found: Iterable[Opportunity]) -> list[Opportunity]:
    return sorted(found, key=lambda o: (o.line, o.kind.value))


def _for_people(reading: Reading, sites: Sequence[Site], paths: CallPaths) -> Iterator[Opportunity]:
    for jit in reading.jits.values():
        yield from uncoalesced(reading, jit)
        yield from repeated_passes(reading, jit)
        yield from wide_in_kernel(reading, jit)
    yield from wide_on_host(paths)
    yield from short_rows(reading, sites)
    yield from host_waits(reading.source, paths)
    yield from host_copies(reading.source, paths)
    yield from performance_notes(reading.source)


def _for_strategies(reading: Reading, sites: Sequence[Site]) -> list[Opportunity]:
    return [
        *_needless(reading),
        *(o for jit in reading.jits.values() for o in _streamed(reading, jit)),
        *(o for jit in reading.jits.values() for o in _unpipelined(jit)),
        *(o for jit in reading.jits.values() for o in loop_invariant_loads(reading, jit)),
        *(o for jit in reading.jits.values() for o in ungrouped_tiles(reading, jit)),
        *_one_program_per_sm(reading, sites),
        *_stepped_warps(sites),
        *(o for jit in reading.jits.values() for o in one_row_a_program(reading, jit)),
        *cheap_functions(reading),
        *(o for jit in reading.jits.values() for o in dot_precision(reading, jit)),
        *(o for jit in reading.jits.values() for o in unspecialized(reading, jit)),
    ]


def _needless(reading: Reading) -> Iterator[Opportunity]:
    for found in needless_initialisations(reading):
        kernels = dict.fromkeys(launch.jit_name for launch, _ in found.stores)
        lines = lines_told(store.call.lineno for _, stores in found.stores for store in stores)
        stored = f"{' or '.join(kernels)} only stores to it ({lines})"
        yield Opportunity(
            kind=OpportunityKind.NEEDLESS_INITIALISATION,
            function=found.host_function,
            line=found.allocation.lineno,
            what=f"{found.variable} is zeroed in line {found.allocation.lineno} and {stored}",
            why="the zeroing is a launch and a pass of writes of its own, and every element is overwritten",
        )


def _streamed(reading: Reading, jit: Jit) -> Iterator[Opportunity]:
    found = streams(reading, jit)
    if found.loads:
        lines = lines_told(access.call.lineno for access in found.loads)
        again = f"; what stays is loaded in line {found.shared[0].call.lineno}" if found.shared else ""
        yield Opportunity(
            kind=OpportunityKind.STREAM_ONCE,
            function=jit.name,
            line=found.loads[0].call.lineno,
            what=f"rows are read once, without an eviction policy, in {lines}{again}",
            why="a stream that is marked to leave first does not evict from L2 what is read again",
        )
    if found.stores:
        lines = lines_told(access.call.lineno for access in found.stores)
        yield Opportunity(
            kind=OpportunityKind.STORED_ONCE,
            function=jit.name,
            line=found.stores[0].call.lineno,
            what=f"what is stored in {lines} is written once, not read again there, and has no cache modifier",
            why="a store that is marked as streaming does not evict from L2 what is read again",
        )


def unpipelined_loops(jit: Jit) -> list[ast.For]:
    """`range` loops that load from global memory, have no matrix product, and name no stages."""
    found: list[ast.For] = []
    for node in walk_scope(jit.node):
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and operation(node.iter) == "range":
            named = any(k.arg == "num_stages" or k.arg is None for k in node.iter.keywords)
            loads = next((c for c in operations(node, LOADS) if isinstance(c.func, ast.Attribute)), None)
            if not named and loads is not None and not has_dot(node) and not _has_inner_loop(node):
                found.append(node)
    return found


def _has_inner_loop(loop: ast.For) -> bool:
    return any(isinstance(n, ast.For | ast.While) for n in ast.walk(loop) if n is not loop)


def _unpipelined(jit: Jit) -> Iterator[Opportunity]:
    for loop in unpipelined_loops(jit):
        yield Opportunity(
            kind=OpportunityKind.UNPIPELINED_LOOP,
            function=jit.name,
            line=loop.lineno,
            what=f"the loop over {ast.unparse(loop.iter)} loads from global memory and names no num_stages",
            why="without a matrix product Triton pipelines only a tl.range that names its stages, so each pass waits "
            "for its own loads",
        )


def _one_program_per_sm(reading: Reading, sites: Sequence[Site]) -> Iterator[Opportunity]:
    for site in sites:
        jit = site.launch.jit
        if site.kind is not KnobKind.PROGRAMS_PER_SM or jit is None:
            continue
        loops = [n for n in walk_scope(jit.node) if isinstance(n, ast.For) and reductions(n) and not has_dot(n)]
        loops = [n for n in loops if n in reading.addresses(jit).row_loops()]
        if loops:
            yield Opportunity(
                kind=OpportunityKind.ONE_PROGRAM_PER_SM,
                function=jit.name,
                line=site.line,
                what=f"the grid of {jit.name} follows the SM count, and the loop in line {loops[0].lineno} reduces",
                why="a program waits for a row's loads and its reduction before the next row, and one program leaves "
                "an SM nothing else to run meanwhile",
            )


def _heuristic_told(site: Site) -> str:
    told = str(site.expression)
    if told.startswith("if "):
        return f"is set in the branches of `{told.rstrip(':')}`"
    return f"comes from a heuristic: {told}"


def _stepped_warps(sites: Sequence[Site]) -> Iterator[Opportunity]:
    seen: set[tuple[int, str]] = set()
    for site in sites:
        host = site.launch.host_function
        stepped = site.origin in (KnobOrigin.HELPER, KnobOrigin.FORMULA)
        if site.kind is KnobKind.NUM_WARPS and stepped and (site.line, host) not in seen:
            seen.add((site.line, host))
            yield Opportunity(
                kind=OpportunityKind.STEPPED_WARPS,
                function=host,
                line=site.line,
                what=f"num_warps of {site.launch.jit_name} {_heuristic_told(site)}",
                why="steps chosen by hand fit the GPU and the widths they were chosen on",
            )
