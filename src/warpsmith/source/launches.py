"""Launches of jit functions in host code: `kernel[grid](...)`, also of imported kernels and through wrap_triton.

Owns which argument reaches which parameter. Must not know what a knob is changed to.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property, lru_cache

from warpsmith.source.access import Addresses
from warpsmith.source.jit import Jit, is_jit, jit_functions
from warpsmith.source.syntax import Scope, Source, assignments, dotted, last_name, name_of, parameters_of, walk_scope
from warpsmith.source.terms import Terms

LAUNCH_OPTIONS = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg"})

#: Chosen: the original and the few texts that one variant is made from.
KEPT_READINGS = 8


@dataclass(frozen=True)
class Launch:
    """A launch. `jit` is None for a kernel that another module defines."""

    call: ast.Call
    jit_name: str
    jit: Jit | None
    scope: Scope
    grid: ast.expr

    @property
    def line(self) -> int:
        return self.call.lineno

    @property
    def host_function(self) -> str:
        return name_of(self.scope)

    @property
    def dictionaries(self) -> list[ast.expr]:
        """What is passed by `**`."""
        return [k.value for k in self.call.keywords if k.arg is None]

    @property
    def has_star(self) -> bool:
        return any(isinstance(a, ast.Starred) for a in self.call.args)

    @cached_property
    def tensors(self) -> dict[str, tuple[str, ...]]:
        """By variable, be it a tensor's: the parameters that it is passed for."""
        found: dict[str, tuple[str, ...]] = {}
        for argument in (*self.call.args, *(k.value for k in self.call.keywords)):
            parameter = self.parameter_of(argument)
            if isinstance(argument, ast.Name) and parameter is not None:
                found[argument.id] = (*found.get(argument.id, ()), parameter)
        return found

    def argument(self, name: str) -> ast.expr | None:
        """The expression that is passed for a parameter or launch option, by keyword or by position."""
        for keyword in self.call.keywords:
            if keyword.arg == name:
                return keyword.value
        if self.jit is not None and name in self.jit.parameters and not self.has_star:
            index = self.jit.parameters.index(name)
            if index < len(self.call.args):
                return self.call.args[index]
        return None

    def parameter_of(self, argument: ast.expr) -> str | None:
        """The kernel's parameter that an argument is passed for."""
        for keyword in self.call.keywords:
            if keyword.value is argument:
                return keyword.arg
        if self.jit is not None and not self.has_star:
            for parameter, passed in zip(self.jit.parameters, self.call.args, strict=False):
                if passed is argument:
                    return parameter
        return None


@dataclass(frozen=True)
class Reading:
    """A source with its jit functions and launches. `not_covered` says what was seen and not understood."""

    source: Source
    jits: dict[str, Jit]
    launches: tuple[Launch, ...]
    not_covered: tuple[str, ...]

    @cached_property
    def _addresses(self) -> dict[str, Addresses]:
        return {name: Addresses(self.source, jit) for name, jit in self.jits.items()}

    def addresses(self, jit: Jit) -> Addresses:
        """What the addresses in a jit function of this source depend on; worked out once."""
        return self._addresses[jit.name]

    @cached_property
    def _terms(self) -> dict[str, Terms]:
        return {name: Terms(jit) for name, jit in self.jits.items()}

    def terms(self, jit: Jit) -> Terms:
        """The addresses in a jit function of this source as sums; worked out once."""
        return self._terms[jit.name]


