"""Loads targets and kernel sources by path, inside a worker. Torch is imported by what is loaded, not here."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import SETTINGS_NAME, Contender, SourceRef
from warpsmith.contracts.target import Inputs, Target
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.protocol import WorkerError, WorkerFailure

_modules: dict[tuple[str, str], ModuleType] = {}
#: Ends the names of the modules that are loaded apart.
_apart = ""
_providers: dict[tuple[str, str], Callable[[Inputs], Any]] = {}


@contextmanager
def loaded_apart(name: str) -> Iterator[None]:
    """Inside, targets and sources are modules of their own, kept for the next block of that name.

    For what a module finds out once and keeps, such as the number of SMs of a GPU, where that must not be mixed up.
    """
    global _apart
    before, _apart = _apart, "_" + hashlib.sha256(name.encode()).hexdigest()[:12]
    try:
        yield
    finally:
        _apart = before


def loaded_modules() -> tuple[ModuleType, ...]:
    """Every target and source that was loaded here."""
    return tuple(_modules.values())


def load_target(path: str) -> Target:
    """The `target` of a target file. Raises WorkerError (bad_target) saying what is wrong with it."""
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    module = _load_file(f"warpsmith_target_{digest[:12]}", path, package=None)
    target = getattr(module, "target", None)
    if not isinstance(target, Target):
        raise _failure("bad_target", f"{path} must define `target = Target(...)`; found {type(target).__name__}")
    if set(target.modes) - {Mode.FORWARD} and not target.differentiable:
        raise _failure(
            "bad_target",
            f"{path} has a pass backward, but `differentiable` names no input: name those whose gradients count, or "
            "say modes=(Mode.FORWARD,)",
        )
    return target


def load_implementation(target: Target, contender: Contender, root: str) -> Implementation:
    """A contender, ready to be called. Raises WorkerError where it cannot be loaded."""
    if contender.source is None:
        return Implementation(contender.name, _provider(target, contender.name), _nothing_to_activate, None)
    module = load_source(target, contender.source, root)
    return Implementation(
        name=contender.name,
        call=lambda inputs: target.call(module, inputs),
        activate=_activation(module, contender),
        source_path=contender.source.path,
    )


def load_source(target: Target, source: SourceRef, root: str) -> ModuleType:
    """A kernel source as a module in the package of the original, so that its relative imports work."""
    content = Path(source.path).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != source.sha256:
        raise _failure(
            "import_failed", f"{source.path} changed: expected sha256 {source.sha256[:12]}, found {digest[:12]}"
        )
    package = target.module.rpartition(".")[0]
    for entry in (str(Path(root) / "src"), root):
        if entry not in sys.path:
            sys.path.insert(0, entry)
    try:
        if package:
            importlib.import_module(package)
    except (Exception, SystemExit) as error:  # the user's package may fail in any way
        raise _failure("import_failed", f"package {package}: {type(error).__name__}: {error}") from error
    return _load_file(f"{target.module}_{digest[:12]}", source.path, package=package)


def _load_file(name: str, path: str, *, package: str | None) -> ModuleType:
    name += _apart
    key = (name, path)
    if key in _modules:
        return _modules[key]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise _failure("import_failed", f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    if package:
        module.__package__ = package
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the user's code may fail in any way
        del sys.modules[name]
        raise _failure("import_failed", f"{path}: {type(error).__name__}: {error}") from error
    _modules[key] = module
    return module


def _provider(target: Target, name: str) -> Callable[[Inputs], Any]:
    key = (target.name, name)
    if key not in _providers:
        if name not in target.providers:
            raise _failure("bad_target", f"no provider {name!r}; the target has {sorted(target.providers)}")
        try:
            _providers[key] = target.providers[name]()
        except ImportError as error:
            raise _failure("import_failed", f"provider {name}: {error}") from error
    return _providers[key]


def _activation(module: ModuleType, contender: Contender) -> Callable[[], None]:
    current: dict[str, int] | None = getattr(module, SETTINGS_NAME, None)
    if current is None:
        if contender.settings:
            raise _failure("import_failed", f"{contender.name} has settings, but its source takes none")
        return _nothing_to_activate

    def activate() -> None:
        current.clear()
        current.update(contender.settings)

    return activate


def _nothing_to_activate() -> None:
    """A source without settings, and a baseline provider, are always current."""


def _failure(status: Any, message: str) -> WorkerError:
    return WorkerError(WorkerFailure(status=status, message=message))
