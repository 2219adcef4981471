"""Triton's jit functions: which functions they are, their parameters and decorators, and what they do in numbers.

Must not know who launches them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from warpsmith.contracts.audit import JitFunction, KnobKind, Tier
from warpsmith.source.imports import imports
from warpsmith.source.syntax import Source, defaults_of, dotted, last_name, walk_scope

REDUCTIONS = frozenset({"sum", "max", "min", "argmax", "argmin", "reduce", "xor_sum", "reduce_or"})
SCANS = frozenset({"cumsum", "cumprod", "associative_scan", "sort", "histogram"})
DOTS = frozenset({"dot", "dot_scaled"})
LOADS = frozenset({"load", "load_tensor_descriptor"})
STORES = frozenset({"store", "store_tensor_descriptor"})
#: Decorators of Triton's own, innermost last.
_KNOWN_DECORATORS = frozenset({"jit", "autotune", "heuristics"})


@dataclass(frozen=True)
class Jit:
    """A jit function of the source. `heuristics` maps the arguments that a decorator computes to how.

    `autotune` is the decorator that tunes it; `tuned_by_triton` tells whether that is Triton's own.
    `unread_heuristics` are decorators whose table is not written where they stand: what they set is unknown.
    """

    node: ast.FunctionDef
    parameters: tuple[str, ...]
    constexprs: frozenset[str]
    defaults: dict[str, ast.expr]
    autotune: ast.Call | None
    tuned_by_triton: bool
    heuristics: dict[str, ast.expr]
    unread_heuristics: tuple[ast.Call, ...]
    #: (name, line) of decorators that are not Triton's, and of calls that wrap it later
    other_decorators: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        return self.node.name

    def heuristics_line(self, name: str) -> int | None:
        """The line of the heuristics decorator that sets an argument, or that may."""
        if name in self.heuristics:
            return self.heuristics[name].lineno
        return self.unread_heuristics[0].lineno if self.unread_heuristics else None

    @property
    def loop_stages(self) -> frozenset[str]:
        """Constexprs that are the num_stages of a `tl.range`."""
        stages = (
            keyword.value.id
            for call in operations(self.node, frozenset({"range"}))
            for keyword in call.keywords
            if keyword.arg == "num_stages" and isinstance(keyword.value, ast.Name)
        )
        return frozenset(name for name in stages if name in self.constexprs)

    @property
    def tile_groups(self) -> frozenset[str]:
        """Constexprs that are the size of a group in `tl.swizzle2d`."""
        calls = operations(self.node, frozenset({"swizzle2d"}))
        sizes = (call.args[4] for call in calls if len(call.args) == 5)
        return frozenset(size.id for size in sizes if isinstance(size, ast.Name) and size.id in self.constexprs)

    @property
    def compiled_by(self) -> dict[str, KnobKind]:
        """Constexprs that only say how loops, loads and the order of tiles are compiled, and of what they decide."""
        found = dict.fromkeys(self.loop_stages, KnobKind.LOOP_STAGES)
        found |= dict.fromkeys(self.tile_groups, KnobKind.TILE_GROUP)
        for call in operations(self.node, frozenset({"range"})):
            found |= {n: KnobKind.WARP_SPECIALIZE for n in _named(call, "warp_specialize") if self._is_off(n)}
        for call in operations(self.node, LOADS):
            found |= {n: KnobKind.PAST_L1 for n in _past_l1(call) if self._is_off(n)}
        return found

    def _is_off(self, name: str) -> bool:
        """Whether it is a constexpr that is 0 by default."""
        default = self.defaults.get(name)
        off = isinstance(default, ast.Constant) and type(default.value) is int and default.value == 0
        return name in self.constexprs and off


def _past_l1(call: ast.Call) -> list[str]:
    """The name in `cache_modifier=".cg" if NAME else ""`."""
    chosen = [k.value for k in call.keywords if k.arg == "cache_modifier" and isinstance(k.value, ast.IfExp)]
    values = [(c.test, ast.unparse(c.body), ast.unparse(c.orelse)) for c in chosen]
    return [test.id for test, on, off in values if isinstance(test, ast.Name) and (on, off) == ("'.cg'", "''")]


def _named(call: ast.Call, argument: str) -> list[str]:
    return [k.value.id for k in call.keywords if k.arg == argument and isinstance(k.value, ast.Name)]


def jit_functions(source: Source) -> dict[str, Jit]:
    """The jit functions by name, in source order."""
    found: dict[str, Jit] = {}
    from_triton = _names_from_triton(source.tree)
    wrapped = _wrapped_again(source.tree)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef) and any(_is_jit(d, from_triton) for d in node.decorator_list):
            found[node.name] = _read(node, from_triton, wrapped.get(node.name, ()))
    return dict(sorted(found.items(), key=lambda item: item[1].node.lineno))


def is_jit(tree: ast.Module, function: ast.FunctionDef) -> bool:
    """Whether a function of a module carries Triton's jit decorator."""
    from_triton = _names_from_triton(tree)
    return any(_is_jit(decorator, from_triton) for decorator in function.decorator_list)


