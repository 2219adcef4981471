"""64-bit arithmetic that a kernel does for every element, or that host code prepares. Cannot know if it is meant.

A scalar that is widened, such as program_id before it is multiplied by a stride, costs nothing and is good practice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.access import LANGUAGE, Addresses
from warpsmith.source.call_paths import CallPaths
from warpsmith.source.jit import Jit, operation
from warpsmith.source.launches import Reading
from warpsmith.source.loops import loops_around
from warpsmith.source.syntax import Source, assignments, dotted, last_name, lines_told, walk_scope

_DOUBLE = frozenset({"float64", "double"})


def wide_in_kernel(reading: Reading, jit: Jit) -> Iterator[Opportunity]:
    """fp64 in a jit function, and offsets of a whole block that are widened to int64."""
    doubles = _lines(node for node in walk_scope(jit.node) if _makes_doubles(reading.source, node))
    if doubles:
        yield _opportunity(
            jit.name,
            doubles,
            "it computes in fp64",
            "fp64 runs at half the rate of fp32 on a data-centre GPU and at a 64th on others, and takes twice the "
            "registers",
        )
    addresses = reading.addresses(jit)
    widened = _lines(node for node in walk_scope(jit.node) if _widens_a_block(reading.source, addresses, node))
    if widened:
        yield _opportunity(
            jit.name,
            widened,
            "the offsets of a whole block are widened to int64",
            "every address of the block is then computed in 64 bits, of twice the registers; a scalar that is widened "
            "before it is added to the pointer is enough",
        )


def wide_on_host(paths: CallPaths) -> Iterator[Opportunity]:
    """fp64 tensors in the functions that launch, or that run on the way to a launch."""
    for function in paths.on_the_way():
        lines = _lines(node for node in walk_scope(function) if _is_double_tensor(node))
        if lines:
            yield _opportunity(
                function.name,
                lines,
                "a tensor is made or converted in float64 before the launch",
                "twice the bytes of float32, and a kernel that loads it computes in fp64",
            )


def _lines(nodes: Iterator[ast.AST]) -> list[int]:
    return sorted({node.lineno for node in nodes if isinstance(node, ast.Call)})


def _opportunity(function: str, lines: list[int], what: str, why: str) -> Opportunity:
    told = f"{what} in {lines_told(lines)}"
    return Opportunity(kind=OpportunityKind.WIDE_ARITHMETIC, function=function, line=lines[0], what=told, why=why)


def _passed(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(k.value for k in call.keywords)]


def _makes_doubles(source: Source, node: ast.AST) -> bool:
    """`x.to(tl.float64)`, `tl.zeros(shape, tl.float64)`; not where the code asks whether its input is fp64."""
    return (
        isinstance(node, ast.Call) and any(_is_double(each) for each in _passed(node)) and not _is_asked(source, node)
    )


def _is_asked(source: Source, node: ast.AST) -> bool:
    """Whether a test around a node chose 64 bits: `if LONG_INDEXING`, `if x.dtype == tl.float64`."""
    tests = (n.test for n in source.ancestors(node) if isinstance(n, ast.If | ast.IfExp))
    return any("64" in told or "LONG" in told.upper() for told in map(ast.unparse, tests))


def _is_double(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "float64" and dotted(node.value) in LANGUAGE


def _widens_a_block(source: Source, addresses: Addresses, node: ast.AST) -> bool:
    """`tl.arange(...).to(tl.int64)`, and in a loop any offsets, unless they are multiplied and so may overflow."""
    if not isinstance(node, ast.Call) or operation(node) not in ("to", "cast") or _is_asked(source, node):
        return False
    if not any(isinstance(each, ast.Attribute) and each.attr == "int64" for each in _passed(node)):
        return False
    assert isinstance(node.func, ast.Attribute | ast.Name)
    function = isinstance(node.func, ast.Name) or dotted(node.func.value) in LANGUAGE
    widened = node.args[0] if function else node.func.value if isinstance(node.func, ast.Attribute) else node
    trait = addresses.trait(widened)
    if not trait.block or trait.from_memory or _is_multiplied(source, addresses, node):
        return False
    return operation(widened) == "arange" or bool(loops_around(source, node, addresses.jit))


def _is_multiplied(source: Source, addresses: Addresses, node: ast.AST) -> bool:
    """Whether a parameter multiplies the value, where it stands or by the name that it is given."""
    names = {found.name for found in assignments(source.statement_of(node))}
    for product in walk_scope(addresses.jit.node):
        if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
            for side, other in ((product.left, product.right), (product.right, product.left)):
                held = any(n is node or (isinstance(n, ast.Name) and n.id in names) for n in ast.walk(side))
                if held and addresses.trait(other).parameters:
                    return True
    return False


def _is_double_tensor(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if any(isinstance(e, ast.Attribute) and e.attr in _DOUBLE and dotted(e.value) == "torch" for e in _passed(node)):
        return last_name(node.func) not in ("isinstance", "Tensor") and not _asks(node)
    return isinstance(node.func, ast.Attribute) and node.func.attr == "double" and not node.args


def _asks(call: ast.Call) -> bool:
    """Whether a call only looks at a dtype: `torch.finfo(torch.float64)`, `is_supported(torch.float64)`."""
    name = last_name(call.func)
    return name in ("finfo", "iinfo", "promote_types", "result_type", "can_cast") or name.startswith(("is_", "check"))
