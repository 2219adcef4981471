"""Launches of jit functions in host code: `kernel[grid](...)`, also of imported kernels and through wrap_triton.

Owns which argument reaches which parameter. Must not know what a knob is changed to.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property, lru_cache

from warpsmith.source.access import Addresses
from warpsmith.source.chosen import bound_launches, chosen_kernels, unwrapped
from warpsmith.source.imports import imports
from warpsmith.source.jit import Jit, is_jit, jit_functions
from warpsmith.source.syntax import Scope, Source, assignments, dotted, last_name, name_of, parameters_of, walk_scope
from warpsmith.source.terms import Terms

LAUNCH_OPTIONS = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg"})

#: Chosen: the original and the few texts that one variant is made from.
KEPT_READINGS = 8


@dataclass(frozen=True)
class Launch:
    """A launch. `jit` is None for a kernel that another module defines.

    A call that may launch one of several kernels is a launch of each; `chosen_as` is the variable that says which.
    """

    call: ast.Call
    jit_name: str
    jit: Jit | None
    scope: Scope
    grid: ast.expr
    chosen_as: str | None = None

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
    imported = frozenset(each.name for each in imports(source.tree) if isinstance(each.node, ast.ImportFrom))
    launches: list[Launch] = []
    not_covered: list[tuple[int, str]] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr == "run" and (name := last_name(node.value)) in jits:
            not_covered.append((node.lineno, f"{name}.run takes its grid and options as arguments"))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            found = _launch(source, jits, imported, node, node.func)
            if isinstance(found, str):
                not_covered.append((node.lineno, found))
            else:
                launches += found
    not_covered += _warmed_up_alone(source, jits, launches)
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
    bound, elsewhere = _kept_for_later(source, jits)
    launches += bound
    not_covered += elsewhere
    not_covered += _wrapped_later(source.tree)
    launches.sort(key=lambda launch: (launch.call.lineno, launch.call.col_offset))
    said = tuple(f"line {line}: {what}" for line, what in sorted(not_covered))
    return Reading(source, jits, tuple(launches), said)


def _launch(
    source: Source, jits: dict[str, Jit], imported: frozenset[str], call: ast.Call, func: ast.Subscript
) -> list[Launch] | str:
    """A launch for each kernel that it may be of, none where the call is no launch; or what is not understood."""
    kernel = unwrapped(func.value)
    scope = source.scope_of(call)
    name = last_name(kernel)
    if isinstance(kernel, ast.Name) and any(found.name == name for found in assignments(scope)):
        chosen = chosen_kernels(scope, name, jits)
        if chosen is not None and (len(chosen.kernels) == 1 or (chosen.told_apart and kernel is func.value)):
            by = name if len(chosen.kernels) > 1 else None
            return [Launch(call, each, jits[each], scope, func.slice, by) for each in chosen.kernels]
        if not _looks_like_a_launch(call, func):
            return []
        return f"launches {name}, which is chosen at run time in {name_of(scope)}"
    if name in jits:
        return [Launch(call, name, jits[name], scope, func.slice)]
    if not _looks_like_a_launch(call, func):
        return []
    if isinstance(kernel, ast.Name) and name in imported:
        return [Launch(call, name, None, scope, func.slice)]
    if isinstance(kernel, ast.Name) and name in parameters_of(scope):
        return f"launches {name}, a kernel that arrives as a parameter of {name_of(scope)}"
    return f"launches {ast.unparse(kernel)}, which is no jit function of this file"


def _looks_like_a_launch(call: ast.Call, func: ast.Subscript) -> bool:
    """Whether a subscripted call is a launch and not a call out of a table of functions."""
    keywords = {k.arg for k in call.keywords if k.arg}
    options = bool(keywords & LAUNCH_OPTIONS) or any("BLOCK" in k.upper() for k in keywords)
    grid = isinstance(func.slice, ast.Tuple | ast.Lambda) or last_name(func.slice).startswith("grid")
    return options or (grid and len(call.args) + len(call.keywords) > 0)


def _kept_for_later(source: Source, jits: dict[str, Jit]) -> tuple[list[Launch], list[tuple[int, str]]]:
    """Launches that are bound to a name first, `run = kernel[grid]`; those that are handed on, and shadowed kernels."""
    launches: list[Launch] = []
    said: list[tuple[int, str]] = []
    for node in ast.walk(source.tree):
        if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in jits):
            continue
        name = node.value.id
        if isinstance(parent := source.parents[node], ast.Call) and parent.func is node:
            continue
        bound = bound_launches(source, node)
        if bound is None:
            said.append((node.lineno, f"{name} is bound to its grid there, and launched elsewhere"))
            continue
        scope = source.scope_of(node)
        launches += [Launch(each.call, name, jits[name], scope, node.slice) for each in bound]
    kept = {jit.node for jit in jits.values()}
    said += [
        (node.lineno, f"{node.name} is defined again in line {jits[node.name].node.lineno}, which is the one read")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef) and node.name in jits and node not in kept and is_jit(source.tree, node)
    ]
    return launches, said


def _warmed_up_alone(source: Source, jits: dict[str, Jit], launches: list[Launch]) -> list[tuple[int, str]]:
    """Warm-ups in functions that do not launch the kernel themselves: which settings they should take is not seen."""
    here = {(launch.scope, launch.jit_name) for launch in launches}
    return [
        (node.lineno, f"{node.func.value.id}.warmup takes its options beside the launch")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "warmup"
        if isinstance(node.func.value, ast.Name) and node.func.value.id in jits
        if (source.scope_of(node), node.func.value.id) not in here
    ]


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
