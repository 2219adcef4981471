"""Which expressions can hold no tensor: numbers, strings, dtypes, shapes, and containers of them.

Owns a cautious reading of values: what is not understood may be a tensor. Must not know what is done with the answer.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from warpsmith.source.allowed import TENSOR_MAKERS
from warpsmith.source.lifetimes import PLAIN_ATTRIBUTES, given
from warpsmith.source.names import BUILTINS
from warpsmith.source.scopes import Binding
from warpsmith.source.syntax import FunctionNode, walk_scope
from warpsmith.source.uses import Code

#: What gives a number, a string or a GPU's facts whatever it is given.
_ALWAYS_PLAIN = frozenset(
    f"{BUILTINS}.{name}"
    for name in ("int", "float", "bool", "str", "len", "isinstance", "issubclass", "callable", "hasattr", "range",
                 "repr", "complex", "any", "all", "hash")
) | {"torch.cuda.get_device_properties", "torch.cuda.get_device_capability"}  # fmt: skip
#: Methods of a tensor that give no tensors.
_PLAIN_METHODS = frozenset(
    {"size", "stride", "numel", "nelement", "dim", "element_size", "is_contiguous", "storage_offset", "get_device",
     "is_floating_point", "bit_length", "startswith", "endswith"}
)  # fmt: skip
#: Methods of a container, whose result is as plain as what it holds and is given.
_CONTAINER_METHODS = frozenset(
    {"get", "items", "keys", "values", "copy", "split", "rsplit", "strip", "lower", "upper", "join", "replace", "count",
     "_replace", "_asdict", "partition", "rpartition"}
)  # fmt: skip
#: Chosen: a hundred times what the longest source at hand takes; more is not understood.
_MOST_STEPS = 200_000
#: Comparisons that give a bool; others of tensors give tensors.
_NEVER_OF_TENSORS = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
_DISPLAYS = (ast.Tuple, ast.List, ast.Set)
_PARTS_DECIDE = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Starred, ast.FormattedValue, ast.Slice)


class Plainness:
    """Answers for one source. `parameters` says of a function's parameters which are plain; others may be tensors."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._open: set[ast.AST] = set()
        self._given_plain: dict[ast.AST, bool] = {}
        self._steps = 0

    def of(self, node: ast.expr | None, parameters: Mapping[str, bool] | None = None) -> bool:
        """Whether an expression can hold no tensor."""
        known = parameters or {}
        self._steps += 1
        if self._steps > _MOST_STEPS:
            return False
        if node is None or isinstance(node, ast.Constant | ast.JoinedStr):
            return True
        if isinstance(node, ast.Lambda):
            return self._code.names.scope_of(node).runs_at_import
        if isinstance(node, ast.Name):
            return self._name(node, known)
        if isinstance(node, ast.Attribute):
            if node.attr in PLAIN_ATTRIBUTES or self._code.names.origins(node):
                return True
            return self.of(node.value, known)
        if isinstance(node, ast.Subscript | ast.NamedExpr):
            return self.of(node.value, known)
        if isinstance(node, ast.Call):
            return self._call(node, known)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            return self.of(node.elt, known)
        if isinstance(node, ast.DictComp):
            return self.of(node.key, known) and self.of(node.value, known)
        if isinstance(node, _DISPLAYS):
            return all(self.of(each, known) for each in node.elts)
        if isinstance(node, ast.Dict):
            return all(self.of(each, known) for each in (*node.keys, *node.values))
        if isinstance(node, ast.IfExp):
            return self.of(node.body, known) and self.of(node.orelse, known)
        if isinstance(node, ast.Compare) and all(
            isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops
        ):
            return True
        if isinstance(node, _PARTS_DECIDE):
            return all(self.of(each, known) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
        return False

    def returns(self, function: FunctionNode, known: Mapping[str, bool]) -> bool:
        """Whether nothing that a function returns can hold a tensor. One that calls itself is judged by the rest."""
        if function in self._open:
            return True
        self._open.add(function)
        try:
            returned = [node.value for node in walk_scope(function) if isinstance(node, ast.Return)]
            return all(self.of(value, known) for value in returned)
        finally:
            self._open.discard(function)

    def _name(self, node: ast.Name, known: Mapping[str, bool]) -> bool:
        bindings, may_be_builtin = self._code.names.bindings_of(node)
        return (bool(bindings) or may_be_builtin) and all(self._binding(each, known) for each in bindings)

    def _binding(self, binding: Binding, known: Mapping[str, bool]) -> bool:
        if isinstance(binding.node, ast.arg):
            return known[binding.name] if binding.name in known else self._is_given_plain(binding)
        if binding.imported:
            return True
        if isinstance(binding.node, FunctionNode | ast.ClassDef):  # one that a function makes may hold what it saw
            return binding.scope.runs_at_import
        if binding.value is None:
            return False
        if binding.node in self._open:  # n = n // 2, judged by what n is given elsewhere
            return True
        self._open.add(binding.node)
        try:
            return self.of(binding.value, known)
        finally:
            self._open.discard(binding.node)

    def _is_given_plain(self, parameter: Binding) -> bool:
        """Whether its function is the source's own, and every call of it gives the parameter what is plain."""
        function = parameter.scope.node
        if not (isinstance(function, FunctionNode) and function.name.startswith("_")) or function in self._open:
            return False
        if function not in self._code.tree.body or parameter.node in self._open:
            return False
        if parameter.node not in self._given_plain:
            self._open.add(parameter.node)
            values = given(self._code, function, parameter.name)
            plain = bool(values) and all(value is not None and self.of(value) for value in values)
            self._given_plain[parameter.node] = plain
            self._open.discard(parameter.node)
        return self._given_plain[parameter.node]

    def _call(self, call: ast.Call, known: Mapping[str, bool]) -> bool:
        passed = [*call.args, *(keyword.value for keyword in call.keywords)]
        if origins := self._code.names.origins(call.func):
            if origins <= _ALWAYS_PLAIN:
                return True
            return not origins & TENSOR_MAKERS and all(self.of(each, known) for each in passed)
        if isinstance(call.func, ast.Attribute):
            if call.func.attr in _PLAIN_METHODS:
                return True
            plain = all(self.of(each, known) for each in (call.func.value, *passed))
            return call.func.attr in _CONTAINER_METHODS and plain
        if isinstance(call.func, ast.Name):
            bindings, _ = self._code.names.bindings_of(call.func)
            return bool(bindings) and all(self._own(each, call, known) for each in bindings)
        return False

    def _own(self, binding: Binding, call: ast.Call, known: Mapping[str, bool]) -> bool:
        """What a function or class of the source gives for these arguments."""
        passed = [*call.args, *(keyword.value for keyword in call.keywords)]
        if isinstance(binding.node, ast.ClassDef):
            inside = [node for node in ast.walk(binding.node) if isinstance(node, ast.Call)]
            makes = any(self._code.names.origins(each.func) & TENSOR_MAKERS for each in inside)
            return not makes and all(self.of(each, known) for each in passed)
        if not isinstance(binding.node, FunctionNode):
            return False
        arguments = binding.node.args
        names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        plain = dict.fromkeys(names, True)  # defaults, until something is passed
        starred = any(isinstance(each, ast.Starred) for each in call.args) or any(k.arg is None for k in call.keywords)
        for name, value in zip(names, call.args, strict=False):
            plain[name] = self.of(value, known)
        for keyword in call.keywords:
            if keyword.arg is not None:
                plain[keyword.arg] = self.of(keyword.value, known)
        if starred:
            plain = dict.fromkeys(names, all(self.of(each, known) for each in passed))
        return self.returns(binding.node, plain)
