"""What a source keeps from one call to the next. Settings may be kept, results and workspaces may not.

A result that is kept is given again for other values; a workspace that is kept hides memory that is read before it is
written, and is shared by calls on two streams. Must not know what the original keeps: `admit` leaves that out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from warpsmith.source import memo
from warpsmith.source.allowed import TENSOR_MAKERS
from warpsmith.source.interface import Finding
from warpsmith.source.lifetimes import CONTAINERS, gets_nothing_kept, is_made_for_the_call, is_of_this_call, takes_state
from warpsmith.source.names import BUILTINS
from warpsmith.source.paths import passing
from warpsmith.source.plain import Plainness
from warpsmith.source.puts import Put, puts
from warpsmith.source.syntax import FunctionNode
from warpsmith.source.uses import Code

_CACHES = frozenset({"functools.cache", "functools.lru_cache"})
_ITERATORS = frozenset(f"{BUILTINS}.{name}" for name in ("iter", "map", "filter", "zip", "enumerate", "reversed"))
#: Methods of torch.nn.Module that give iterators.
_OF_MODULES = frozenset(
    f"{named}{each}" for named in ("", "named_") for each in ("parameters", "buffers", "modules", "children")
)
#: Built-ins that read an iterator to its end.
_CONSUMERS = CONTAINERS | {f"{BUILTINS}.{name}" for name in ("frozenset", "sum", "max", "min", "any", "all")}
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
                if told := passing(code, node):
                    yield node.lineno, f"{node.name} is cached and reads {told}, which a cache remembers of one call"
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
        if any(_is_module(code, call.func) for call in calls):
            yield binding.node.lineno, f"{binding.name} is a torch.nn.Module, which keeps state; {_INSTEAD}"
        if any(_makes_on_demand(code, call) for call in calls):
            yield binding.node.lineno, f"{binding.name} makes what is missing from it; {_INSTEAD}"
        if any(is_loose_iterator(code, node) for node in ast.walk(value) if _runs_at_import(code, node)):
            yield binding.node.lineno, f"{binding.name} holds an iterator, which counts calls; make it a tuple"


def _runs_at_import(code: Code, node: ast.AST) -> bool:
    return isinstance(node, ast.expr) and code.names.scope_of(node).runs_at_import


def _is_module(code: Code, made: ast.expr) -> bool:
    """Whether it is torch.nn.Module, or a class of the source's that is derived from it."""
    owners = [each.node for each in code.names.bindings_of(made)[0]] if isinstance(made, ast.Name) else []
    bases = [base for owner in owners if isinstance(owner, ast.ClassDef) for base in owner.bases]
    return any("torch.nn.Module" in code.names.origins(each) for each in (made, *bases))


def _makes_on_demand(code: Code, call: ast.Call) -> bool:
    """Whether it is a defaultdict that has a factory: whatever is read of it stays in it, and counts calls."""
    return "collections.defaultdict" in code.names.origins(call.func) and bool(call.args)


def is_loose_iterator(code: Code, node: ast.AST) -> bool:
    """Whether it makes an iterator that is not read to its end in the same expression or loop."""
    if isinstance(node, ast.Call):
        origins = code.names.origins(node.func)
        of_module = isinstance(node.func, ast.Attribute) and node.func.attr in _OF_MODULES
        if not of_module and not any(each in _ITERATORS or each.startswith("itertools.") for each in origins):
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
        for each in puts(code, node)
        if not (
            _is_imported(code, each.receiver)
            or is_of_this_call(code, each.receiver, surely=not each.is_item)
            or takes_state(code, each.receiver)
        )
    ]
    plain = Plainness(code)
    tables = set()
    for put in found:
        if why := _refusal(code, plain, put):
            yield put.receiver.lineno, why
        elif isinstance(put.receiver, ast.Name) and not code.names.scope_of(put.receiver).runs_at_import:
            tables.add(put.receiver.id)
    yield from memo.misuses(code, plain, frozenset(tables))


def _is_imported(code: Code, receiver: ast.expr) -> bool:
    """Whether it belongs to another module, which `escapes.patches` tells."""
    while isinstance(receiver, ast.Attribute | ast.Subscript):
        receiver = receiver.value
    return bool(code.names.origins(receiver))


def _refusal(code: Code, plain: Plainness, put: Put) -> str | None:
    """Why something may not be put there; None where it is a setting that is looked up again, as `memo` judges."""
    tensor = put.value is None or not plain.of(put.value)
    if code.names.scope_of(put.receiver).runs_at_import:
        return f"{put.told} may hold a tensor from import on; {_INSTEAD}" if tensor else None
    if put.adds:
        owner = ast.unparse(put.receiver)
        return f"counts in {owner}, which outlives the call; a variant does the same at every call"
    owners = code.names.bindings_of(put.receiver)[0] if isinstance(put.receiver, ast.Name) else []
    given = bool(owners) and all(isinstance(each.node, ast.arg) for each in owners)
    if given and all(is_made_for_the_call(code, each) for each in owners):
        return None
    if tensor:
        return f"keeps {put.told} between calls, which may be a tensor; {_INSTEAD}"
    in_module = bool(owners) and all(each.scope is code.names.module for each in owners)
    given = given and all(gets_nothing_kept(code, each) for each in owners)
    return None if put.is_item and (in_module or given) else f"keeps {put.told} between calls; {_INSTEAD}"
