"""What a source keeps from one call to the next. Settings may be kept, results and workspaces may not.

A result that is kept is given again for other values; a workspace that is kept hides memory that is read before it is
written, and is shared by calls on two streams. Must not know what the original keeps: `admit` leaves that out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.source.allowed import TENSOR_MAKERS
from warpsmith.source.interface import Finding
from warpsmith.source.names import BUILTINS
from warpsmith.source.plain import Plainness
from warpsmith.source.scopes import Binding, pairwise
from warpsmith.source.syntax import FunctionNode
from warpsmith.source.uses import Code

_CACHES = frozenset({"functools.cache", "functools.lru_cache"})
AUTOGRAD = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
KEEPING = frozenset(
    {"append", "appendleft", "add", "update", "setdefault", "extend", "extendleft", "insert", "register_buffer",
     "register_parameter", "pop", "popitem", "popleft", "clear", "remove", "discard", "rotate", "move_to_end", "sort",
     "reverse", "subtract", "intersection_update", "difference_update", "symmetric_difference_update"}
)  # fmt: skip
#: Methods that give a new tensor or container, or a view that only this call has.
_MAKING = frozenset(
    {"new_empty", "new_zeros", "new_ones", "new_full", "new_tensor", "clone", "copy", "contiguous", "sum", "to",
     "float", "half", "view", "reshape", "flatten"}
)  # fmt: skip
CONTAINERS = frozenset(
    f"{BUILTINS}.{name}" for name in ("dict", "list", "set", "tuple", "sorted")
) | {"collections.defaultdict", "collections.OrderedDict", "collections.Counter", "collections.deque"}  # fmt: skip
_ITERATORS = frozenset(f"{BUILTINS}.{name}" for name in ("iter", "map", "filter", "zip", "enumerate", "reversed"))
#: Built-ins that read an iterator to its end.
_CONSUMERS = CONTAINERS | {f"{BUILTINS}.{name}" for name in ("frozenset", "sum", "max", "min", "any", "all")}
_DISPLAYS = (ast.Dict, ast.List, ast.Set, ast.Tuple, ast.DictComp, ast.ListComp, ast.SetComp)
_FRESH = (ast.Dict, ast.List, ast.Set, ast.Tuple, ast.DictComp, ast.ListComp, ast.SetComp, ast.BinOp, ast.Constant)
_INSTEAD = "make it in the call; keep only settings, in a table or by functools.cache of a function of numbers"


def declared_state(code: Code) -> Iterator[Finding]:
    """`global` and `nonlocal`, and defaults that can be changed."""
    plain = Plainness(code)
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Global | ast.Nonlocal):
            word = "global" if isinstance(node, ast.Global) else "nonlocal"
            yield node.lineno, f"keeps {', '.join(node.names)} between calls by {word}; {_INSTEAD}"
        elif isinstance(node, ast.arguments):
            for default in (*node.defaults, *node.kw_defaults):
                kept = isinstance(default, ast.Dict | ast.List | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)
                if default is not None and (kept or not plain.of(default)):
                    yield default.lineno, f"has the default {ast.unparse(default)}, which lives from call to call"


def cached_functions(code: Code) -> Iterator[Finding]:
    """functools.cache of what may return a tensor, or used otherwise than as a decorator."""
    plain = Plainness(code)
    decorating: set[ast.expr] = set()
    for node in ast.walk(code.tree):
        if not isinstance(node, FunctionNode):
            continue
        for decorator in node.decorator_list:
            named = decorator.func if isinstance(decorator, ast.Call) else decorator
            if code.names.origins(named) & _CACHES:
                decorating.add(named)
                names = [each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)]
                if not plain.returns(node, dict.fromkeys(names, True)):
                    yield node.lineno, f"{node.name} is cached and may return a tensor; cache only settings"
                if any(is_loose_iterator(code, each) for each in ast.walk(node)):
                    yield node.lineno, f"{node.name} is cached and makes an iterator, which counts calls; make a tuple"
    for mention, paths in code.mentions:
        if paths & _CACHES and mention not in decorating and not code.is_part(mention):
            yield mention.lineno, "uses functools.cache otherwise than as a decorator of a function"
    for node in ast.walk(code.tree):
        if isinstance(node, ast.keyword) and node.arg in ("compare", "eq", "hash", "unsafe_hash"):
            yield node.value.lineno, f"says by {node.arg}= when two objects are equal, which a cache would believe"


def made_at_import(code: Code) -> Iterator[Finding]:
    """Tensors and iterators that the module or a class holds."""
    plain = Plainness(code)
    for binding in code.names.bindings:
        value = binding.value
        if value is None or not binding.scope.runs_at_import:
            continue
        calls = [node for node in ast.walk(value) if isinstance(node, ast.Call) and _runs_at_import(code, node)]
        if any(code.names.origins(call.func) & TENSOR_MAKERS for call in calls) or not all(map(plain.of, calls)):
            yield binding.node.lineno, f"{binding.name} may hold a tensor from import on; {_INSTEAD}"
        if any(_makes_on_demand(code, call) for call in calls):
            yield binding.node.lineno, f"{binding.name} makes what is missing from it; {_INSTEAD}"
        if any(is_loose_iterator(code, node) for node in ast.walk(value) if _runs_at_import(code, node)):
            yield binding.node.lineno, f"{binding.name} holds an iterator, which counts calls; make it a tuple"


def _runs_at_import(code: Code, node: ast.AST) -> bool:
    return isinstance(node, ast.expr) and code.names.scope_of(node).runs_at_import


def _makes_on_demand(code: Code, call: ast.Call) -> bool:
    """Whether it is a defaultdict that has a factory: whatever is read of it stays in it, and counts calls."""
    return "collections.defaultdict" in code.names.origins(call.func) and bool(call.args)


def is_loose_iterator(code: Code, node: ast.AST) -> bool:
    """Whether it makes an iterator that is not read to its end in the same expression or loop."""
    if isinstance(node, ast.Call):
        origins = code.names.origins(node.func)
        if not any(each in _ITERATORS or each.startswith("itertools.") for each in origins):
            return False
    elif not isinstance(node, ast.GeneratorExp):
        return False
    parent = code.parent(node)
    if isinstance(parent, ast.Call):
        origins = code.names.origins(parent.func)
        return not (origins and all(each in _CONSUMERS | _ITERATORS for each in origins))
    return not isinstance(parent, ast.For | ast.comprehension | ast.Starred)


def stores(code: Code) -> Iterator[Finding]:
    """Values put where they outlive the call: into what is not made in the same function."""
    found = [
        each
        for node in ast.walk(code.tree)
        if node not in code.in_kernels
        for each in _puts(code, node)
        if not (
            _is_imported(code, each.receiver)
            or _is_of_this_call(code, each.receiver)
            or _takes_state(code, each.receiver)
        )
    ]
    kept = frozenset(each.receiver.id for each in found if isinstance(each.receiver, ast.Name))
    plain = Plainness(code, kept)
    for put in found:
        if why := _refusal(code, plain, put):
            yield put.receiver.lineno, why


@dataclass(frozen=True)
class _Put:
    """Something given to a `receiver` to hold. `value` is None where what it is cannot be read."""

    receiver: ast.expr
    told: str
    value: ast.expr | None
    key: ast.expr | None = None
    adds: bool = False
    is_item: bool = False


def _puts(code: Code, node: ast.AST) -> Iterator[_Put]:
    if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        key = node.slice if isinstance(node, ast.Subscript) else None
        adds = isinstance(code.parent(node), ast.AugAssign | ast.Delete)
        yield _Put(node.value, ast.unparse(node), _given_to(code, node), key, adds, key is not None)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in KEEPING:
        values = ast.Tuple([*node.args, *(keyword.value for keyword in node.keywords)], ast.Load())
        adds = node.func.attr not in ("setdefault", "update")
        yield _Put(node.func.value, ast.unparse(node.func), values, None, adds, True)
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and _may_be_container(code, node):
        yield _Put(node.target, node.target.id, node.value, None, True, True)


def _may_be_container(code: Code, added: ast.AugAssign) -> bool:
    """Whether a `+=` may change a list in place, as far as is written here."""
    if isinstance(added.value, ast.Name):
        assert isinstance(added.target, ast.Name)
        given, changed = (code.names.bindings_of(each)[0] for each in (added.value, added.target))
        unknown = any(
            not _gets_nothing_kept(code, each) if isinstance(each.node, ast.arg) else isinstance(each.value, ast.Name)
            for each in changed
            if not each.is_element
        )
        return any(isinstance(each.value, _DISPLAYS) or (isinstance(each.node, ast.arg) and unknown) for each in given)
    return isinstance(added.value, _DISPLAYS)


def _is_imported(code: Code, receiver: ast.expr) -> bool:
    """Whether it belongs to another module, which `escapes.patches` tells."""
    while isinstance(receiver, ast.Attribute | ast.Subscript):
        receiver = receiver.value
    return bool(code.names.origins(receiver))


def _given_to(code: Code, target: ast.expr) -> ast.expr | None:
    """The expression that an attribute or item is set to; None for loops, `with` and unpacking."""
    parent = code.parent(target)
    if isinstance(parent, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return parent.value
    if isinstance(parent, ast.Tuple | ast.List) and isinstance(assign := code.parent(parent), ast.Assign):
        values = pairwise(parent, assign.value)
        return values[next(i for i, each in enumerate(parent.elts) if each is target)] if values else None
    return None


def _refusal(code: Code, plain: Plainness, put: _Put) -> str | None:
    """Why something may not be put there; None where it is a setting that is looked up again."""
    tensor = put.value is None or not plain.of(put.value)
    if code.names.scope_of(put.receiver).runs_at_import:
        return f"{put.told} may hold a tensor from import on; {_INSTEAD}" if tensor else None
    if put.adds:
        owner = ast.unparse(put.receiver)
        return f"counts in {owner}, which outlives the call; a variant does the same at every call"
    if tensor:
        return f"keeps {put.told} between calls, which may be a tensor; {_INSTEAD}"
    owners = code.names.bindings_of(put.receiver)[0] if isinstance(put.receiver, ast.Name) else []
    in_module = bool(owners) and all(each.scope is code.names.module for each in owners)
    given = bool(owners) and all(isinstance(each.node, ast.arg) for each in owners)
    given = given and all(_gets_nothing_kept(code, each) for each in owners)
    if put.is_item and (in_module or given) and plain.of_key(put.key):
        return None
    return None if given and not put.is_item else f"keeps {put.told} between calls; {_INSTEAD}"


def _gets_nothing_kept(code: Code, parameter: Binding) -> bool:
    """Whether the source gives its function's parameter only what callers gave, or what was made in the same call."""
    function = parameter.scope.node
    if not isinstance(function, FunctionNode):
        return False
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    for node in ast.walk(code.tree):
        if not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id == function.name):
            continue
        call = code.parent(node)
        if not (isinstance(call, ast.Call) and call.func is node):
            return False
        given: dict[str | None, ast.expr] = dict(zip(names, call.args, strict=False))
        given.update((each.arg, each.value) for each in call.keywords)
        value = given.get(parameter.name)
        passed = isinstance(value, ast.Constant | ast.BinOp) or (
            isinstance(value, ast.Name)
            and all(isinstance(each.node, ast.arg) for each in code.names.bindings_of(value)[0])
        )
        if not (value is not None and (passed or _is_of_this_call(code, value))):
            return False
    return True


