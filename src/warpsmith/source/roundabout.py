"""Roundabout ways to change what outlives a call, with no store to be seen: methods handed on, iterators, calls anew.

Every rule yields what it sees in one source; `admit` leaves out what the original does too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from warpsmith.source.interface import Finding
from warpsmith.source.lifetimes import AUTOGRAD, CONTAINERS
from warpsmith.source.names import BUILTINS, attribute_read_by_name
from warpsmith.source.puts import KEEPING
from warpsmith.source.retained import is_loose_iterator
from warpsmith.source.syntax import FunctionNode
from warpsmith.source.uses import Code

#: Methods in which autograd gives its own object to keep state in, and that which makes an object.
_GIVEN_STATE = frozenset({"forward", "backward", "setup_context", "vjp", "jvp"})
_READ_AT_ONCE = frozenset({f"{BUILTINS}.next", "math.prod", "functools.reduce"})


def changing_methods(code: Code) -> Iterator[Finding]:
    """`kept.append` as a value, by another way than a call of it, or as `list.append`."""
    for node in ast.walk(code.tree):
        if node in code.in_kernels:
            continue
        if isinstance(node, ast.Attribute):
            called = getattr(code.parent(node), "func", None) is node
            loose = not called or bool(code.names.origins(node.value) & CONTAINERS)
            names = [node.attr] if loose and isinstance(node.ctx, ast.Load) else []
        elif isinstance(node, ast.MatchClass):
            names = node.kwd_attrs
        else:
            read = attribute_read_by_name(node)
            names = [read[1]] if read is not None else []
        for name in set(names) & KEEPING:
            yield getattr(node, "lineno", 0), f"hands the method {name} on; call it where it is read of its object"


def iterators(code: Code) -> Iterator[Finding]:
    """Iterators that a function or a decorator keeps hold of. Those of the module are found as what is made there."""
    decorators = {
        each
        for node in ast.walk(code.tree)
        if isinstance(node, FunctionNode | ast.ClassDef)
        for decorator in node.decorator_list
        for each in ast.walk(decorator)
    }
    for node in ast.walk(code.tree):
        if node in code.in_kernels or not isinstance(node, ast.expr) or not is_loose_iterator(code, node):
            continue
        if (node in decorators or not code.names.scope_of(node).runs_at_import) and not _is_read_at_once(code, node):
            yield node.lineno, f"keeps hold of the iterator {ast.unparse(node)}, which counts calls; make it a tuple"


def _is_read_at_once(code: Code, node: ast.expr) -> bool:
    parent = code.parent(node)
    if isinstance(parent, ast.Assign):  # it is unpacked
        return all(isinstance(target, ast.Tuple | ast.List) for target in parent.targets)
    if not isinstance(parent, ast.Call):
        return False
    text = isinstance(parent.func, ast.Attribute) and parent.func.attr == "join"
    return text or ((origins := code.names.origins(parent.func)) != set() and origins <= _READ_AT_ONCE)


def calls_anew(code: Code) -> Iterator[Finding]:
    """`__init__`, `forward` or `backward` of one's own classes for another object than the one that is at hand."""
    classes = [node for node in ast.walk(code.tree) if isinstance(node, ast.ClassDef)]
    autograd = [each for each in classes if any(code.names.origins(base) & AUTOGRAD for base in each.bases)]
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Attribute):
            name, owner = node.attr, node.value
        elif (read := attribute_read_by_name(node)) is not None:
            owner, name = read
        else:
            continue
        if name != "__init__" and not (name in _GIVEN_STATE and autograd):
            continue
        of_super = isinstance(owner, ast.Call) and code.names.origins(owner.func) == {f"{BUILTINS}.super"}
        if not of_super and not _passes_its_own_on(code, node):
            yield getattr(node, "lineno", 0), f"calls {name} by itself, which may keep state in any object"


def _passes_its_own_on(code: Code, node: ast.AST) -> bool:
    """Whether it is called, in such a method, with that method's own first parameter."""
    call = code.parent(node)
    if not (isinstance(call, ast.Call) and call.func is node and call.args and isinstance(call.args[0], ast.Name)):
        return False
    function = code.names.scope_of(call.args[0]).function.node
    if not isinstance(function, FunctionNode) or function.name not in _GIVEN_STATE | {"__init__"}:
        return False
    own = next(iter((*function.args.posonlyargs, *function.args.args)), None)
    bindings, _ = code.names.bindings_of(call.args[0])
    return [each.node for each in bindings] == [own] and isinstance(code.parent(function), ast.ClassDef)
