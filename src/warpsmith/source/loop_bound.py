"""Why a load that never changes in a loop may not be run before it: branches, stores, programs without any pass.

Must not know what else would have to move with it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from warpsmith.source.access import LANGUAGE, Access, Trait
from warpsmith.source.aliasing import why_one_memory
from warpsmith.source.jit import STORES, Jit, operation
from warpsmith.source.launches import Reading
from warpsmith.source.loops import Loop
from warpsmith.source.syntax import dotted, walk_scope

#: What lets a program see what others wrote, so that a load after it may find something else.
_WAITS = frozenset({"debug_barrier", "atomic_cas", "atomic_xchg", "inline_asm_elementwise"})
#: The loops that a load leaves, innermost first.
Chain = tuple[Loop, ...]


def why_bound(reading: Reading, jit: Jit, access: Access, chain: Chain) -> str | None:
    """Why it must stay in the loops, None where it may leave them all."""
    rules: tuple[Callable[[Reading, Jit, Access, Chain], str | None], ...] = (_by_ways_out, _by_stores, _by_no_pass)
    found = (rule(reading, jit, access, chain) for rule in rules)
    return next((why for why in found if why is not None), None)


def _by_ways_out(_: Reading, __: Jit, ___: Access, chain: Chain) -> str | None:
    for node in walk_scope(chain[-1]):
        if isinstance(node, ast.Break | ast.Continue | ast.Return):
            return f"line {node.lineno} leaves the loop or a pass of it, maybe before the load"
    return None


def _by_stores(reading: Reading, jit: Jit, access: Access, chain: Chain) -> str | None:
    assert access.pointer is not None
    inside = set(ast.walk(chain[-1]))
    stores = [a for a in reading.addresses(jit).accesses() if not a.is_load and a.call in inside]
    for call in sorted((n for n in inside if isinstance(n, ast.Call)), key=lambda n: (n.lineno, n.col_offset)):
        if operation(call) in _WAITS:
            return f"line {call.lineno} waits for other programs, which may store what is loaded"
        if _may_store(reading, jit, call):
            called = ast.unparse(call.func)
            return f"line {call.lineno} calls {called}, and whether that stores what is loaded is not seen"
    if any(a.pointer is None for a in stores):
        return "the loop stores through a pointer that is no parameter of the kernel"
    return why_one_memory(reading, jit, access.pointer, (a.pointer for a in stores if a.pointer is not None))


def _by_no_pass(reading: Reading, jit: Jit, access: Access, chain: Chain) -> str | None:
    """Before the loop the load is run by programs whose loop has no pass too, so it must be safe for them."""
    passes = Trait()
    for loop in chain:
        passes |= reading.addresses(jit).trait(loop.iter if isinstance(loop, ast.For) else loop.test)
    of_program = bool(access.trait.axes) or access.trait.from_memory
    if (passes.axes or passes.from_memory) and of_program:
        return "some programs may have no pass of the loop, and their address may then lie outside the tensor"
    if passes.from_memory and access.mask is None:
        return "what was loaded may leave the loop without any pass, and the load has no mask"
    return None


def _may_store(reading: Reading, jit: Jit, call: ast.Call) -> bool:
    """Whether a call is of a function that may store through what it is given; `tl`'s own are looked at elsewhere."""
    if isinstance(call.func, ast.Attribute) and dotted(call.func.value) in LANGUAGE:
        return call.func.attr.endswith(("descriptor_store", "store_tensor_descriptor"))
    if isinstance(call.func, ast.Name) and call.func.id in reading.jits:
        return not _only_computes(reading, reading.jits[call.func.id])
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if isinstance(call.func, ast.Attribute):
        given.append(call.func.value)
    pointers = _pointers(reading, jit)
    return operation(call) in STORES or any(reading.addresses(jit).pointer(each) in pointers for each in given)


def _only_computes(reading: Reading, called: Jit) -> bool:
    names = [operation(node) or "" for node in walk_scope(called.node) if isinstance(node, ast.Call)]
    known = STORES | _WAITS | set(reading.jits)
    return not any(name in known or name.startswith("atomic_") for name in names)


def _pointers(reading: Reading, jit: Jit) -> set[str]:
    """Parameters that the kernel accesses memory through, or that are named so."""
    named = {name for name in jit.parameters if "ptr" in name.lower() or "pointer" in name.lower()}
    return named | {a.pointer for a in reading.addresses(jit).accesses() if a.pointer is not None}
