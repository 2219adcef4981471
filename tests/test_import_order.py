"""The arrows between rooms: who may import whom, and which libraries are let in where.

The rules stand here once, as data; the code is checked against them by walking every import statement,
also those inside functions and under TYPE_CHECKING.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[1] / "src"
PACKAGE = "warpsmith"

#: A room imports itself and rooms to its left. The package's own front page stands right after `contracts`,
#: which it re-exports; `__main__` may import all.
ROOMS = (
    "contracts",
    "warpsmith",
    "kernels",
    "verdict",
    "workspace",
    "project",
    "device",
    "source",
    "measure",
    "diagnose",
    "search",
    "report",
    "agents",
    "stages",
    "cli",
    "__main__",
)
#: Inside measure: the same rule. Modules directly in measure/ come after all of them.
MEASURE_ROOMS = ("worker", "compiled", "correctness", "timing", "counters")

#: Rooms that compute from what they are given: nothing that reads a file, a clock or a source of randomness.
PURE_ROOMS = ("contracts", "verdict")
IO_MODULES = frozenset(
    {
        "asyncio", "datetime", "glob", "io", "logging", "multiprocessing", "os", "pathlib", "random", "secrets",
        "shutil", "socket", "subprocess", "sys", "tempfile", "threading", "time", "uuid",
    }
)  # fmt: skip
IO_CALLS = frozenset({"open", "print", "input", "exec", "eval"})

GPU_LIBRARIES = frozenset({"torch", "triton"})
RENDERING_LIBRARIES = frozenset({"pandas", "matplotlib", "jinja2"})
#: Each takes a good part of the half second in which `warpsmith --help` has to answer.
SLOW_TO_LOAD = GPU_LIBRARIES | RENDERING_LIBRARIES | {"scipy", "libcst"}


@dataclass(frozen=True)
class Import:
    """One imported module, absolute. `name` is what is taken from it, if anything."""

    line: int
    module: str
    name: str | None
    on_import: bool

    @property
    def library(self) -> str:
        return self.module.partition(".")[0]


def module_name(path: Path, src: Path) -> str:
    parts = path.relative_to(src).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, src: Path) -> Iterator[Import]:
    """Every import in a file; `on_import` tells those that run when the module is imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = module_name(path, src).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    deferred = {id(inner) for outer in ast.walk(tree) if _defers(outer) for inner in ast.walk(outer)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name, None, id(node) not in deferred)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(node.lineno, module, alias.name, id(node) not in deferred)


