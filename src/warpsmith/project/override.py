"""Runs a Python program in which one module comes from another file: tests of a variant, with production untouched.

    python -m warpsmith.project.override --module pkg.kernel --source variant.py -- pytest tests/test_kernel.py

What follows `--` is a module to run as a program (`pytest`) or a script (`bench.py`), with its arguments. The override
holds in this process alone, and a program that never loaded the module from the file has proven nothing: it fails.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from warpsmith.contracts.errors import ExitCode


class UncachedLoader(importlib.machinery.SourceFileLoader):
    """Loads a source file without bytecode: a variant rewritten within a second would else be served stale."""

    loads = 0

    def exec_module(self, module: ModuleType) -> None:
        self.loads += 1
        super().exec_module(module)

    def path_stats(self, path: str) -> dict[str, float]:
        raise OSError("no bytecode for this file")


class Override(importlib.abc.MetaPathFinder):
    """Answers the import of one module, under its own name and so in its own package, from `source`."""

    def __init__(self, module: str, source: Path) -> None:
        self.module = module
        self.source = str(source.resolve())
        self.loader = UncachedLoader(module, self.source)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.module:
            return None
        return importlib.util.spec_from_file_location(
            fullname,
            self.source,
            loader=self.loader,
            submodule_search_locations=self._submodules(fullname, path, target),
        )

    def complaint(self) -> str | None:
        """Why the program's result says nothing of the source, or None."""
        if self.loader.loads == 0:
            return f"{self.module} was never imported, so {self.source} was not run"
        current = sys.modules.get(self.module)
        found = getattr(current, "__file__", None)
        if current is not None and found != self.source:
            return f"{self.module} was loaded from {found}, expected {self.source}"
        return None

    def _submodules(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None) -> list[str] | None:
        """Where the submodules lie if the production module is a package."""
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target) if finder is not self else None
            if spec is not None:
                found = spec.submodule_search_locations
                return None if found is None else list(found)
        return None


def main(arguments: Sequence[str]) -> int:
    """Runs the program and returns its exit status, or PREFLIGHT's where it succeeded without the source."""
    own, program = _split(arguments)
    parser = argparse.ArgumentParser(
        prog="python -m warpsmith.project.override", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--module", required=True, help="the module's import name")
    parser.add_argument("--source", required=True, type=Path, help="the file it is loaded from")
    options = parser.parse_args(own)
    if not program:
        parser.error("nothing to run: expected `-- pytest ...` or `-- script.py ...`")
    if not options.source.is_file():
        parser.error(f"--source {options.source} is not there")
    if options.module in sys.modules:
        parser.error(f"{options.module} is imported already, before the override")
    override = Override(options.module, options.source)
    sys.meta_path.insert(0, override)
    status = _run(program)
    complaint = override.complaint()
    if complaint is not None:
        print(f"override: {complaint}", file=sys.stderr)
    return status if complaint is None or status != 0 else int(ExitCode.PREFLIGHT)


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    words = list(arguments)
    if "--" not in words:
        return words, []
    place = words.index("--")
    return words[:place], words[place + 1 :]


def _run(program: Sequence[str]) -> int:
    sys.argv = list(program)
    try:
        if program[0].endswith(".py"):
            # As `python script.py` does.
            sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
            runpy.run_path(program[0], run_name="__main__")
        else:
            runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
