"""Accesses whose neighbouring elements lie a stride apart that nothing keeps at 1.

Only where the access has a single vector: of the two strides of a tile one is 1 by convention, and which one is
for the compiled code to say. A row's figures (one value a row) beside tiles of rows are left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.access import Access
from warpsmith.source.jit import Jit, has_dot, operation
from warpsmith.source.launches import Launch, Reading
from warpsmith.source.syntax import assignments, walk_scope
from warpsmith.source.terms import Term, in_order

#: Host calls whose result is contiguous. The `_like` ones keep the strides of a dense tensor.
_CONTIGUOUS = frozenset({"contiguous", "empty", "zeros", "ones", "full", "new_empty", "new_zeros", "new_full"})


def uncoalesced(reading: Reading, jit: Jit) -> Iterator[Opportunity]:
    """At most one opportunity, at the first such access."""
    launches = [launch for launch in reading.launches if launch.jit is jit]
    if not launches or has_dot(jit.node) or _has_block_pointers(jit):
        return
    terms = reading.terms(jit)
    found = [(access, terms.of(access.address)) for access in reading.addresses(jit).accesses()]
    if max((len(_vectors(address)) for _, address in found), default=0) != 1:
        return
    spread: dict[str, Access] = {}
    steps: dict[str, str] = {}
    for access, address in found:
        strides = _steps(address, jit) if _vectors(address) else []
        if access.pointer is not None and strides and not _are_one(launches, strides):
            spread.setdefault(access.pointer, access)
            steps |= {stride: _passed(launches, stride) for stride in strides}
    if spread:
        yield _opportunity(jit, spread, steps)


def _opportunity(jit: Jit, spread: dict[str, Access], steps: dict[str, str]) -> Opportunity:
    told = ", ".join(f"{step} ({passed})" for step, passed in steps.items())
    return Opportunity(
        kind=OpportunityKind.UNCOALESCED,
        function=jit.name,
        line=next(iter(spread.values())).call.lineno,
        what=f"if {told} {'is' if len(steps) == 1 else 'are'} not 1, neighbouring elements of {', '.join(spread)} lie "
        "that far apart, and nothing in the host code makes it 1",
        why="neighbouring threads share a sector of memory only where the step is 1; else each moves a sector of its "
        "own for one element",
    )


def _are_one(launches: Sequence[Launch], strides: Sequence[str]) -> bool:
    return all(_is_one(launch, stride) for launch in launches for stride in strides)


def _vectors(terms: frozenset[Term]) -> frozenset[str]:
    return frozenset(vector for term in terms for vector in term.vectors)


def _steps(terms: frozenset[Term], jit: Jit) -> list[str]:
    """The runtime parameters that every vector term is multiplied by; none where one has no such factor."""
    steps: list[str] = []
    for term in (each for each in in_order(terms) if each.vectors):
        strides = sorted(f for f in term.factors if f not in jit.constexprs or "stride" in f.lower())
        if not term.known or not strides:
            return []
        steps += [stride for stride in strides if stride not in steps]
    return steps


def _has_block_pointers(jit: Jit) -> bool:
    return any(operation(node) in ("make_block_ptr", "make_tensor_descriptor") for node in walk_scope(jit.node))


def _passed(launches: Sequence[Launch], parameter: str) -> str:
    """What the launches pass for it, in words."""
    told = dict.fromkeys(ast.unparse(value) for each in launches if (value := each.argument(parameter)) is not None)
    return " or ".join(told) or "not seen at the launch"


def _is_one(launch: Launch, parameter: str) -> bool:
    """Whether the host code makes sure that a launch passes 1."""
    value = launch.argument(parameter)
    if value is None:
        return True  # behind * or **, or left to a default: nothing is known, so nothing is said
    if isinstance(value, ast.IfExp):
        return False
    if isinstance(value, ast.Constant):
        return value.value in (0, 1)
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "stride"):
        return False
    tensor = ast.unparse(value.func.value)
    if value.args and ast.unparse(value.args[0]) == "0":
        return _has_one_dimension(launch, tensor)
    return _is_contiguous(launch, tensor)


def _is_contiguous(launch: Launch, tensor: str) -> bool:
    """Whether the function makes the tensor so, or asks for its strides."""
    made = [found.value for found in assignments(launch.scope) if found.name == tensor and found.value is not None]
    if any(operation(node) in _CONTIGUOUS for value in made for node in ast.walk(value)):
        return True
    for node in walk_scope(launch.scope):
        test = node.test if isinstance(node, ast.If | ast.Assert | ast.IfExp) else None
        told = ast.unparse(test) if test is not None else ""
        if f"{tensor}.is_contiguous" in told or f"{tensor}.stride" in told:
            return True
    decorators = getattr(launch.scope, "decorator_list", [])
    return any("contiguous" in ast.unparse(decorator) for decorator in decorators)


def _has_one_dimension(launch: Launch, tensor: str) -> bool:
    """Whether the function allocates the tensor with a single size."""
    for found in assignments(launch.scope):
        call = found.value
        if found.name == tensor and isinstance(call, ast.Call) and operation(call) in _CONTIGUOUS and call.args:
            size = call.args[0]
            alone = not isinstance(size, ast.Tuple | ast.List) or len(size.elts) == 1
            return alone and not (len(call.args) > 1 and operation(call) != "full")
    return False