def _defers(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def resolve(found: Import, src: Path) -> str:
    """The module of ours that an import reaches: `from warpsmith import cli` reaches the room, not the front page."""
    if found.name is not None:
        inner = f"{found.module}.{found.name}"
        file = src.joinpath(*inner.split("."))
        if file.is_dir() or file.with_suffix(".py").is_file():
            return inner
    return found.module


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else PACKAGE


def measure_room(module: str, src: Path) -> str | None:
    """The sub-room of measure, or None for a module directly in measure/."""
    parts = module.split(".")
    return parts[2] if len(parts) > 2 and (src / PACKAGE / "measure" / parts[2]).is_dir() else None


def violations(src: Path = SRC) -> list[str]:
    """What breaks the rules, as "file:line: reason"."""
    found = []
    for path in sorted((src / PACKAGE).rglob("*.py")):
        where = path.relative_to(src).as_posix()
        module = module_name(path, src)
        reasons = [(each.line, _why_not(module, each, src)) for each in imports(path, src)]
        if room(module) in PURE_ROOMS:
            reasons += [(call.lineno, f"{call.func.id}() in a pure room") for call in _io_calls(path)]
        found += [f"{where}:{line}: {reason}" for line, reason in reasons if reason]
    return found


def _why_not(module: str, found: Import, src: Path) -> str | None:
    if found.library == PACKAGE:
        return _wrong_arrow(module, resolve(found, src), src)
    if found.library in GPU_LIBRARIES and not _may_use_the_gpu(module):
        return f"{module} must not import {found.library}"
    if found.library in RENDERING_LIBRARIES and room(module) != "report":
        return f"{module} must not import {found.library}: only report renders"
    if found.library in IO_MODULES and room(module) in PURE_ROOMS:
        return f"{module} must not import {found.library}: {room(module)} does no IO"
    return None


def _wrong_arrow(module: str, imported: str, src: Path) -> str | None:
    here, there = room(module), room(imported)
    if there not in ROOMS:
        return f"{imported} is in no known room"
    if here == "kernels" and there != "kernels":
        return f"kernels imports nothing of warpsmith, but {module} imports {imported}"
    if ROOMS.index(there) > ROOMS.index(here):
        return f"{here} must not import {there} ({imported})"
    if here == there == "measure":
        return _wrong_arrow_in_measure(module, imported, src)
    return None


def _wrong_arrow_in_measure(module: str, imported: str, src: Path) -> str | None:
    inner_here, inner_there = measure_room(module, src), measure_room(imported, src)
    if inner_here is None:
        return None
    if inner_there is None:
        return f"measure/{inner_here} must not import {imported}, which stands above the sub-rooms"
    if MEASURE_ROOMS.index(inner_there) > MEASURE_ROOMS.index(inner_here):
        return f"measure/{inner_here} must not import measure/{inner_there} ({imported})"
    return None


def _may_use_the_gpu(module: str) -> bool:
    """The kernel library, and measure but for that half of its worker room that runs in the parent process."""
    worker = f"{PACKAGE}.measure.worker"
    if module in (f"{worker}.inputs", f"{worker}.calls", f"{worker}.streams"):
        return True
    return room(module) == "kernels" or (room(module) == "measure" and not module.startswith(worker))


def _io_calls(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IO_CALLS:
            yield node


def loaded_by(start: str, src: Path = SRC) -> dict[str, str]:
    """Every module that importing `start` loads -> who asks for it first. Ours are followed, others are leaves."""
    reached: dict[str, str] = {start: ""}
    waiting = [start]
    while waiting:
        module = waiting.pop()
        path = src.joinpath(*module.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        for found in imports(file, src) if file.is_file() else ():
            if not found.on_import:
                continue
            target = resolve(found, src) if found.library == PACKAGE else found.library
            for name in _with_parents(target):
                if name not in reached:
                    reached[name] = module
                    waiting += [name] if name.startswith(PACKAGE) else []
    return reached


def _with_parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]


def plant(tmp_path: Path, files: dict[str, str]) -> Path:
    """A source tree with the given modules in a package of all rooms."""
    for name in ("__init__.py", *(f"{each}/__init__.py" for each in ROOMS[:-1] if each != PACKAGE)):
        target = tmp_path / PACKAGE / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    for name in MEASURE_ROOMS:
        (tmp_path / PACKAGE / "measure" / name).mkdir()
        (tmp_path / PACKAGE / "measure" / name / "__init__.py").touch()
    for file, text in files.items():
        (tmp_path / PACKAGE / file).write_text(text, encoding="utf-8")
    return tmp_path


def test_no_import_goes_against_the_order_of_the_rooms() -> None:
    assert violations() == []


def test_every_room_of_the_package_has_a_place_in_the_order() -> None:
    rooms = {path.parent.name for path in (SRC / PACKAGE).glob("*/__init__.py")}
    inside = {path.parent.name for path in (SRC / PACKAGE / "measure").glob("*/__init__.py")}

    assert rooms - set(ROOMS) == set()
    assert inside == set(MEASURE_ROOMS)


def test_importing_the_command_line_loads_no_library_that_is_slow_to_load() -> None:
    loaded = loaded_by(f"{PACKAGE}.cli.edge")

    assert {name: by for name, by in loaded.items() if name in SLOW_TO_LOAD} == {}


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("verdict/a.py", "from warpsmith.report import tables", "verdict must not import report"),
        ("source/a.py", "import warpsmith.measure.worker.protocol", "source must not import measure"),
        ("search/a.py", "from warpsmith import cli", "search must not import cli"),
        ("search/a.py", "from ..stages import doctor", "search must not import stages"),
        ("search/a.py", "def f():\n    from warpsmith.agents import x", "search must not import agents"),
        (
            "project/a.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import warpsmith.device",
            "project must not import device",
        ),
        ("contracts/a.py", "from warpsmith import Target", "contracts must not import warpsmith"),
        ("kernels/a.py", "from warpsmith.contracts.case import Case", "kernels imports nothing of warpsmith"),
        ("measure/worker/a.py", "from warpsmith.measure.timing import graph", "measure/worker must not import"),
        ("measure/timing/a.py", "from ..counters import ncu", "measure/timing must not import measure/counters"),
        ("measure/compiled/a.py", "from warpsmith.measure.handlers import x", "which stands above the sub-rooms"),
        ("measure/worker/a.py", "import torch", "must not import torch"),
        ("search/a.py", "def f():\n    import triton.language as tl", "must not import triton"),
        ("stages/a.py", "import pandas as pd", "only report renders"),
        ("verdict/a.py", "import random", "verdict does no IO"),
        ("contracts/a.py", "from pathlib import Path", "contracts does no IO"),
        ("verdict/a.py", "text = open('x').read()", "open() in a pure room"),
        ("stages/a.py", "from warpsmith.elsewhere import x", "is in no known room"),
    ],
)
def test_a_planted_bad_import_is_caught(tmp_path: Path, file: str, text: str, complaint: str) -> None:
    (found,) = violations(plant(tmp_path, {file: text}))

    assert found.startswith(f"{PACKAGE}/{file}:")
    assert complaint in found


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("verdict/a.py", "import math\nimport numpy\nfrom warpsmith.contracts import case"),
        ("kernels/a.py", "import torch\nimport triton\nfrom warpsmith.kernels import b"),
        ("measure/handlers.py", "import torch\nfrom warpsmith.measure.counters import ncu"),
        ("measure/counters/a.py", "import triton\nfrom ..worker import protocol"),
        ("report/a.py", "import jinja2, pandas, matplotlib.pyplot"),
        ("cli/a.py", "from warpsmith import __version__, stages"),
        ("__main__.py", "from warpsmith.cli import main"),
    ],
)
def test_an_allowed_import_passes(tmp_path: Path, file: str, text: str) -> None:
    assert violations(plant(tmp_path, {file: text})) == []


def test_what_the_command_line_loads_is_followed_through_modules_but_not_into_functions(tmp_path: Path) -> None:
    src = plant(
        tmp_path,
        {
            "cli/__init__.py": "from warpsmith.stages import runner",
            "stages/runner.py": "from warpsmith.search.planted import x\ndef f():\n    import matplotlib",
            "search/planted.py": "import torch.nn",
        },
    )

    loaded = loaded_by(f"{PACKAGE}.cli", src)

    assert loaded["torch"] == "warpsmith.search.planted"
    assert "matplotlib" not in loaded
