"""Host tensors that are zeroed and then only stored to: by one kernel, before anything else touches them.

Several launches count as one where only one of them can run. Must not know how the allocation is rewritten.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from warpsmith.source.access import Access, Addresses
from warpsmith.source.branches import always_follows, exclusive
from warpsmith.source.jit import Jit
from warpsmith.source.launches import Launch, Reading
from warpsmith.source.syntax import Source, last_name, walk_scope

_ZEROING = frozenset({"zeros", "zeros_like", "new_zeros"})
#: What may be asked of a tensor without reading its values.
_METADATA = frozenset(
    {"shape", "stride", "dtype", "device", "numel", "size", "ndim", "dim", "element_size", "is_contiguous"}
)


@dataclass(frozen=True)
class Needless:
    """`allocation` is the call that zeroes; `stores` are the only accesses to the tensor, by the launch they are of."""

    variable: str
    allocation: ast.Call
    stores: tuple[tuple[Launch, tuple[Access, ...]], ...]

    @property
    def host_function(self) -> str:
        return self.stores[0][0].host_function


def needless_initialisations(reading: Reading) -> Iterator[Needless]:
    """In source order."""
    for scope in dict.fromkeys(launch.scope for launch in reading.launches):
        for node in walk_scope(scope):
            if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)):
                continue
            for call in _zeroing_calls(node.value):
                found = _only_stored_to(reading, node.targets[0].id, node, call)
                if found is not None:
                    yield found


def _zeroing_calls(value: ast.expr) -> list[ast.Call]:
    """What a value zeroes, as it is or as one choice of a conditional expression."""
    choices = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
    return [choice for choice in choices if isinstance(choice, ast.Call) and zeroes(choice)]


def zeroes(call: ast.Call) -> bool:
    """Whether a call allocates a zeroed tensor."""
    return isinstance(call.func, ast.Attribute) and last_name(call.func) in _ZEROING


def _only_stored_to(reading: Reading, variable: str, statement: ast.Assign, call: ast.Call) -> Needless | None:
    scope = reading.source.scope_of(call)
    touching = [
        node
        for node in walk_scope(scope)
        if isinstance(node, ast.Name) and node.id == variable and node.lineno > statement.lineno
        if not _asks_metadata(reading.source, node) and not exclusive(reading.source, node, statement)
    ]
    launches = [each for each in reading.launches if any(_is_argument(each, node) for node in touching)]
    if not _one_of_them_comes_first(reading.source, launches, statement, touching):
        return None
    stores: list[tuple[Launch, tuple[Access, ...]]] = []
    for launch in launches:
        found = _stores_alone(reading, launch, variable)
        if not found:
            return None
        stores.append((launch, found))
    return Needless(variable, call, tuple(stores))


def _one_of_them_comes_first(
    source: Source, launches: Sequence[Launch], statement: ast.stmt, touching: Sequence[ast.Name]
) -> bool:
    """Whether exactly one of the launches runs after the allocation, always, and before any other use."""
    if not launches or not always_follows(source, [each.call for each in launches], statement, launches[0].scope):
        return False
    if not all(exclusive(source, a.call, b.call) for a, b in combinations(launches, 2)):
        return False
    return not any(
        node.lineno < launch.line and not exclusive(source, node, launch.call)
        for launch in launches
        for node in touching
    )


def _asks_metadata(source: Source, node: ast.Name) -> bool:
    """`t.shape`, `t.stride(0)`, and comparisons with None."""
    parent = source.parents[node]
    if isinstance(parent, ast.Attribute):
        return parent.attr in _METADATA
    return isinstance(parent, ast.Compare) and all(isinstance(op, ast.Is | ast.IsNot) for op in parent.ops)


def _is_argument(launch: Launch, node: ast.Name) -> bool:
    return any(argument is node for argument in (*launch.call.args, *(k.value for k in launch.call.keywords)))


def _stores_alone(reading: Reading, launch: Launch, variable: str) -> tuple[Access, ...]:
    """The kernel's stores to the tensor, if it does nothing else with it and each covers what it is for; else none."""
    passed = (*launch.call.args, *(k.value for k in launch.call.keywords))
    parameters = [launch.parameter_of(a) for a in passed if isinstance(a, ast.Name) and a.id == variable]
    if launch.jit is None or len(parameters) != 1 or parameters[0] is None:
        return ()
    parameter, addresses = parameters[0], reading.addresses(launch.jit)
    touching = [a for a in addresses.accesses() if parameter in a.trait.parameters or a.pointer == parameter]
    if not touching or not all(a.is_store and a.pointer == parameter for a in touching):
        return ()
    if any(_is_spread(reading, launch.jit, access) for access in touching):
        return ()
    if not all(_covers(reading.source, addresses, access) for access in touching):
        return ()
    for node in walk_scope(launch.jit.node):
        if isinstance(node, ast.Call) and last_name(node.func) in reading.jits:
            handed = [addresses.trait(a) for a in (*node.args, *(k.value for k in node.keywords))]
            if any(parameter in trait.parameters for trait in handed):
                return ()
    return tuple(touching)


def _is_spread(reading: Reading, jit: Jit, store: Access) -> bool:
    """Whether a store leaves gaps: its only vector is multiplied by a parameter, as for a diagonal."""
    along = [term for term in reading.terms(jit).of(store.address) if term.vectors]
    return len({vector for term in along for vector in term.vectors}) == 1 and any(term.factors for term in along)


def _covers(source: Source, addresses: Addresses, store: Access) -> bool:
    """Whether what a store leaves out cannot depend on values in memory, nor on which program it is but by a bound."""
    if store.trait.from_memory or (store.mask is not None and addresses.trait(store.mask).from_memory):
        return False
    tests = list(store.tests)
    for node in source.ancestors(store.call):
        if isinstance(node, ast.For | ast.While):
            tests.append(node.iter if isinstance(node, ast.For) else node.test)
    for node in walk_scope(addresses.jit.node):
        if isinstance(node, ast.Return) and node.lineno < store.call.lineno:
            tests += [parent.test for parent in source.ancestors(node) if isinstance(parent, ast.If)]
    return not any(_singles_out(addresses, test) for test in tests)


def _singles_out(addresses: Addresses, test: ast.expr) -> bool:
    trait = addresses.trait(test)
    bounds = ast.Lt | ast.LtE | ast.Gt | ast.GtE
    compared = [op for node in ast.walk(test) if isinstance(node, ast.Compare) for op in node.ops]
    return trait.from_memory or (bool(trait.axes) and any(not isinstance(op, bounds) for op in compared))
