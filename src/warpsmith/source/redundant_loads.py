"""Loads that a kernel makes again: of what does not change in a loop, and of what another loop loaded before."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import combinations

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.access import Access, Addresses
from warpsmith.source.branches import exclusive
from warpsmith.source.jit import Jit, operation
from warpsmith.source.launches import Reading
from warpsmith.source.loops import Loop, changing, differs, loops_around, writes_memory
from warpsmith.source.syntax import Source, assignments, mentions, names_read, walk_scope

#: Chosen: an address that spells out longer than this is not compared.
_LONGEST_ADDRESS = 400


def loop_invariant_loads(reading: Reading, jit: Jit) -> Iterator[Opportunity]:
    """Loads whose address and mask are the same in every pass of a loop that Triton does not take them out of."""
    for access, loop in invariant_loads(reading, jit):
        yield Opportunity(
            kind=OpportunityKind.LOOP_INVARIANT_LOAD,
            function=jit.name,
            line=access.call.lineno,
            what=f"{access.pointer} is loaded in every pass of the loop in line {loop.lineno}, and neither "
            "address nor mask changes in it",
            # Seen in the TTGIR that Triton 3.7.1 writes for such loops, with and without a store.
            why="Triton takes a load out of a loop only if it is a for loop that writes no memory, so every pass "
            "waits for the same data again",
        )


def invariant_loads(reading: Reading, jit: Jit) -> Iterator[tuple[Access, Loop]]:
    """Each of them with the outermost such loop."""
    addresses = reading.addresses(jit)
    change: dict[Loop, set[str]] = {}
    for access in addresses.accesses():
        if not access.is_load or access.through_descriptor or access.pointer is None or _is_volatile(access):
            continue
        outermost: Loop | None = None
        for loop in loops_around(reading.source, access.call, jit):
            if loop not in change:
                change[loop] = changing(addresses, loop)
            if not _is_invariant(reading.source, addresses, access, loop, change[loop]):
                break
            if isinstance(loop, ast.While) or writes_memory(loop):
                outermost = loop
        if outermost is not None:
            yield access, outermost


def _is_invariant(source: Source, addresses: Addresses, access: Access, loop: Loop, names: set[str]) -> bool:
    read = names_read(access.call)
    inner = [node for node in source.ancestors(access.call) if loop in source.ancestors(node)]
    for node in inner:
        if isinstance(node, ast.If | ast.While):
            read |= names_read(node.test)
    if read & names or differs(access.call):
        return False
    inside = set(ast.walk(loop))
    if any(a.pointer in (access.pointer, None) and not a.is_load and a.call in inside for a in addresses.accesses()):
        return False
    return isinstance(loop, ast.For) or not _is_waited_for(source, access, loop)


def _is_waited_for(source: Source, access: Access, loop: ast.While) -> bool:
    """Whether a `while` asks for what is loaded: it polls memory."""
    statement = source.statement_of(access.call)
    return any(mentions(loop.test, found.name) for found in assignments(statement))


def _is_volatile(access: Access) -> bool:
    return any(
        (k.arg == "volatile" and not (isinstance(k.value, ast.Constant) and not k.value.value))
        or (k.arg == "cache_modifier" and isinstance(k.value, ast.Constant) and k.value.value == ".cv")
        for k in access.call.keywords
    )


def repeated_passes(reading: Reading, jit: Jit) -> Iterator[Opportunity]:
    """Loops over the same range, one after the other, that load the same addresses."""
    loads: dict[tuple[str, str], list[Access]] = {}
    for access in reading.addresses(jit).accesses():
        if access.is_load and access.pointer is not None and isinstance(access.loop, ast.For) and access.trait.block:
            over, address = _range_of(access.loop), _spelled_out(access.loop, access.address)
            if over is not None and address is not None:
                loads.setdefault((over, address), []).append(access)
    pointers: dict[tuple[ast.For, ...], list[str]] = {}
    for found in loads.values():
        loops = _one_after_the_other(reading.source, [a.loop for a in found if isinstance(a.loop, ast.For)])
        if len(loops) > 1 and found[0].pointer is not None:
            named = pointers.setdefault(loops, [])
            named += [found[0].pointer] if found[0].pointer not in named else []
    for loops, named in pointers.items():
        lines = ", ".join(str(loop.lineno) for loop in loops[:-1])
        yield Opportunity(
            kind=OpportunityKind.REPEATED_PASS,
            function=jit.name,
            line=loops[1].lineno,
            what=f"the loops in lines {lines} and {loops[-1].lineno} each load {', '.join(named)} over "
            f"{ast.unparse(loops[0].iter)}",
            why="each pass reads the data again, from L2 at best; a block that holds it, or an algorithm that needs "
            "fewer passes, reads it less often",
        )


def _one_after_the_other(source: Source, loops: list[ast.For]) -> tuple[ast.For, ...]:
    """The loops, once each, where all of them run one after the other; else none."""
    distinct = tuple(dict.fromkeys(loops))
    for a, b in combinations(distinct, 2):
        if a in source.ancestors(b) or b in source.ancestors(a) or exclusive(source, a, b):
            return ()
    return distinct


def _range_of(loop: ast.For) -> str | None:
    """What a loop runs over, without what only concerns its pipelining."""
    if not isinstance(loop.iter, ast.Call) or operation(loop.iter) not in ("range", "static_range"):
        return None
    told = [ast.unparse(argument) for argument in loop.iter.args]
    return ", ".join(["0", *told] if len(told) == 1 else told)


def _spelled_out(loop: ast.For, address: ast.expr) -> str | None:
    """An address with what the loop computes for it put in, and the loop's variable as `_`.

    None for an address that does not change in the loop, or is too long.
    """
    values: dict[str, list[ast.expr | None]] = {}
    for node in walk_scope(loop):
        if isinstance(node, ast.stmt):
            direct = node if not isinstance(node, ast.For | ast.While | ast.If | ast.With) else None
            for found in assignments(direct) if direct is not None else ():
                plain = isinstance(found.node, ast.Assign)
                values.setdefault(found.name, []).append(found.value if plain else None)
    variable = loop.target.id if isinstance(loop.target, ast.Name) else ""
    spelled = _Spelling(variable, {name: found[0] for name, found in values.items() if len(found) == 1})
    told = spelled.told(address)
    moves = spelled.moved or any(name in names_read(address) for name, found in values.items() if None in found)
    return told if moves and len(told) <= _LONGEST_ADDRESS else None


class _Spelling:
    """Puts values in the place of names. `moved`: the loop's variable was met."""

    def __init__(self, variable: str, values: dict[str, ast.expr | None]) -> None:
        self.variable, self.values, self.moved = variable, values, False

    def told(self, node: ast.expr, depth: int = 8) -> str:
        spelling = self

        class Replace(ast.NodeTransformer):
            def visit_Name(self, name: ast.Name) -> ast.expr:
                if name.id == spelling.variable:
                    spelling.moved = True
                    return ast.Name("_", ast.Load())
                value = spelling.values.get(name.id)
                if value is None or depth == 0:
                    return name
                return ast.Name(f"({spelling.told(value, depth - 1)})", ast.Load())

        copy = ast.parse(ast.unparse(node), mode="eval").body
        told: ast.AST = Replace().visit(copy)
        return ast.unparse(told)[: _LONGEST_ADDRESS + 1]
