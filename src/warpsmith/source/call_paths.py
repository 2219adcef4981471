"""Which functions of a file run on the way to a launch: those that launch, those that call them, and what these call.

By name alone, as a reader would follow it: `f(...)`, `self.f(...)`, and `C.apply(...)` for the forward pass of C.
Tests and timing loops call a kernel too, and are left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cached_property

from warpsmith.source.launches import Reading
from warpsmith.source.syntax import dotted, walk_scope

Function = ast.FunctionDef | ast.AsyncFunctionDef
_NO_LAUNCHER = re.compile(
    r"(^|_)(test|bench|benchmark|main|demo|example|profile|compare|verify|ref|reference)s?\d*(_|$)"
)


class CallPaths:
    """The functions of a file that are no jit functions, and who calls whom."""

    def __init__(self, reading: Reading) -> None:
        jits = {jit.node for jit in reading.jits.values()}
        self._launching = {each.scope for each in reading.launches}
        self._functions = [node for node in reading.source.functions if node not in jits]
        self._class_of = {
            inner: node.name for node in reading.source.parents if isinstance(node, ast.ClassDef) for inner in node.body
        }
        named: dict[str, list[Function]] = {}
        for function in self._functions:
            named.setdefault(function.name, []).append(function)
        self._receivers = {"self", "cls", *self._class_of.values()}
        self._called: dict[Function, set[Function]] = {
            function: self._callees(function, named) for function in self._functions
        }

    def launching(self) -> tuple[Function, ...]:
        """Functions that launch, and those that call them, directly or not; in source order."""
        return self._reaching

    @cached_property
    def _reaching(self) -> tuple[Function, ...]:
        reached = {each for each in self._functions if each in self._launching and not _no_launcher(each)}
        before = -1
        while before != (before := len(reached)):
            reached |= {each for each in self._functions if self._called[each] & reached and not _no_launcher(each)}
        return tuple(each for each in self._functions if each in reached)

    def on_the_way(self) -> list[Function]:
        """`launching()` and every function that those call."""
        reached = self.below(self.launching())
        return [each for each in self._functions if each in reached]

    def below(self, functions: Iterable[Function]) -> set[Function]:
        """The functions themselves, and what they call, directly or not."""
        reached, waiting = set(functions), list(functions)
        while waiting:
            for each in self._called[waiting.pop()] - reached:
                if not _no_launcher(each):
                    reached.add(each)
                    waiting.append(each)
        return reached

    def passes(self, name: str) -> list[Function]:
        """The `forward` or `backward` methods of autograd functions: those that take `ctx` first."""
        return [
            each
            for each in self._functions
            if each.name == name and each in self._class_of and each.args.args and each.args.args[0].arg == "ctx"
        ]

    def class_of(self, function: Function) -> str | None:
        """The class that a method is defined in."""
        return self._class_of.get(function)

    def _callees(self, function: Function, named: dict[str, list[Function]]) -> set[Function]:
        found: set[Function] = set()
        for node in walk_scope(function):
            path = (dotted(node.func) or "").split(".") if isinstance(node, ast.Call) else []
            if len(path) > 1 and path[-1] == "apply":
                found |= {each for each in named.get("forward", ()) if self._class_of.get(each) == path[-2]}
            elif len(path) == 1 or (len(path) == 2 and path[0] in self._receivers):
                found |= set(named.get(path[-1], ()))
        return found


def _no_launcher(function: Function) -> bool:
    return _NO_LAUNCHER.search(function.name) is not None
