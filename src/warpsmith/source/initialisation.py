"""Host tensors that are zeroed and then only stored to: by one kernel, before anything else touches them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.source.access import Access, Addresses
from warpsmith.source.launches import Launch, Reading
from warpsmith.source.syntax import Source, last_name, walk_scope

_ZEROING = frozenset({"zeros", "zeros_like", "new_zeros"})
#: What may be asked of a tensor without reading its values.
_METADATA = frozenset(
    {"shape", "stride", "dtype", "device", "numel", "size", "ndim", "dim", "element_size", "is_contiguous"}
)


@dataclass(frozen=True)
class Needless:
    """`allocation` is the call that zeroes; `stores` are the kernel's only accesses to the tensor."""

    variable: str
    allocation: ast.Call
    launch: Launch
    stores: tuple[Access, ...]


def needless_initialisations(reading: Reading) -> Iterator[Needless]:
    """In source order."""
    for scope in dict.fromkeys(launch.scope for launch in reading.launches):
        for node in walk_scope(scope):
            if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)):
                continue
            if isinstance(node.value, ast.Call) and zeroes(node.value):
                found = _only_stored_to(reading, node.targets[0].id, node, node.value)
                if found is not None:
                    yield found


def zeroes(call: ast.Call) -> bool:
    """Whether a call allocates a zeroed tensor."""
    return isinstance(call.func, ast.Attribute) and last_name(call.func) in _ZEROING


def _only_stored_to(reading: Reading, variable: str, statement: ast.Assign, call: ast.Call) -> Needless | None:
    scope = reading.source.scope_of(call)
    uses = [
        node
        for node in walk_scope(scope)
        if isinstance(node, ast.Name) and node.id == variable and node.lineno > statement.lineno
    ]
    touching = [node for node in uses if not _asks_metadata(reading.source, node)]
    if not touching:
        return None
    launch = next((launch for launch in reading.launches if _is_argument(launch, touching[0])), None)
    if launch is None or not _always_follows(reading.source, launch, statement):
        return None
    if sum(1 for each in reading.launches if each.scope is scope and any(_is_argument(each, n) for n in touching)) != 1:
        return None
    parameters = [launch.parameter_of(a) for a in (*launch.call.args, *(k.value for k in launch.call.keywords))
                  if isinstance(a, ast.Name) and a.id == variable]  # fmt: skip
    if launch.jit is None or len(parameters) != 1 or parameters[0] is None:
        return None
    stores = _stores_alone(reading, launch, parameters[0])
    return Needless(variable, call, launch, stores) if stores else None


def _asks_metadata(source: Source, node: ast.Name) -> bool:
    """`t.shape`, `t.stride(0)`, and comparisons with None."""
    parent = source.parents[node]
    if isinstance(parent, ast.Attribute):
        return parent.attr in _METADATA
    return isinstance(parent, ast.Compare) and all(isinstance(op, ast.Is | ast.IsNot) for op in parent.ops)


def _is_argument(launch: Launch, node: ast.Name) -> bool:
    return any(argument is node for argument in (*launch.call.args, *(k.value for k in launch.call.keywords)))


def _always_follows(source: Source, launch: Launch, statement: ast.stmt) -> bool:
    """Whether the launch runs whenever the allocation did: no branch or loop of its own stands around it."""
    blocks_of_allocation = [block for block, _ in source.blocks_above(statement, launch.scope)]
    for parent in source.ancestors(launch.call):
        if parent is launch.scope:
            return True
        if isinstance(parent, ast.If | ast.For | ast.While | ast.Try):
            inside = any(block in blocks_of_allocation for block in (parent.body, parent.orelse))
            if not inside:
                return False
    return True


def _stores_alone(reading: Reading, launch: Launch, parameter: str) -> tuple[Access, ...]:
    """The kernel's stores through a pointer parameter, if it does nothing else with it; else none."""
    assert launch.jit is not None
    addresses = Addresses(reading.source, launch.jit)
    touching = [a for a in addresses.accesses() if parameter in a.trait.parameters or a.pointer == parameter]
    if not touching or not all(a.is_store and a.pointer == parameter for a in touching):
        return ()
    for node in walk_scope(launch.jit.node):
        if isinstance(node, ast.Call) and last_name(node.func) in reading.jits:
            passed = [addresses.trait(a) for a in (*node.args, *(k.value for k in node.keywords))]
            if any(parameter in trait.parameters for trait in passed):
                return ()
    return tuple(touching)
