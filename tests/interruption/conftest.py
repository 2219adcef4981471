"""Runs that are interrupted: a small repository, and a process that runs `warpsmith` in forks of itself."""

from __future__ import annotations

import functools
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Test modules are imported by path, so what they share is found only if they are told where.
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "stages"), str(HERE.parent / "project")]

from interrupted_run import RECORDED, REPOSITORY, TEST_COMMAND, Ended, InterruptedRun, Launcher, NewRun  # noqa: E402
from simulated_run import KERNEL, SOURCE, make_repository  # noqa: E402

from warpsmith.contracts.recording import Recording  # noqa: E402
from warpsmith.contracts.variant import REFINEMENTS, Variant  # noqa: E402
from warpsmith.project.demonstration import copy_repository  # noqa: E402
from warpsmith.workspace.documents import read_document  # noqa: E402

#: The sweep and one variant on top of it: both kinds of variant, and a winner that is based on another.
ARGUMENTS = ("run", KERNEL, "--autonomous", "--quiet", "--max-variants", "2")


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    launcher = Launcher("simulated")
    yield launcher
    launcher.close()


def begin(launcher: Launcher, folder: Path) -> InterruptedRun:
    root = make_repository(folder / "repository")
    (root / "warpsmith.yaml").write_text(TEST_COMMAND)
    return InterruptedRun(launcher, root, folder / "scratch", KERNEL, SOURCE, ARGUMENTS)


@pytest.fixture
def new_run(launcher: Launcher, tmp_path: Path) -> NewRun:
    """Makes runs that have not begun, each in a repository of its own."""
    made: list[InterruptedRun] = []

    def make() -> InterruptedRun:
        made.append(begin(launcher, tmp_path / str(len(made))))
        return made[-1]

    return make


@pytest.fixture
def new_search(new_run: NewRun, uninterrupted: tuple[InterruptedRun, Ended]) -> NewRun:
    """Makes runs whose winner is about to be applied: all is measured, and the production file is the original."""
    reference, _ = uninterrupted

    def make() -> InterruptedRun:
        run = new_run()
        shutil.copytree(reference.workspace.directory, run.workspace.directory)
        run.workspace.final_result.unlink()
        return run

    return make


@pytest.fixture
def searched(new_search: NewRun) -> InterruptedRun:
    """A run whose winner is about to be applied."""
    return new_search()


@pytest.fixture(scope="session")
def uninterrupted(launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> tuple[InterruptedRun, Ended]:
    """A run that nothing interrupted, and what it came to."""
    run = begin(launcher, tmp_path_factory.mktemp("uninterrupted"))
    ended = run.go_on()
    assert ended.code == 0, ended.output
    return run, ended


@pytest.fixture(scope="session")
def replay_launcher() -> Iterator[Launcher]:
    launcher = Launcher()
    yield launcher
    launcher.close()


@functools.cache
def up_to_the_recorded_winner() -> int:
    """How many strategies it takes to come to the winner on record: what was tried after it is more of the same."""
    winner = read_document(RECORDED.document, Recording).result.winner
    assert winner is not None
    variant = read_document(REPOSITORY / "optimization" / KERNEL / f"{KERNEL}_v{winner}.json", Variant)
    return variant.based_on if variant.strategy in REFINEMENTS else variant.number


def begin_replay(launcher: Launcher, folder: Path, compiled_before: Path | None = None) -> InterruptedRun:
    """A demonstration copy of a small repository with the committed recording; its plots and pages are drawn too."""
    repository, copy = make_repository(folder / "repository"), folder / "copy"
    shutil.copytree(RECORDED.directory, repository / RECORDED.directory.relative_to(REPOSITORY))
    copy_repository(repository, copy, source=SOURCE, original=RECORDED.original.read_bytes())
    (copy / "warpsmith.yaml").write_text(TEST_COMMAND)
    tried = ("--max-variants", str(up_to_the_recorded_winner()))
    arguments = ("run", KERNEL, "--autonomous", "--quiet", "--device", "recorded", *tried)
    return InterruptedRun(launcher, copy, folder / "scratch", KERNEL, SOURCE, arguments, compiled_before)


@pytest.fixture
def new_replay(replay_launcher: Launcher, tmp_path: Path) -> NewRun:
    """Makes replays that have not begun, each in a demonstration copy of its own."""
    made: list[InterruptedRun] = []

    def make() -> InterruptedRun:
        made.append(begin_replay(replay_launcher, tmp_path / str(len(made))))
        return made[-1]

    return make


@pytest.fixture
def new_short_replay(
    replay_launcher: Launcher, uninterrupted_replay: tuple[InterruptedRun, Ended], tmp_path: Path
) -> NewRun:
    """Makes replays in which nothing is compiled and no plot drawn; all else is done."""
    reference, _ = uninterrupted_replay
    made: list[InterruptedRun] = []

    def make() -> InterruptedRun:
        compiled_before = reference.workspace.measurements
        made.append(begin_replay(replay_launcher, tmp_path / str(len(made)), compiled_before))
        return made[-1]

    return make


@pytest.fixture(scope="session")
def uninterrupted_replay(
    replay_launcher: Launcher, tmp_path_factory: pytest.TempPathFactory
) -> tuple[InterruptedRun, Ended]:
    """A replay that nothing interrupted, and what it came to."""
    run = begin_replay(replay_launcher, tmp_path_factory.mktemp("uninterrupted_replay"))
    ended = run.go_on()
    assert ended.code == 0, ended.output
    return run, ended