def _names_from_triton(tree: ast.Module) -> frozenset[str]:
    """Names through which `jit` can be reached: triton, its aliases, and what is imported from it."""
    found = (each for each in imports(tree) if each.package == "triton")
    return frozenset({"triton", *(each.name for each in found if "gluon" not in each.path.rpartition(".")[0])})


def _is_jit(decorator: ast.expr, from_triton: frozenset[str]) -> bool:
    return _is_tritons(decorator, "jit", from_triton)


def _is_tritons(decorator: ast.expr, wanted: str, from_triton: frozenset[str]) -> bool:
    name = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator) or ""
    return name.rpartition(".")[2] == wanted and name.partition(".")[0] in from_triton


def _wrapped_again(tree: ast.Module) -> dict[str, list[tuple[str, int]]]:
    """By name: the calls of the module that make another thing of it, `kernel = cached(kernel)`."""
    found: dict[str, list[tuple[str, int]]] = {}
    for node in walk_scope(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name):
            name, made_by = node.targets[0].id, node.value.func
            if any(isinstance(argument, ast.Name) and argument.id == name for argument in node.value.args):
                made_by = made_by.func if isinstance(made_by, ast.Call) else made_by
                found.setdefault(name, []).append((ast.unparse(made_by), node.lineno))
    return found


def _read(node: ast.FunctionDef, from_triton: frozenset[str], wrapped: Iterable[tuple[str, int]]) -> Jit:
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    defaults = defaults_of(node)
    autotune: ast.Call | None = None
    heuristics: dict[str, ast.expr] = {}
    unread: list[ast.Call] = []
    others: list[tuple[str, int]] = [*wrapped]
    for decorator in node.decorator_list:
        name = last_name(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if isinstance(decorator, ast.Call) and (name == "autotune" or _has_configs(decorator)):
            autotune = decorator
        elif name == "heuristics" and isinstance(decorator, ast.Call):
            read = _heuristics(decorator)
            heuristics |= read
            unread += [] if read else [decorator]
        elif name not in _KNOWN_DECORATORS:
            others.append((name or ast.unparse(decorator), decorator.lineno))
    return Jit(
        node=node,
        parameters=tuple(a.arg for a in every),
        constexprs=frozenset(
            a.arg for a in every if a.annotation is not None and "constexpr" in ast.unparse(a.annotation)
        ),
        defaults=defaults,
        autotune=autotune,
        tuned_by_triton=autotune is not None and _is_tritons(autotune, "autotune", from_triton),
        heuristics=heuristics,
        unread_heuristics=tuple(unread),
        other_decorators=tuple(others),
    )


def _has_configs(decorator: ast.Call) -> bool:
    """Whether a decorator tunes as autotune does, by whatever name."""
    return {"configs", "key"} <= {keyword.arg for keyword in decorator.keywords}


def _heuristics(decorator: ast.Call) -> dict[str, ast.expr]:
    values = [*decorator.args, *(k.value for k in decorator.keywords)]
    return {
        key.value: value
        for table in values
        if isinstance(table, ast.Dict)
        for key, value in zip(table.keys, table.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def operation(node: ast.AST) -> str | None:
    """The name of a `tl` operation that a call is: "load", "sum"; methods such as `x.sum()` count too."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
        return node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
    return None


def operations(node: ast.AST, names: frozenset[str]) -> Iterator[ast.Call]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and operation(inner) in names:
            yield inner


def atomics(node: ast.AST) -> Iterator[ast.Call]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and (operation(inner) or "").startswith("atomic_"):
            yield inner


def reductions(node: ast.AST) -> int:
    """Reductions over a block. Python's own max and min of scalars are calls by a bare name and do not count."""
    found = [c for c in operations(node, REDUCTIONS | SCANS) if isinstance(c.func, ast.Attribute)]
    return len(found)


def loops(jit: Jit) -> list[ast.For | ast.While]:
    return [node for node in walk_scope(jit.node) if isinstance(node, ast.For | ast.While)]


def has_dot(node: ast.AST) -> bool:
    return next(operations(node, DOTS), None) is not None


def describe(jit: Jit) -> JitFunction:
    """The contract's view of a jit function."""
    own_loops = loops(jit)
    return JitFunction(
        name=jit.name,
        line=jit.node.lineno,
        tier=_tier(jit, own_loops),
        has_loop=bool(own_loops),
        loads=len(list(operations(jit.node, LOADS))),
        stores=len(list(operations(jit.node, STORES))),
        atomics=len(list(atomics(jit.node))),
        reductions=reductions(jit.node),
    )


def _tier(jit: Jit, own_loops: list[ast.For | ast.While]) -> Tier:
    passes = sum(1 for loop in own_loops if next(operations(loop, LOADS), None) is not None)
    if has_dot(jit.node) or passes > 1:
        return Tier.FUSED
    return Tier.REDUCTION if reductions(jit.node) else Tier.ELEMENT_WISE
