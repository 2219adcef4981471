"""What rewrites share that add a last constexpr parameter to a kernel: where it fits, and how its type is written."""

from __future__ import annotations

import ast

from warpsmith.source.imports import name_of_import
from warpsmith.source.jit import Jit
from warpsmith.source.launches import Reading
from warpsmith.source.refusal import NotApplicable


def jit_with_room(reading: Reading, name: str, parameter: str) -> Jit:
    """The jit function, if a last parameter of that name can be added. Raises NotApplicable."""
    if name not in reading.jits:
        raise NotApplicable(f"{name} is no jit function of this source")
    jit = reading.jits[name]
    if parameter in jit.parameters or jit.node.args.vararg or jit.node.args.kwonlyargs:
        raise NotApplicable(f"{name} has no room for a last parameter {parameter}")
    return jit


def jit_with_switch(reading: Reading, name: str, parameter: str) -> Jit:
    """The same for what a settings table turns on: a tuner's configs would hide it. Raises NotApplicable."""
    jit = jit_with_room(reading, name, parameter)
    if jit.autotune is not None:
        raise NotApplicable(f"{name} is tuned by a decorator in line {jit.autotune.lineno}, which no table can add to")
    return jit


def language_name(tree: ast.Module) -> str:
    """By which name triton.language goes. Raises NotApplicable."""
    name = name_of_import(tree, "triton.language")
    if name is None:
        raise NotApplicable("the source does not import triton.language by a name")
    return name