@lru_cache(maxsize=KEPT_READINGS)
def read(text: str) -> Reading:
    """Whoever reads the same text again is given the same reading, so nothing in it may be changed.

    Raises PreflightError where the text is no Python.
    """
    source = Source.read(text)
    jits = jit_functions(source)
    imported = _imported_names(source.tree)
    launches: list[Launch] = []
    not_covered: list[tuple[int, str]] = []
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Subscript):
            launch = _launch(source, jits, imported, node, node.func)
            if isinstance(launch, Launch):
                launches.append(launch)
            elif launch is not None:
                not_covered.append((node.lineno, launch))
        elif isinstance(node.func, ast.Attribute) and node.func.attr in ("run", "warmup"):
            name = last_name(node.func.value)
            if name in jits:
                not_covered.append((node.lineno, f"{name}.{node.func.attr} takes its options beside the launch"))
    not_covered += [
        (line, f"{jit.name} is wrapped by @{decorator}, whose cache may ignore launch options")
        for jit in jits.values()
        for decorator, line in jit.other_decorators
    ]
    not_covered += [
        (each.lineno, f"the heuristics of {jit.name} are not written there: {ast.unparse(each)}")
        for jit in jits.values()
        for each in jit.unread_heuristics
    ]
    not_covered += _kept_for_later(source, jits)
    not_covered += _wrapped_later(source.tree)
    launches.sort(key=lambda launch: (launch.call.lineno, launch.call.col_offset))
    said = tuple(f"line {line}: {what}" for line, what in sorted(not_covered))
    return Reading(source, jits, tuple(launches), said)


def _launch(
    source: Source, jits: dict[str, Jit], imported: frozenset[str], call: ast.Call, func: ast.Subscript
) -> Launch | str | None:
    """The launch, what is not understood about it, or None where the call is no launch."""
    kernel = func.value
    if isinstance(kernel, ast.Call) and last_name(kernel.func) in ("wrap_triton", "capture_triton") and kernel.args:
        kernel = kernel.args[0]
    scope = source.scope_of(call)
    name = last_name(kernel)
    if isinstance(kernel, ast.Name) and any(found.name == name for found in assignments(scope)):
        if not _looks_like_a_launch(call, func):
            return None
        return f"launches {name}, which is chosen at run time in {name_of(scope)}"
    if name in jits:
        return Launch(call, name, jits[name], scope, func.slice)
    if not _looks_like_a_launch(call, func):
        return None
    if isinstance(kernel, ast.Name) and name in imported:
        return Launch(call, name, None, scope, func.slice)
    if isinstance(kernel, ast.Name) and name in parameters_of(scope):
        return f"launches {name}, a kernel that arrives as a parameter of {name_of(scope)}"
    return f"launches {ast.unparse(kernel)}, which is no jit function of this file"


def _looks_like_a_launch(call: ast.Call, func: ast.Subscript) -> bool:
    """Whether a subscripted call is a launch and not a call out of a table of functions."""
    keywords = {k.arg for k in call.keywords if k.arg}
    options = bool(keywords & LAUNCH_OPTIONS) or any("BLOCK" in k.upper() for k in keywords)
    grid = isinstance(func.slice, ast.Tuple | ast.Lambda) or last_name(func.slice).startswith("grid")
    return options or (grid and len(call.args) + len(call.keywords) > 0)


def _imported_names(tree: ast.Module) -> frozenset[str]:
    return frozenset(
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )


def _kept_for_later(source: Source, jits: dict[str, Jit]) -> list[tuple[int, str]]:
    """Launches that are bound to a name or handed on, `run = kernel[grid]`, and jit functions that are shadowed."""
    found = [
        (node.lineno, f"{node.value.id} is bound to its grid there, and launched elsewhere")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in jits
        if not (isinstance(parent := source.parents[node], ast.Call) and parent.func is node)
    ]
    kept = {jit.node for jit in jits.values()}
    found += [
        (node.lineno, f"{node.name} is defined again in line {jits[node.name].node.lineno}, which is the one read")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef) and node.name in jits and node not in kept and is_jit(source.tree, node)
    ]
    return found


def _wrapped_later(tree: ast.Module) -> list[tuple[int, str]]:
    """Kernels that are made by calling triton.jit, and Gluon's."""
    found: list[tuple[int, str]] = []
    for node in walk_scope(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            if ast.unparse(node.value.func) in ("triton.jit", "triton.autotune"):
                found.append((node.lineno, f"{ast.unparse(node.targets[0])} is made by a call, not by a decorator"))
        elif isinstance(node, ast.FunctionDef) and any(dotted(d) == "gluon.jit" for d in node.decorator_list):
            found.append((node.lineno, f"{node.name} is a Gluon kernel"))
    return found