def _is_of_this_call(code: Code, receiver: ast.expr) -> bool:
    """Whether the same function made it, in every way in which it may come about."""
    if not isinstance(receiver, ast.Name):
        return False
    scope = code.names.scope_of(receiver)
    if isinstance(scope.node, ast.Lambda):  # it may be called later
        return False
    function = scope.function
    bindings, _ = code.names.bindings_of(receiver)
    within = [each for each in bindings if each.scope.function is function and not each.scope.runs_at_import]
    return bool(bindings) and len(within) == len(bindings) and all(_is_fresh(code, each) for each in bindings)


def _is_fresh(code: Code, binding: Binding) -> bool:
    if isinstance(binding.node, ast.arg):
        arguments = binding.scope.node.args if isinstance(binding.scope.node, FunctionNode) else None
        return arguments is not None and binding.node in (arguments.vararg, arguments.kwarg)
    if isinstance(code.parent(binding.node), ast.AugAssign):
        return True  # decided by what it is added to
    return binding.value is not None and not binding.is_element and _makes_anew(code, binding.value)


def _makes_anew(code: Code, value: ast.expr) -> bool:
    if isinstance(value, ast.IfExp):
        return _makes_anew(code, value.body) and _makes_anew(code, value.orelse)
    if isinstance(value, ast.Call):
        origins = code.names.origins(value.func)
        made = all(each in CONTAINERS or each.startswith(("torch.", "triton.")) for each in origins)
        return made if origins else (method := _method(value.func)) in _MAKING and method not in _own_functions(code)
    return isinstance(value, _FRESH)


def _own_functions(code: Code) -> frozenset[str]:
    return frozenset(node.name for node in ast.walk(code.tree) if isinstance(node, FunctionNode))


def _method(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else ""


def _takes_state(code: Code, receiver: ast.expr) -> bool:
    """Whether it is the context of an autograd function, or an object while it is made."""
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
    is_autograd = any(code.names.origins(base) & AUTOGRAD for base in owner.bases)
    return is_autograd or function.name in ("__init__", "__post_init__")
