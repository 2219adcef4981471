"""How long what a name holds may live: made in this call, given by a caller, or kept from call to call.

Owns a cautious reading of where values come from. Must not know what is refused.
"""

from __future__ import annotations

import ast

from warpsmith.source.names import BUILTINS
from warpsmith.source.scopes import Binding
from warpsmith.source.syntax import FunctionNode, walk_scope
from warpsmith.source.uses import Code

AUTOGRAD = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
#: Methods in which autograd gives an object that it made for one call, to keep state in. Backward may run again.
_FORWARD = frozenset({"forward", "setup_context"})
CONTAINERS = frozenset(
    f"{BUILTINS}.{name}" for name in ("dict", "list", "set", "tuple", "sorted")
) | {"collections.defaultdict", "collections.OrderedDict", "collections.Counter", "collections.deque"}  # fmt: skip
#: Methods that give a new tensor or container, or a view that only this call has.
_MAKING = frozenset({"new_empty", "new_zeros", "new_ones", "new_full", "new_tensor", "clone", "copy", "sum"})
#: Those that give the tensor itself where there is nothing to do.
_MAKING_OR_SAME = frozenset({"contiguous", "to", "float", "half", "view", "reshape", "flatten"})
_NEW_TENSORS = tuple(f"torch.{name}" for name in ("empty", "zeros", "ones", "full", "arange", "tensor"))
#: Classes of which no two objects are equal.
_IDENTITIES = AUTOGRAD | {
    "torch.nn.Module",
    "typing.Generic",
    "typing.Protocol",
    *(f"{BUILTINS}.{name}" for name in ("object", "Exception", "RuntimeError", "ValueError", "TypeError")),
}
DISPLAYS = (ast.Dict, ast.List, ast.Set, ast.Tuple, ast.DictComp, ast.ListComp, ast.SetComp)
#: Attributes of a tensor that are no tensors.
PLAIN_ATTRIBUTES = frozenset({"shape", "dtype", "device", "ndim", "itemsize", "index", "is_cuda", "layout", "nbytes"})
_FRESH = (*DISPLAYS, ast.BinOp, ast.Constant)


def gets_nothing_kept(code: Code, parameter: Binding) -> bool:
    """Whether the source gives its function's parameter only what callers gave, or what was made in the same call.

    Of a method but autograd's own nobody can tell, as calls of it are not followed.
    """
    function = parameter.scope.node
    if not isinstance(function, FunctionNode):
        return False
    owner = code.parent(function)
    if isinstance(owner, ast.ClassDef) and not _is_autograd(code, owner):
        return False
    return all(value is not None and _is_passed_on(code, value) for value in given(code, function, parameter.name))


def is_made_for_the_call(code: Code, parameter: Binding) -> bool:
    """Whether only the source calls its function, and with what was made in the same call, autograd's context too."""
    function = parameter.scope.node
    if not isinstance(function, FunctionNode) or isinstance(code.parent(function), ast.ClassDef):
        return False
    values = given(code, function, parameter.name)
    return bool(values) and all(
        value is not None and (takes_state(code, value) or is_of_this_call(code, value, surely=True))
        for value in values
    )


def given(code: Code, function: FunctionNode, parameter: str) -> list[ast.expr | None]:
    """What every mention of a function passes for a parameter; None where that cannot be read."""
    if function.decorator_list and not isinstance(code.parent(function), ast.ClassDef):
        return [None]  # a decorator may pass something else
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    found: list[ast.expr | None] = []
    for node in ast.walk(code.tree):
        if not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id == function.name):
            continue
        call = code.parent(node)
        if not (isinstance(call, ast.Call) and call.func is node):
            found.append(None)
            continue
        passed: dict[str | None, ast.expr] = dict(zip(names, call.args, strict=False))
        passed.update((each.arg, each.value) for each in call.keywords)
        found.append(passed.get(parameter))
    return found


def _is_passed_on(code: Code, value: ast.expr) -> bool:
    if isinstance(value, ast.Constant | ast.BinOp) or is_of_this_call(code, value):
        return True
    return isinstance(value, ast.Name) and all(
        isinstance(each.node, ast.arg) for each in code.names.bindings_of(value)[0]
    )


def is_of_this_call(code: Code, receiver: ast.expr, *, surely: bool = False) -> bool:
    """Whether the same function made it, in every way in which it may come about.

    `surely` leaves out what may be an argument again, as `x.contiguous()` may be x.
    """
    if not isinstance(receiver, ast.Name):
        return False
    scope = code.names.scope_of(receiver)
    if isinstance(scope.node, ast.Lambda):  # it may be called later
        return False
    function = scope.function
    bindings, _ = code.names.bindings_of(receiver)
    within = [each for each in bindings if each.scope.function is function and not each.scope.runs_at_import]
    return bool(bindings) and len(within) == len(bindings) and all(_is_fresh(code, each, surely) for each in bindings)


def _is_fresh(code: Code, binding: Binding, surely: bool) -> bool:
    if isinstance(binding.node, ast.arg):
        arguments = binding.scope.node.args if isinstance(binding.scope.node, FunctionNode) else None
        return arguments is not None and binding.node in (arguments.vararg, arguments.kwarg)
    if isinstance(code.parent(binding.node), ast.AugAssign):
        return True  # decided by what it is added to
    return binding.value is not None and not binding.is_element and _makes_anew(code, binding.value, surely)


