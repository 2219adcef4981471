"""Whether two pointers of a kernel may be one memory, by the tensors that host code passes for them.

Two parameters of a host function count as two tensors. Must not know what is done with the answer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from warpsmith.source.imports import paths_by_name
from warpsmith.source.jit import Jit
from warpsmith.source.launches import Launch, Reading
from warpsmith.source.syntax import Scope, assignments, dotted, parameters_of

#: What gives memory that no other tensor has.
_FRESH = frozenset(
    f"{prefix}{name}{suffix}"
    for name in ("empty", "zeros", "ones", "full", "rand", "randn")
    for prefix, suffix in (("", ""), ("", "_like"), ("new_", ""))
) | {"clone", "arange", "empty_strided"}
#: Methods whose arguments say how a tensor is looked at, and hold none.
_VIEWS = frozenset(
    ("view", "reshape", "contiguous", "to", "flatten", "expand", "transpose", "permute", "squeeze", "unsqueeze")
) | {"detach", "narrow", "as_strided", "t", "float", "half", "bfloat16", "requires_grad_", "data_ptr", "unflatten"}


def why_one_memory(reading: Reading, jit: Jit, loaded: str, stored: Iterable[str]) -> str | None:
    """Why a store through one of the pointers may reach what another loads; None where the launches show that none can.

    All of them are parameters of the kernel.
    """
    stored = sorted(set(stored))
    launches = [launch for launch in reading.launches if launch.jit_name == jit.name]
    if stored and not launches:
        return f"no launch of {jit.name} is in this file, so that {loaded} and {stored[0]} may be one tensor"
    for launch in launches:
        mine = _of_argument(reading, launch, loaded)
        for pointer in stored:
            other = _of_argument(reading, launch, pointer)
            if mine is None or other is None:
                unseen = loaded if mine is None else pointer
                return f"what line {launch.line} passes for {unseen} is not seen, so that it may be stored to"
            if any(_overlap(a, b) for a in mine for b in other):
                return f"line {launch.line} may pass one tensor for both {loaded} and {pointer}, which is stored to"
    return None


def _of_argument(reading: Reading, launch: Launch, parameter: str) -> frozenset[str] | None:
    passed = launch.argument(parameter)
    if passed is None:
        return None
    return _Origins(launch.scope, frozenset(paths_by_name(reading.source.tree))).of(passed, frozenset())


def _overlap(a: str, b: str) -> bool:
    return a == b or a.startswith(f"{b}.") or b.startswith(f"{a}.")


class _Origins:
    """The tensors that a host function's values may share memory with: allocations, parameters, attributes."""

    def __init__(self, scope: Scope, imported: frozenset[str]) -> None:
        self.parameters = frozenset(parameters_of(scope))
        self.values: dict[str, list[frozenset[str] | ast.expr]] = {}
        for found in assignments(scope):
            value: frozenset[str] | ast.expr = frozenset({f"{found.name} in line {getattr(found.node, 'lineno', 0)}"})
            if found.value is not None and not isinstance(found.node, ast.AugAssign):
                value = self._unpacked(found.name, found.value, found.node)
            self.values.setdefault(found.name, []).append(value)
        self.imported = imported - self.parameters - self.values.keys()

    def of(self, value: ast.expr, seen: frozenset[str]) -> frozenset[str]:
        if self._is_imported(value):
            return frozenset({dotted(value) or ""})
        if isinstance(value, ast.Name):
            return self._named(value.id, seen)
        if isinstance(value, ast.Constant):
            return frozenset()
        if isinstance(value, ast.Call):
            return self._called(value, seen)
        if isinstance(value, ast.Attribute) and (path := dotted(value)) is not None:
            root, _, further = path.partition(".")
            return frozenset(f"{origin}.{further}" for origin in self._named(root, seen))
        if isinstance(value, ast.Subscript):
            return self.of(value.value, seen)
        if isinstance(value, ast.IfExp):
            return self.of(value.body, seen) | self.of(value.orelse, seen)
        return self._parts((child for child in ast.iter_child_nodes(value) if isinstance(child, ast.expr)), seen)

    def _parts(self, values: Iterable[ast.expr], seen: frozenset[str]) -> frozenset[str]:
        """Those of what a value is computed from; modules, dtypes and the like that are imported for it are none."""
        return frozenset(origin for each in values if not self._is_imported(each) for origin in self.of(each, seen))

    def _is_imported(self, value: ast.expr) -> bool:
        return (dotted(value) or "").partition(".")[0] in self.imported

    def _named(self, name: str, seen: frozenset[str]) -> frozenset[str]:
        if name in seen:
            return frozenset()
        found: set[str] = {name} if name in self.parameters or name not in self.values else set()
        for value in self.values.get(name, ()):
            found |= self.of(value, seen | {name}) if isinstance(value, ast.expr) else value
        return frozenset(found)

    def _called(self, call: ast.Call, seen: frozenset[str]) -> frozenset[str]:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func) or ""
        if name in _FRESH:
            return frozenset({f"the allocation in line {call.lineno}, column {call.col_offset}"})
        taken: list[ast.expr] = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        if name not in _VIEWS or not taken or self._is_imported(taken[0]):
            taken += [*call.args, *(keyword.value for keyword in call.keywords)]
        return self._parts(taken, seen)

    def _unpacked(self, name: str, value: ast.expr, node: ast.AST) -> frozenset[str] | ast.expr:
        """What one name of several gets of a tuple: its own part of what is kept, anything of what a call gives."""
        targets = node.targets if isinstance(node, ast.Assign) else []
        held = any(isinstance(t, ast.Tuple | ast.List) and not isinstance(value, ast.Tuple | ast.List) for t in targets)
        if held and not isinstance(value, ast.Call):
            return frozenset({f"{name} of {ast.unparse(value)}"})
        return value
