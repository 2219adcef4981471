"""A demonstration copy: everything of the repository, nothing else, and not to be mistaken for somebody's tree."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from warpsmith.contracts.errors import UsageError
from warpsmith.project.demonstration import copy_repository, is_demonstration


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    left_behind = ("optimization/kernel/request.json", ".cache/x", "build/y")
    for name in ("kernel.py", "tests/test_kernel.py", "data/z", *left_behind):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "linked.py").symlink_to(root / "kernel.py")
    (root / ".gitignore").write_text("data/\n.cache/\nbuild/y\n")
    (root / "build" / "tracked").write_text("tracked")
    return root


def files(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


MARK = ".warpsmith-demonstration"
COPIED = {"kernel.py", "tests/test_kernel.py", "linked.py", ".gitignore", MARK}


def test_caches_workspaces_and_builds_stay_behind(repository: Path, tmp_path: Path) -> None:
    copy_repository(repository, tmp_path / "copy", source="kernel.py", original=b"before")
    assert files(tmp_path / "copy") == COPIED | {"data/z"}
    assert (tmp_path / "copy" / "kernel.py").read_bytes() == b"before"
    assert is_demonstration(tmp_path / "copy")


def test_what_git_ignores_stays_behind(repository: Path, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    copy_repository(repository, tmp_path / "copy", source="kernel.py", original=b"before")
    assert files(tmp_path / "copy") == COPIED | {"build/tracked"}


def test_writing_in_the_copy_never_writes_through_to_the_repository(repository: Path, tmp_path: Path) -> None:
    copy_repository(repository, tmp_path / "copy", source="linked.py", original=b"before")
    (tmp_path / "copy" / "linked.py").write_text("changed")
    assert (repository / "kernel.py").read_text() == "kernel.py"
    assert (tmp_path / "copy" / "kernel.py").read_text() == "kernel.py"


def test_a_folder_that_holds_something_is_left_alone(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "mine").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        copy_repository(repository, tmp_path / "copy", source="kernel.py", original=b"before")
    assert files(tmp_path / "copy") == {"mine"}


def test_a_folder_is_no_source_to_copy_a_repository_with(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="found the folder 'tests'"):
        copy_repository(repository, tmp_path / "copy", source="tests", original=b"before")
    assert not (tmp_path / "copy").exists()


def test_a_copy_that_fails_leaves_nothing_where_it_was_to_be(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        copy_repository(repository, tmp_path / "copy", source="kernel.py", original=b"before")
    assert {path.name for path in tmp_path.iterdir()} == {"repository"}


def test_a_repository_a_moved_copy_and_a_copy_under_git_are_no_demonstrations(repository: Path, tmp_path: Path) -> None:
    assert not is_demonstration(repository)
    copy_repository(repository, tmp_path / "copy", source="kernel.py", original=b"before")
    (tmp_path / "copy").rename(tmp_path / "moved")
    assert not is_demonstration(tmp_path / "moved")
    (tmp_path / "moved").rename(tmp_path / "copy")
    assert is_demonstration(tmp_path / "copy")
    assert is_demonstration(tmp_path / "copy", of=repository)
    assert not is_demonstration(tmp_path / "copy", of=tmp_path)
    (tmp_path / "copy" / ".git").mkdir()
    assert not is_demonstration(tmp_path / "copy")


@pytest.mark.parametrize("mark", ["", "[]", "{", '{"copy_at": 3}'])
def test_a_damaged_mark_is_none(repository: Path, mark: str) -> None:
    (repository / MARK).write_text(mark)
    assert not is_demonstration(repository)