def _makes_anew(code: Code, value: ast.expr, surely: bool) -> bool:
    if isinstance(value, ast.IfExp):
        return _makes_anew(code, value.body, surely) and _makes_anew(code, value.orelse, surely)
    if not isinstance(value, ast.Call):
        return isinstance(value, _FRESH)
    if origins := code.names.origins(value.func):
        prefixes = ("triton.", *_NEW_TENSORS) if surely else ("triton.", "torch.")
        return all(each in CONTAINERS or each.startswith(prefixes) for each in origins)
    method = value.func.attr if isinstance(value.func, ast.Attribute) else ""
    return method in (_MAKING if surely else _MAKING | _MAKING_OR_SAME) and method not in own_functions(code)


def own_functions(code: Code) -> frozenset[str]:
    return frozenset(node.name for node in ast.walk(code.tree) if isinstance(node, FunctionNode))


def takes_state(code: Code, receiver: ast.expr) -> bool:
    """Whether it is the context of an autograd function's forward pass, or an object while it is made.

    An object that inherits what makes it equal to others may be found again by one that is equal, with all it holds.
    """
    if not isinstance(receiver, ast.Name):
        return False
    function = code.names.scope_of(receiver).function.node
    if not isinstance(function, FunctionNode):
        return False
    first = next(iter((*function.args.posonlyargs, *function.args.args)), None)
    owner = code.parent(function)
    bindings, _ = code.names.bindings_of(receiver)
    if first is None or not isinstance(owner, ast.ClassDef) or [each.node for each in bindings] != [first]:
        return False
    if function.name not in ("__init__", "__post_init__"):
        return _is_autograd(code, owner) and function.name in _FORWARD
    return _equals_only_itself(code, owner)


def _equals_only_itself(code: Code, owner: ast.ClassDef) -> bool:
    """Whether a class inherits from none that compares by value, as numbers, tuples and frozen dataclasses do."""
    for base in owner.bases:
        own = [each.node for each in code.names.bindings_of(base)[0]] if isinstance(base, ast.Name) else []
        known = (origins := code.names.origins(base)) and origins <= _IDENTITIES
        plain = own and all(
            isinstance(node, ast.ClassDef)
            and node is not owner
            and not node.decorator_list
            and _equals_only_itself(code, node)
            for node in own
        )
        if not (known or plain):
            return False
    return True


def _is_autograd(code: Code, owner: ast.ClassDef) -> bool:
    return any(code.names.origins(base) & AUTOGRAD for base in owner.bases)


class Kept:
    """Whether an expression may be a container that outlives the call, so that `+=` would change it in place."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._seen: set[ast.AST] = set()

    def may_be(self, node: ast.expr | None) -> bool:
        """Follows names, parameters and the source's own functions."""
        if node is None or node in self._seen:
            return False
        self._seen.add(node)
        if isinstance(node, ast.Name):
            scope = self._code.names.scope_of(node).function
            return any(
                self._binding(each, each.scope.runs_at_import or each.scope.function is not scope)
                for each in self._bindings(node)
            )
        if isinstance(node, ast.IfExp):
            return self.may_be(node.body) or self.may_be(node.orelse)
        if isinstance(node, ast.BoolOp):
            return any(map(self.may_be, node.values))
        if isinstance(node, ast.Subscript):
            return self._holds_containers(node.value)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Attribute):
            return node.attr not in PLAIN_ATTRIBUTES and self._is_own(node.value)
        return isinstance(node, ast.NamedExpr) and self.may_be(node.value)

    def _is_own(self, node: ast.expr) -> bool:
        """Whether it is an object of the source's: what the module holds, or the first parameter of a method."""
        if not isinstance(node, ast.Name):
            return isinstance(node, ast.Attribute | ast.Call)
        for each in self._bindings(node):
            function = each.scope.node
            if isinstance(each.node, ast.arg) and isinstance(function, FunctionNode):
                own = isinstance(self._code.parent(function), ast.ClassDef) and each.node in function.args.args[:1]
            else:
                own = each.scope.runs_at_import and not each.imported
            if own:
                return True
        return False

    def _bindings(self, node: ast.expr) -> list[Binding]:
        found = self._code.names.bindings_of(node)[0] if isinstance(node, ast.Name) else []
        return [each for each in found if not isinstance(self._code.parent(each.node), ast.AugAssign)]

    def _binding(self, binding: Binding, from_outside: bool) -> bool:
        if isinstance(binding.node, ast.arg):
            return not gets_nothing_kept(self._code, binding)
        if binding.is_element and binding.value is not None:
            return self._holds_containers(binding.value)
        if from_outside:
            return isinstance(binding.value, (ast.Call, ast.ListComp, *DISPLAYS))
        return self.may_be(binding.value)

    def _call(self, call: ast.Call) -> bool:
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("get", "setdefault"):
            return self._holds_containers(call.func.value)
        if isinstance(call.func, ast.Attribute) and call.func.attr in own_functions(self._code):
            return True
        functions = [each.node for each in self._bindings(call.func) if isinstance(each.node, FunctionNode)]
        returned = [node.value for each in functions for node in walk_scope(each) if isinstance(node, ast.Return)]
        return any(map(self.may_be, returned))

    def _holds_containers(self, node: ast.expr) -> bool:
        """Whether an element may be kept: of a display, one that is a list; of what the module holds, a display."""
        if isinstance(node, ast.Name):
            values = [each.value for each in self._bindings(node) if each.value is not None]
            return any(self._holds_containers(value) for value in values if value not in self._seen)
        self._seen.add(node)
        inside = ast.walk(node) if isinstance(node, DISPLAYS) else ()
        return any(
            each is not node and (isinstance(each, ast.List | ast.Dict | ast.Set) or self._is_name_of_kept(each))
            for each in inside
        )

    def _is_name_of_kept(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and self.may_be(node)
