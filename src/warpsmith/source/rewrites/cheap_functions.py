"""Writes arithmetic in fewer instructions: rsqrt, exp2 of a scaled argument, a reciprocal made before the loop.

Results differ in the last bit, and exp2 gives 0 where exp is subnormal; the correctness gate judges.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.cheap_functions import (
    Division,
    Form,
    Root,
    divisions,
    exponentials,
    is_one,
    launched_kernels,
    roots,
)
from warpsmith.source.editing import Edits
from warpsmith.source.jit import Jit
from warpsmith.source.launches import Reading, read
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.syntax import dotted, is_name, walk_scope
from warpsmith.source.values import Values, reads

LOG2_E = 1.4426950408889634
_NAME = "LOG2_E"
WHY = "# exp2 of a scaled argument spares what exp does for subnormal results."


def use_cheap_functions(source: str, opportunity: Opportunity) -> str:
    """Every place of one form in one kernel, told by how the opportunity begins.

    One place after another, as they may lie inside each other. Raises NotApplicable where there is none, or a name
    that is needed is taken.
    """
    form = next((f for f in Form if opportunity.what.startswith(f.value)), None)
    if opportunity.kind is not OpportunityKind.COSTLY_FUNCTION or form is None:
        raise NotApplicable(f"{opportunity.kind.value} is no costly function")
    changed = _STEPS[form](read(source), opportunity.function)
    if changed is None:
        raise NotApplicable(f"{opportunity.function}: no place is left where {form.value}")
    while changed is not None:
        source, changed = changed, _STEPS[form](read(changed), opportunity.function)
    return source


def _text(reading: Reading, node: ast.expr) -> str:
    """The source of an expression, its further lines without the indentation that libcst gives them itself."""
    first, *further = (ast.get_source_segment(reading.source.text, node) or ast.unparse(node)).split("\n")
    statement = reading.source.statement_of(node)
    line = reading.source.text.split("\n")[statement.lineno - 1]
    indentation = line[: len(line) - len(line.lstrip())]
    return "\n".join([first, *(each.removeprefix(indentation) for each in further)])


def _kernel(reading: Reading, function: str) -> tuple[Jit, Values] | None:
    found = next((jit for jit in launched_kernels(reading) if jit.name == function), None)
    return None if found is None else (found, Values(reading, found))


def _root(reading: Reading, function: str) -> str | None:
    """The source with one root rewritten, None where there is none."""
    if (kernel := _kernel(reading, function)) is None:
        return None
    jit, values = kernel
    found = next(iter(roots(reading, jit, values)), None)
    if found is None:
        return None
    edits = Edits(reading.source.text, fits=True)
    assert isinstance(found.call.func, ast.Attribute)
    rsqrt = f"{_text(reading, found.call.func.value)}.rsqrt"
    if found.statement is None:
        _multiply(edits, reading, found.divisions[0], rsqrt + _arguments(reading, found.call))
        return edits.apply()
    _rename(edits, reading, jit, found, rsqrt)
    return edits.apply()


def _rename(edits: Edits, reading: Reading, jit: Jit, root: Root, rsqrt: str) -> None:
    """The name of a root becomes that of its reciprocal, where it is set and wherever it divides."""
    assert root.statement is not None and isinstance(root.statement.targets[0], ast.Name)
    name = root.statement.targets[0].id
    inverse = _free(reading, jit, f"inv_{name}")
    edits.replace(root.statement.targets[0], inverse)
    edits.replace(root.call.func, rsqrt)
    for division in root.divisions:
        _multiply(edits, reading, division, inverse + _text(reading, division.right)[len(name) :])


def _multiply(edits: Edits, reading: Reading, division: ast.BinOp, reciprocal: str) -> None:
    """`a / b` as `a * reciprocal`, `1 / b` as the reciprocal alone."""
    if is_one(division.left):
        edits.replace(division, reciprocal, bare=True)
        return
    whole = _text(reading, division)
    divisor = _text(reading, division.right)
    sign = whole[: whole.rindex(divisor)].rfind("/")
    product = _on_its_own(division, f"{whole[:sign].rstrip()} * {reciprocal}")
    left = ast.parse(product, mode="eval").body
    if not isinstance(left, ast.BinOp) or ast.dump(left.left) != ast.dump(division.left):
        raise NotApplicable(f"line {division.lineno}: comments stand within the division")
    edits.replace(division, product)


def _on_its_own(node: ast.expr, text: str) -> str:
    """A text that stands for a node as an expression without brackets around it: on one line, where it must be."""
    joined = " ".join(line.strip() for line in text.split("\n"))
    for each in (text, joined):
        try:
            ast.parse(each, mode="eval")
        except SyntaxError:
            continue
        if each is text or "#" not in text:
            return each
    raise NotApplicable(f"line {node.lineno}: comments stand within the expression")


def _arguments(reading: Reading, call: ast.Call) -> str:
    """The parentheses of a call and what is in them, as they stand."""
    return _text(reading, call)[len(_text(reading, call.func)) :]


def _exponential(reading: Reading, function: str) -> str | None:
    """The source with one exp rewritten, None where there is none."""
    if (kernel := _kernel(reading, function)) is None:
        return None
    jit, values = kernel
    call = next(exponentials(jit), None)
    if call is None:
        return None
    edits = Edits(reading.source.text, fits=True)
    assert isinstance(call.func, ast.Attribute)
    if not _knows_log2_e(reading, jit):
        _free(reading, jit, _NAME)
        language = _text(reading, call.func.value).removesuffix(".math")
        edits.add_at_entry(jit.node, f"{WHY}\n{_NAME}: {language}.constexpr = {LOG2_E}")
    edits.replace(call.func, f"{_text(reading, call.func.value)}.exp2")
    edits.replace(call.args[0], _on_its_own(call.args[0], _scaled(reading, call.args[0], values)), bare=True)
    return edits.apply()


def _scaled(reading: Reading, argument: ast.expr, values: Values) -> str:
    """An argument times log2(e), which goes to a factor that is one number."""
    text = _text(reading, argument)
    if isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.Mult):
        left, right = _text(reading, argument.left), _text(reading, argument.right)
        if values.is_number(argument.right):
            start = text.rindex(right)
            return f"{text[:start]}({right} * {_NAME}){text[start + len(right) :]}"
        if values.is_number(argument.left) and text.startswith(left):
            return f"({left} * {_NAME}){text[len(left) :]}"
    product = isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.Mult | ast.Div)
    atom = isinstance(argument, ast.Name | ast.Call | ast.Subscript | ast.Attribute | ast.UnaryOp)
    return f"{text} * {_NAME}" if product or atom else f"({text}) * {_NAME}"


def _knows_log2_e(reading: Reading, jit: Jit) -> bool:
    """Whether the kernel, or the module for all its kernels, has a constant of that name and value already."""
    for node in walk_scope(jit.node):
        if isinstance(node, ast.AnnAssign) and is_name(node.target, _NAME):
            return _is_log2_e(node.value)
    values = reading.source.module_values.get(_NAME, [])
    wrapped = values[0] if len(values) == 1 else None
    named = isinstance(wrapped, ast.Call) and (dotted(wrapped.func) or "").endswith("constexpr")
    return named and isinstance(wrapped, ast.Call) and len(wrapped.args) == 1 and _is_log2_e(wrapped.args[0])


def _is_log2_e(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, float) and abs(value.value - LOG2_E) < 1e-8


def _division(reading: Reading, function: str) -> str | None:
    """The source with all divisions by one name before one loop rewritten, but those inside another; None where there
    is none."""
    if (kernel := _kernel(reading, function)) is None:
        return None
    jit, values = kernel
    found = divisions(reading, jit, values)
    if not found:
        return None
    first = found[0]
    alike = [each for each in found if (each.divisor, each.before) == (first.divisor, first.before)]
    inverse = f"inv_{first.divisor}"
    edits = Edits(reading.source.text, fits=True)
    if not _is_made(first, reading, inverse):
        _free(reading, jit, inverse)
        edits.add_before(first.before, f"{inverse} = 1.0 / {first.divisor}")
    for each in alike:
        if not any(each is not other and each.node in ast.walk(other.node) for other in alike):
            _multiply(edits, reading, each.node, inverse)
    return edits.apply()


def _is_made(division: Division, reading: Reading, inverse: str) -> bool:
    """Whether the reciprocal stands before the loop already."""
    block, at = next(iter(reading.source.blocks_above(division.before, reading.source.scope_of(division.before))))
    return at > 0 and ast.unparse(block[at - 1]) == f"{inverse} = 1.0 / {division.divisor}"


def _free(reading: Reading, jit: Jit, name: str) -> str:
    if name in reading.source.module_values or name in jit.parameters or _names(jit, name):
        raise NotApplicable(f"{jit.name} has another {name}: name it apart first")
    return name


def _names(jit: Jit, name: str) -> bool:
    return bool(reads(jit.node, name)) or any(is_name(node, name) for node in ast.walk(jit.node))


_STEPS: dict[Form, Callable[[Reading, str], str | None]] = {
    Form.ROOT: _root,
    Form.EXPONENTIAL: _exponential,
    Form.DIVISION: _division,
}
