"""What git says, and that no git is no error."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from warpsmith.project.git import head, is_dirty


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    (tmp_path / "kernel.py").write_text("x = 1\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def test_a_committed_file_is_clean_until_it_is_edited(repository: Path) -> None:
    kernel = repository / "kernel.py"

    assert is_dirty(repository, kernel) is False
    kernel.write_text("x = 2\n")
    assert is_dirty(repository, kernel) is True


def test_an_edit_elsewhere_does_not_count(repository: Path) -> None:
    (repository / "other.py").touch()

    assert is_dirty(repository, repository / "kernel.py") is False
    assert is_dirty(repository, repository / "other.py") is True


def test_the_head_is_a_full_hash(repository: Path) -> None:
    found = head(repository)

    assert found is not None
    assert len(found) == 40
    assert int(found, 16) >= 0


def test_where_git_cannot_say_there_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    assert (is_dirty(tmp_path, tmp_path / "kernel.py"), head(tmp_path)) == (None, None)


def test_without_git_there_is_no_answer(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository))

    assert (is_dirty(repository, repository / "kernel.py"), head(repository)) == (None, None)
