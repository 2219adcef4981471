"""What other code may rely on in a kernel's module, and whether a candidate keeps it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from warpsmith.source.jit import Jit
from warpsmith.source.launches import Reading
from warpsmith.source.syntax import FunctionNode, assignments, is_name

#: A line and what is wrong with it.
Finding = tuple[int, str]
#: Ends what is said of a line that only the original has.
LINE_OF_ORIGINAL = "(line of the original)"


def changed_interface(before: Reading, after: Reading) -> Iterator[Finding]:
    """Public names and signatures that differ, and entry kernels that lost their name or parameters.

    The line is the candidate's, or the original's for what is gone.
    """
    old, new = _public(before), _public(after)
    for name, (line, signature) in old.items():
        if name not in new:
            yield line, f"{name} is gone {LINE_OF_ORIGINAL}"
        elif new[name][1] != signature:
            yield new[name][0], f"the signature of {name} is {new[name][1]}, was {signature}"
    for name, (line, signature) in new.items():
        if name not in old and signature:
            yield line, f"{name} is a new public name; give it a leading underscore"
    yield from _changed_kernels(before, after)


def _public(reading: Reading) -> dict[str, tuple[int, str]]:
    """Public functions but for kernels, classes, methods and module variables -> (line, signature)."""
    found: dict[str, tuple[int, str]] = {}
    for statement in reading.source.tree.body:
        if isinstance(statement, FunctionNode) and not statement.name.startswith("_"):
            if statement.name in reading.jits:
                continue
            found[statement.name] = (statement.lineno, _signature(statement))
        elif isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
            bases = ", ".join(ast.unparse(base) for base in statement.bases)
            found[statement.name] = (statement.lineno, f"class ({bases})")
            for method in statement.body:
                if isinstance(method, FunctionNode) and (not method.name.startswith("_") or method.name == "__init__"):
                    found[f"{statement.name}.{method.name}"] = (method.lineno, _signature(method))
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            for assigned in assignments(statement):
                if not assigned.name.startswith("_"):
                    found.setdefault(assigned.name, (statement.lineno, ""))
    return found


def _signature(function: FunctionNode) -> str:
    """Parameters, kinds and defaults, without annotations."""
    arguments = function.args
    plain = ast.arguments(
        posonlyargs=[ast.arg(a.arg) for a in arguments.posonlyargs],
        args=[ast.arg(a.arg) for a in arguments.args],
        vararg=ast.arg(arguments.vararg.arg) if arguments.vararg else None,
        kwonlyargs=[ast.arg(a.arg) for a in arguments.kwonlyargs],
        kw_defaults=arguments.kw_defaults,
        kwarg=ast.arg(arguments.kwarg.arg) if arguments.kwarg else None,
        defaults=arguments.defaults,
    )
    kind = "async " if isinstance(function, ast.AsyncFunctionDef) else ""
    return f"{kind}({ast.unparse(plain)})"


def _changed_kernels(before: Reading, after: Reading) -> Iterator[Finding]:
    """Kernels that the original launches, or that are public, keep name and parameters.

    Constexprs with a default may be added last, and numbers with one that every launch here gives: who launches the
    kernel elsewhere finds it as it was.
    """
    entries = {launch.jit_name for launch in before.launches if launch.jit is not None}
    entries |= {name for name in before.jits if not name.startswith("_")}
    for name in sorted(entries):
        old, new = before.jits[name], after.jits.get(name)
        if new is None:
            yield old.node.lineno, f"the entry kernel {name} is gone {LINE_OF_ORIGINAL}"
            continue
        kept, added = new.parameters[: len(old.parameters)], new.parameters[len(old.parameters) :]
        if kept != old.parameters:
            yield new.node.lineno, f"the entry kernel {name} has other parameters: {', '.join(new.parameters)}"
        elif not all(_may_be_left_out(new, parameter) for parameter in added):
            what = "has new parameters that are no constexprs with a default, nor numbers with one"
            yield new.node.lineno, f"the entry kernel {name} {what}"
        else:
            numbers = [parameter for parameter in added if parameter not in new.constexprs]
            yield from _left_out(after, new, numbers)


def _may_be_left_out(jit: Jit, parameter: str) -> bool:
    default = jit.defaults.get(parameter)
    is_number = isinstance(default, ast.Constant) and type(default.value) in (int, float)
    return is_number or (default is not None and parameter in jit.constexprs)


def _left_out(after: Reading, jit: Jit, numbers: list[str]) -> Iterator[Finding]:
    """Uses of a kernel that do not give these parameters. torch.compile passes no default of a number on."""
    launches = [launch for launch in after.launches if launch.jit_name == jit.name]
    launched = {node for launch in launches for node in ast.walk(launch.call.func)}
    for launch in launches:
        for number in numbers:
            if launch.argument(number) is None:
                yield launch.line, f"the launch of {jit.name} does not give {number}, which the original lacks"
    for node in ast.walk(after.source.tree):
        if numbers and is_name(node, jit.name) and node not in launched:
            line = getattr(node, "lineno", jit.node.lineno)
            yield line, f"{jit.name} is used other than in a launch, and has a new parameter, {numbers[0]}"
