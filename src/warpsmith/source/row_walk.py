"""Walks through the statements of a row kernel: what each value varies along, and what would change with several rows.

A row kernel has one program a row. Were a program to hold several, what varies along rows would be a column of the
tile, what varies along columns a row of it. Whatever is not known here is refused with its line.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from warpsmith.source.access import LANGUAGE
from warpsmith.source.jit import Jit
from warpsmith.source.program_ids import axis_of, uncast
from warpsmith.source.row_values import RowKernel, Varies, bound, fits, unknown
from warpsmith.source.syntax import assigns, dotted, is_name

#: Functions of triton.language that work element by element and broadcast what they are given.
_ELEMENT_WISE = frozenset(
    {"abs", "cast", "cdiv", "ceil", "clamp", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma", "log"}
    | {"log2", "maximum", "minimum", "rsqrt", "sigmoid", "sin", "sqrt", "sqrt_rn", "where"}
)
#: Reductions that take an axis and keep_dims.
_REDUCTIONS = frozenset({"sum", "max", "min", "argmax", "argmin"})
_LOADING = ("pointer", "mask", "other")
_STORING = ("pointer", "value", "mask")


class Walk:
    """Walks through a jit function once. `helper` is one that a kernel calls: element by element, no memory."""

    def __init__(
        self, jit: Jit, jits: Mapping[str, Jit], imported: Mapping[str, frozenset[str]], *, helper: bool = False
    ) -> None:
        self.jit, self.jits, self.imported, self.helper = jit, jits, imported, helper
        self.found = RowKernel()
        self.returned: Varies | None = None

    def through(self, arguments: Mapping[str, Varies] | None = None) -> RowKernel:
        """Raises NotApplicable at what is not known."""
        values = {name: Varies() for name in self.jit.parameters} | dict(arguments or {})
        self._block(self.jit.node.body, values)
        return self.found

    def _block(self, statements: Iterable[ast.stmt], values: dict[str, Varies]) -> None:
        for statement in statements:
            if self.returned is not None:
                raise unknown(statement, "stands after a return")
            self._statement(statement, values)

    def _statement(self, statement: ast.stmt, values: dict[str, Varies]) -> None:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                values[name] = self._value(value, values)
                if self.found.row is None and self.found.program_ids and _is_row(value, self.found.program_ids[0]):
                    self.found.row = statement
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                values[name] = self._value(value, values)
            case ast.AugAssign(target=ast.Name(id=name) as target, value=value):
                read = ast.copy_location(ast.Name(name, ast.Load()), target)
                values[name] = self._value(read, values) | self._value(value, values)
            case ast.If(test=test, body=body, orelse=orelse) if self._is_static(test):
                then, other = dict(values), dict(values)
                self._block(body, then)
                self._block(orelse, other)
                for name in then.keys() | other.keys():
                    one, two = then.get(name), other.get(name)
                    values[name] = one.either(two) if one and two else (one or two or Varies())
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=ast.Call() as call) if self._language(call) == "store" and not self.helper:
                self._store(call, values)
            case ast.Expr(value=ast.Call() as call) if self._language(call) == "static_assert":
                pass
            case ast.Return(value=ast.expr() as value) if self.helper:
                self.returned = self._value(value, values)
            case _:
                raise unknown(statement)

    def _is_static(self, test: ast.expr) -> bool:
        """Whether a test is decided while the kernel is compiled."""
        match test:
            case ast.Compare(left=ast.Name(), ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
                return True
            case ast.Name(id=name):
                own = name in self.jit.parameters or assigns(self.jit.node, name)
                return name in self.jit.constexprs or not own
            case ast.Constant():
                return True
            case ast.UnaryOp(operand=operand):
                return self._is_static(operand)
            case ast.BoolOp(values=operands):
                return all(map(self._is_static, operands))
            case ast.Compare(left=left, comparators=others):
                return all(map(self._is_static, (left, *others)))
        return False

    def _value(self, node: ast.expr, values: dict[str, Varies]) -> Varies:
        match node:
            case ast.Constant():
                return Varies()
            case ast.Name(id=name):
                if name not in values and assigns(self.jit.node, name):
                    raise unknown(node, "is read where it may not be set")
                return values.get(name, Varies())
            case ast.BinOp(left=left, right=right):
                return self._value(left, values) | self._value(right, values)
            case ast.UnaryOp(operand=operand):
                return self._value(operand, values)
            case ast.Compare(left=left, comparators=[right]):
                result = self._value(left, values) | self._value(right, values)
                self.found.masks_columns |= result.cols and not result.rows
                return result
            case ast.IfExp(test=test, body=body, orelse=orelse) if self._is_static(test):
                return self._value(body, values).either(self._value(orelse, values))
            case ast.Attribute(attr="dtype" | "type" | "element_ty", value=value):
                self._value(value, values)
                return Varies()
            case ast.Attribute() if (dotted(node) or "").partition(".")[0] in LANGUAGE:
                return Varies()
            case ast.Call():
                return self._call(node, values)
        raise unknown(node)

    def _call(self, call: ast.Call, values: dict[str, Varies]) -> Varies:
        name, first = self._language(call), call.args[0] if call.args else None
        if not self.helper and name == "program_id":
            return self._program_id(call)
        if not self.helper and name == "arange":
            return self._range(call)
        if not self.helper and name == "load":
            return self._load(call, values)
        if not self.helper and name in _REDUCTIONS:
            return self._reduction(call, values)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "to" and name is None:
            return self._value(call.func.value, values)
        if is_name(call.func, "float") and isinstance(first, ast.Constant):
            return Varies()
        given = [self._value(each, values) for each in (*call.args, *(k.value for k in call.keywords))]
        helper = self.jits.get(call.func.id) if isinstance(call.func, ast.Name) else None
        if helper is not None and not call.keywords and len(given) <= len(helper.parameters):
            return self._called(helper, given)
        if name in _ELEMENT_WISE or self._is_of_a_math_library(call.func):
            result = Varies()
            for each in given:
                result |= each
            return result
        raise unknown(call.func)

    def _called(self, helper: Jit, given: list[Varies]) -> Varies:
        if self.helper:
            raise unknown(helper.node, "is called by a function that is called itself")
        walk = Walk(helper, {}, self.imported, helper=True)
        walk.through(dict(zip(helper.parameters, given, strict=False)))
        if walk.returned is None:
            raise unknown(helper.node, "returns nothing")
        return walk.returned

    def _language(self, call: ast.Call) -> str | None:
        """The name of a function of triton.language."""
        path = dotted(call.func) or ""
        base, _, name = path.rpartition(".")
        return name if base in LANGUAGE else None

    def _is_of_a_math_library(self, function: ast.expr) -> bool:
        path = dotted(function) or ""
        root, _, rest = path.partition(".")
        whole = [f"{each}.{rest}".rstrip(".").rpartition(".")[0] for each in self.imported.get(root, {root})]
        return all(m.startswith("triton.language.") and m.rpartition(".")[2] in ("math", "libdevice") for m in whole)

    def _program_id(self, call: ast.Call) -> Varies:
        if axis_of(call) != 0:
            raise unknown(call, "is of another axis than the first")
        self.found.program_ids.append(call)
        return Varies(rows=True)

    def _range(self, call: ast.Call) -> Varies:
        match call:
            case ast.Call(args=[ast.Constant(value=0), ast.Name(id=block)], keywords=[]) if (
                block in self.jit.constexprs and self.found.block in ("", block)
            ):
                self.found.block = block
                self.found.ranges.append(call)
                return Varies(cols=True)
        raise unknown(call, "is no range over the one block that holds a row")

    def _reduction(self, call: ast.Call, values: dict[str, Varies]) -> Varies:
        axes = [*call.args[1:], *(k.value for k in call.keywords)]
        named = all(k.arg == "axis" for k in call.keywords)
        if not call.args or len(axes) > 1 or not named or any(ast.unparse(axis) not in ("0", "-1") for axis in axes):
            raise unknown(call)
        reduced = self._value(call.args[0], values)
        if not (reduced.rows and reduced.cols):
            raise unknown(call, "reduces what does not vary along both rows and columns")
        self.found.reductions.append(call)
        return Varies(rows=True, sure=reduced.sure)

    def _load(self, call: ast.Call, values: dict[str, Varies]) -> Varies:
        given = bound(call, _LOADING)
        at = self._address(call, given, values)
        other = self._value(given["other"], values) if "other" in given else Varies()
        if not fits(other, at):
            raise unknown(call, "is filled with what varies along more than it")
        return at

    def _store(self, call: ast.Call, values: dict[str, Varies]) -> None:
        given = bound(call, _STORING)
        at = self._address(call, given, values)
        if not at.rows:
            raise unknown(call, "is a store of every program to one place")
        if "value" not in given or not fits(self._value(given["value"], values), at):
            raise unknown(call, "stores what varies along more than it")
        self.found.stores += 1

    def _address(self, call: ast.Call, given: Mapping[str, ast.expr], values: dict[str, Varies]) -> Varies:
        """What the address varies along; where that is the rows, the access is one to be masked by them."""
        at = self._value(given["pointer"], values) if "pointer" in given else Varies(sure=False)
        mask = given.get("mask")
        masked = self._value(mask, values) if mask is not None else Varies()
        if not (at.sure and masked.sure) or not fits(masked, at) or isinstance(mask, ast.Constant):
            raise unknown(call)
        if at.rows:
            self.found.accesses.append((call, mask))
        return at


def _is_row(value: ast.expr, program_id: ast.Call) -> bool:
    """`tl.program_id(0)`, in whatever integer type."""
    return uncast(value) is program_id
