"""What the addresses of a kernel's loads and stores depend on, by a fixpoint over its assignments.

Flow-insensitive: a name that is assigned twice has the traits of both. Must not know what follows from it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

from warpsmith.source.jit import LOADS, STORES, Jit, operation
from warpsmith.source.syntax import Source, assignments, dotted, walk_scope

#: How kernels name triton.language.
LANGUAGE = frozenset({"tl", "triton.language", "language", "gl"})
#: Where the mask stands among positional arguments: tl.load(pointer, mask), tl.store(pointer, value, mask).
_MASK_PLACE = {"load": 1, "store": 2, "atomic_cas": 3}
#: From which place on positional arguments say how the caches treat it.
_POLICY_PLACE = {"load": 5, "store": 4}


@dataclass(frozen=True)
class Trait:
    """What a value depends on.

    `axes`: axes of program_id. `block`: it is a vector of addresses or offsets. `from_memory`: it was loaded, so
    nothing is known of where it points. `parameters`: kernel parameters in it. `loaded`: the pointers it was loaded
    through.
    """

    axes: frozenset[str] = frozenset()
    block: bool = False
    from_memory: bool = False
    parameters: frozenset[str] = frozenset()
    loaded: frozenset[str] = frozenset()

    def __or__(self, other: Trait) -> Trait:
        return Trait(
            self.axes | other.axes,
            self.block or other.block,
            self.from_memory or other.from_memory,
            self.parameters | other.parameters,
            self.loaded | other.loaded,
        )


@dataclass(frozen=True)
class Access:
    """A load, a store or an atomic. `pointer` is the parameter that the address starts from, where that is known."""

    call: ast.Call
    kind: str
    address: ast.expr
    pointer: str | None
    trait: Trait
    loop: ast.For | ast.While | None
    #: tests of the `if`s around it
    tests: tuple[ast.expr, ...]

    @property
    def is_load(self) -> bool:
        return self.kind in LOADS

    @property
    def is_store(self) -> bool:
        return self.kind in STORES

    @property
    def through_descriptor(self) -> bool:
        """Whether it is a method of a tensor descriptor, whose bounds the hardware checks."""
        func = self.call.func
        if isinstance(func, ast.Attribute) and dotted(func.value) not in LANGUAGE:
            return True
        return self.kind.endswith("_tensor_descriptor")

    @property
    def mask(self) -> ast.expr | None:
        """The mask of a load, store or atomic; a block pointer's `boundary_check` serves as one."""
        named = {k.arg: k.value for k in self.call.keywords}
        given = named.get("mask", named.get("boundary_check"))
        place = _MASK_PLACE.get(self.kind, 2)
        if given is None and len(self.call.args) > place:
            given = self.call.args[place]
        return None if isinstance(given, ast.Constant) and given.value is None else given

    def has_policy(self) -> bool:
        """Whether it says, or may say, how the caches treat it."""
        given, named = self.call.args, self.call.keywords
        return (
            len(given) > _POLICY_PLACE.get(self.kind, len(given))
            or any(isinstance(argument, ast.Starred) for argument in given)
            or any(k.arg in ("eviction_policy", "cache_modifier", None) for k in named)
        )


def _address(call: ast.Call) -> ast.expr | None:
    return call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "pointer"), None)


class Addresses:
    """The traits and base pointers of every name in one jit function."""

    def __init__(self, source: Source, jit: Jit) -> None:
        self.source = source
        self.jit = jit
        self.names: dict[str, Trait] = {p: Trait(parameters=frozenset({p})) for p in jit.parameters}
        self.pointers: dict[str, str] = {p: p for p in jit.parameters}
        before = None
        while before != (before := (dict(self.names), dict(self.pointers))):
            self._pass()

    def _pass(self) -> None:
        for node in walk_scope(self.jit.node):
            if isinstance(node, ast.For):
                for found in assignments(ast.For(target=node.target, iter=node.iter, body=[], orelse=[])):
                    self._merge(found.name, node.iter)
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
                for found in assignments(node):
                    if found.value is not None:
                        self._merge(found.name, found.value)

    def _merge(self, name: str, value: ast.expr) -> None:
        self.names[name] = self.names.get(name, Trait()) | self.trait(value)
        if name not in self.pointers and (base := self.pointer(value)) is not None:
            self.pointers[name] = base

    def trait(self, node: ast.AST) -> Trait:
        """What an expression depends on."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, Trait())
        name = operation(node)
        if name in LOADS or (name or "").startswith("atomic_"):
            return Trait(from_memory=True, loaded=self._loaded_through(node))
        if isinstance(node, ast.Call) and name == "program_id":
            axis = ast.unparse(node.args[0]) if node.args else ",".join(ast.unparse(k.value) for k in node.keywords)
            return Trait(axes=frozenset({axis or "0"}))
        result = Trait(block=name in ("arange", "make_block_ptr"))
        for child in ast.iter_child_nodes(node):
            result |= self.trait(child)
        return result

    def _loaded_through(self, node: ast.AST) -> frozenset[str]:
        assert isinstance(node, ast.Call)
        address = _address(node)
        base = self.pointer(address) if address is not None else None
        return frozenset() if base is None else frozenset({base})

    def pointer(self, node: ast.AST) -> str | None:
        """The parameter that an address starts from: the leftmost leaf of a sum, the base of a block pointer."""
        if isinstance(node, ast.Name):
            return self.pointers.get(node.id)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            return self.pointer(node.left) or self.pointer(node.right)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if operation(node) in ("make_block_ptr", "advance", "multiple_of", "max_contiguous"):
                base = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "base"), None)
                return self.pointer(base) if base is not None else None
            if operation(node) in ("to", "cast"):
                return self.pointer(node.func.value)
        if isinstance(node, ast.IfExp):
            return self.pointer(node.body)
        return None

    def accesses(self) -> tuple[Access, ...]:
        """Loads, stores and atomics of `tl`, in source order."""
        return self._accesses

    @cached_property
    def _accesses(self) -> tuple[Access, ...]:
        found: list[Access] = []
        for node in walk_scope(self.jit.node):
            name = operation(node)
            if not isinstance(node, ast.Call) or name is None:
                continue
            if name not in ("load", "store") and not name.startswith("atomic_"):
                continue
            address = _address(node)
            if address is not None:
                found.append(self._access(node, name, address))
        return tuple(sorted(found, key=lambda a: (a.call.lineno, a.call.col_offset)))

    def _access(self, call: ast.Call, kind: str, address: ast.expr) -> Access:
        above = list(self.source.ancestors(call))
        within = above[: above.index(self.jit.node)]
        return Access(
            call=call,
            kind=kind,
            address=address,
            pointer=self.pointer(address),
            trait=self.trait(address),
            loop=next((n for n in within if isinstance(n, ast.For | ast.While)), None),
            tests=tuple(n.test for n in within if isinstance(n, ast.If)),
        )

    def axes(self) -> frozenset[str]:
        """Every axis of program_id that the kernel reads."""
        calls = (n for n in walk_scope(self.jit.node) if operation(n) == "program_id")
        return frozenset(axis for call in calls for axis in self.trait(call).axes)

    def row_loops(self) -> list[ast.For]:
        """Loops whose bounds depend on the program: each program walks over its own rows."""
        return [n for n in walk_scope(self.jit.node) if isinstance(n, ast.For) and self.trait(n.iter).axes]
