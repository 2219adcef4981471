"""A small repository with the real kernel, and runs on it that a simulated GPU answers."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from matplotlib.figure import Figure

# Test modules are imported by path, so their neighbours are found only if they are told where.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from simulated_run import Run, make_repository

from warpsmith.contracts.result import FinalOutcome
from warpsmith.stages import guarding


@pytest.fixture(autouse=True)
def nothing_drawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes seconds: each plot is a word, but in tests that are about plots or figures by their names."""
    if not re.search("plots|figure", request.node.name):
        monkeypatch.setattr(Figure, "savefig", lambda _, file, **options: file.write(b"drawn"))


@pytest.fixture(scope="session", autouse=True)
def harness() -> Iterator[str]:
    """The harness is read once: whoever edits it while tests run disturbs none of them."""
    found = guarding.harness_sha256()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guarding, "harness_sha256", lambda: found)
        yield found


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run that has just begun."""
    return Run.begin(make_repository(tmp_path))


@pytest.fixture(scope="session")
def profiled_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    begun = Run.begin(make_repository(tmp_path_factory.mktemp("profiled")))
    begun.profile()
    return begun.root


@pytest.fixture(scope="session")
def optimized_tree(profiled_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("optimized") / "repository"
    shutil.copytree(profiled_tree, root)
    Run.of(root).optimize()
    return root


@pytest.fixture
def profiled(profiled_tree: Path, tmp_path: Path) -> Run:
    """A run whose profile is there."""
    return Run.of(Path(shutil.copytree(profiled_tree, tmp_path / "profiled")))


@pytest.fixture
def optimized(optimized_tree: Path, tmp_path: Path) -> Run:
    """A run whose search has ended with a winner."""
    return Run.of(Path(shutil.copytree(optimized_tree, tmp_path / "optimized")))


@pytest.fixture(scope="session")
def finalized_tree(optimized_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("finalized") / "repository"
    shutil.copytree(optimized_tree, root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warpsmith.stages.reporting.save_plots", lambda *_: ())
        assert Run.of(root).finalize().outcome is FinalOutcome.APPLIED
    return root


@pytest.fixture
def finalized(finalized_tree: Path, tmp_path: Path) -> Run:
    """A run whose winner is applied."""
    return Run.of(Path(shutil.copytree(finalized_tree, tmp_path / "finalized")))
