"""What a process has in common with whoever times and compares in it: callables by identity, switches by value.

Owns what is watched and how a change is told. Must not know who is to blame for it. Most names are looked up in
dictionaries that are there anyway: taking it and comparing it are a few milliseconds each.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import builtins
import ctypes
import gc
import hashlib
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import torch
import torch.linalg
import torch.nn.functional
import torch.profiler
import torch.testing
import torch.utils.deterministic
import triton
import triton.runtime.jit
import triton.testing
from triton.compiler import CompiledKernel
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction, KernelInterface

from warpsmith.measure.correctness.switches import is_plain, other_threads, switches
from warpsmith.measure.worker.loading import loaded_modules

#: What a timer, a comparison or a reference calls, beside every module of warpsmith.
_MODULES: tuple[ModuleType, ...] = (
    *(builtins, ctypes, gc, hashlib, json, math, os, random, signal, statistics, subprocess, threading, time),
    *(torch, torch._C, torch.autograd, torch.autograd.graph, torch.autograd.function, torch.cuda, torch.cuda.graphs),
    *(torch.cuda.memory, torch.cuda.streams, torch.cuda.random, torch.linalg, torch.nn.functional, torch.profiler),
    *(torch.testing, torch.random, torch.utils.deterministic, triton, triton.testing, triton.runtime.jit),
)
_CLASSES: tuple[type, ...] = (
    *(torch.Tensor, torch._C.TensorBase, torch.Generator, torch.autograd.Function, torch.UntypedStorage),
    *(torch.cuda.Event, torch.cuda.Stream, torch.cuda.CUDAGraph, torch.cuda.graph, torch.profiler.profile),
    *(random.Random, CompiledKernel, JITFunction, KernelInterface, InterpretedFunction, Autotuner, Heuristics),
)
_CODE = (
    *(FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, GetSetDescriptorType),
    *(staticmethod, classmethod, property),
)
_GONE = object()


@dataclass(frozen=True)
class Change:
    """Something that is not as it was. `origin` is the file of the code that stands there now, where that is known.

    `is_code`: a function, a class or a module, not a switch or a thread.
    """

    name: str
    message: str
    origin: str | None = None
    is_code: bool = False


@dataclass(frozen=True)
class _Namespace:
    """Some names of a mapping that is alive, and what they were.

    `known` are all names that it had: a new one counts where it hides one `beyond`, in which names are looked up that
    are not here. `file` is that of a user's module, whose own code may bind its names anew.
    """

    label: str
    names: Mapping[str, Any]
    saved: Mapping[str, Any]
    codes: Mapping[str, CodeType] = field(default_factory=dict)
    beyond: tuple[Mapping[str, Any], ...] = ()
    file: str | None = None
    known: frozenset[str] = frozenset()

    @classmethod
    def of_module(cls, module: ModuleType, file: str | None = None) -> _Namespace:
        names = vars(module)
        saved = {name: each for name, each in names.items() if callable(each) or isinstance(each, ModuleType)}
        known = frozenset(names)
        return cls(module.__name__, names, saved, _codes(saved), (vars(builtins),), file, known)

    @classmethod
    def of_class(cls, owner: type) -> _Namespace:
        """Of its attributes what is Python's or C's code: others, such as pydantic's, are filled in when needed."""
        names = vars(owner)
        saved = {name: each for name, each in names.items() if isinstance(each, _CODE)}
        bases = tuple(map(vars, owner.__mro__[1:]))
        label = f"{owner.__module__}.{owner.__qualname__}"
        return cls(label, names, saved, _codes(saved), bases, known=frozenset(names))

    def changes(self) -> Iterator[Change]:
        names, codes = self.names, self.codes
        for name, value in self.saved.items():
            now = names.get(name, _GONE)
            if now is value and (name not in codes or _code(now) is codes[name]):
                continue
            if not (self._is_its_own(now) or _is_torchs_wrapper(now, value)):
                yield self._change("deletes" if now is _GONE else "replaces" if now is not value else "rewrites", name)
        if self.beyond:
            for name in names.keys() - self.known:
                if any(name in each for each in self.beyond) and isinstance(names[name], _CODE):
                    yield self._change("replaces", name)

    def _is_its_own(self, now: Any) -> bool:
        return self.file is not None and _origin(now) == self.file

    def _change(self, what: str, name: str) -> Change:
        full = f"{self.label}.{name}"
        return Change(full, f"{what} {full}", _origin(self.names.get(name)), is_code=True)


@dataclass
class Surroundings:
    """All that is watched, as it was when this was taken. `excused` are the names whose changes do not count."""

    namespaces: tuple[_Namespace, ...]
    switches: dict[str, Any]
    threads: frozenset[tuple[int, str, str]]
    excused: set[str] = field(default_factory=set)

    @classmethod
    def taken(cls, user_files: Iterable[str] = ()) -> Surroundings:
        """As it is now. Of the `user_files` that are loaded, the callables are watched as well."""
        return cls(tuple(_namespaces(frozenset(user_files))), switches(), frozenset(other_threads()))

    @contextmanager
    def excusing(self) -> Iterator[None]:
        """What changes inside is nobody's fault, now or later."""
        before = {change.name for change in self.changes()}
        yield
        self.excused |= {change.name for change in self.changes()} - before

    def changes(self) -> list[Change]:
        """What is not as it was."""
        found = [change for each in self.namespaces for change in each.changes()]
        now = switches()
        found += [
            Change(name, f"changes {name}" + (f" from {was} to {now[name]}" if is_plain(was) else ""))
            for name, was in self.switches.items()
            if now[name] != was
        ]
        found += [
            Change(f"thread {name}", f"leaves a thread running: {name}", origin)
            for _, name, origin in sorted({*other_threads()} - self.threads)
        ]
        return [change for change in found if change.name not in self.excused]


def _namespaces(user_files: frozenset[str]) -> Iterator[_Namespace]:
    users = loaded_modules()
    ours = [each for name, each in list(sys.modules.items()) if name.startswith("warpsmith.") and each not in users]
    watched = {module.__name__: module for module in (*_MODULES, *ours)}
    yield from map(_Namespace.of_module, watched.values())
    yield from map(_Namespace.of_class, (*_CLASSES, *(owner for module in ours for owner in _classes_of(module))))
    yield _Namespace("sys.modules", sys.modules, watched)
    for module in users:
        if module.__file__ in user_files:
            yield _Namespace.of_module(module, module.__file__)


def _classes_of(module: ModuleType) -> Iterator[type]:
    return (each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__)


def _codes(saved: Mapping[str, Any]) -> dict[str, CodeType]:
    return {name: code for name, value in saved.items() if (code := _code(value)) is not None}


def _code(value: Any) -> CodeType | None:
    """The code that a call of it runs, where that is Python's."""
    kind = type(value)
    if kind is property:
        value = value.fget
    elif kind is staticmethod or kind is classmethod:
        value = value.__func__
    return value.__code__ if type(value) is FunctionType else None


def _origin(value: Any) -> str | None:
    code = _code(value)
    return code.co_filename if code is not None else None


def _is_torchs_wrapper(now: Any, before: Any) -> bool:
    """torch wraps functions of its own when they are first used: torch.manual_seed by torch._disable_dynamo."""
    wrapped = getattr(now, "__wrapped__", None) is before
    return wrapped and (_origin(now) or "").startswith(os.path.dirname(torch.__file__))
