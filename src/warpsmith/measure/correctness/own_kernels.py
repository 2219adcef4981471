"""Whose kernels ran: the source's own have to, and no library's that the original does without.

Owns both refusals, and what counts as the original's: what it launches, and the modules that it imports.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from warpsmith.contracts.measurement import CheckFailure
from warpsmith.measure.correctness.bout import Bout
from warpsmith.measure.correctness.launched import Kernel
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.loading import loaded_modules


def own_kernels(bout: Bout) -> Iterator[CheckFailure]:
    """In a pass where the original launches kernels of its source, the candidate does; none of anybody else's.

    Their names may be new ones. A plain function, with no source, is not asked for kernels.
    """
    source = bout.candidate.source_path
    if source is None:
        return
    if not any(known.of_file(bout.original.source_path) for known in bout.known.launches.values()):
        bout.skipped["own kernels"] = "the original launches no kernel of its own here"
    for name, known in bout.known.launches.items():
        theirs, found = known.of_file(bout.original.source_path), bout.found.launches.get(name)
        if theirs and found is not None and not found.of_file(source):
            launched = ", ".join(sorted(theirs))
            message = f"launches no kernel of its own in the {name} pass, where the original launches {launched}"
            yield CheckFailure(check="own kernels", message=message)
    strange = {kernel for each in bout.found.launches.values() for kernel in each.counts}
    strange -= {kernel for each in bout.known.launches.values() for kernel in each.counts}
    strange = {kernel for kernel in strange if kernel.file != os.path.realpath(source)}
    if strange:
        allowed = _files_imported_by(bout.original)
        for kernel in sorted(strange, key=lambda each: (each.file, each.name)):
            if kernel.file not in allowed:
                where = f"{kernel.name} of {_module_named(kernel.file)}"
                message = f"launches {where}, which the original neither launches nor imports"
                yield CheckFailure(check="own kernels", message=message)


def _files_imported_by(original: Implementation) -> set[str]:
    """The files of the modules that a source imports, and of the jit functions that it has from elsewhere."""
    files: set[str] = set()
    for module in loaded_modules():
        if module.__file__ == original.source_path:
            files |= {os.path.realpath(file) for name in _imports_of(module) if (file := _file_of(name))}
            files |= {Kernel.of(each).file for each in vars(module).values() if _is_jit(each)}
    return files


def _imports_of(module: ModuleType) -> Iterator[str]:
    """Full names of the modules that a source imports, and of what it has from them: those may be modules too."""
    assert module.__file__ is not None
    for node in ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            base = importlib.util.resolve_name(relative, module.__package__) if node.level else relative
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _is_jit(value: object) -> bool:
    """Whether it is a jit function, also an autotuned one."""
    return hasattr(value, "fn") and hasattr(value, "run") and callable(value.run)


def _file_of(module: str) -> str | None:
    return getattr(sys.modules.get(module), "__file__", None)


def _module_named(file: str) -> str:
    """The name of the module in that file, else its path."""
    found = (name for name in list(sys.modules) if (own := _file_of(name)) and os.path.realpath(own) == file)
    return next(found, file)
