"""What a repository was is known within limits, and never made worse."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from warpsmith.measure.worker import tree
from warpsmith.measure.worker.tree import Tree


@pytest.fixture(autouse=True)
def temporary_files(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("tmp")))


def changed(root: Path, name: str, text: str, workspace: Path | None = None) -> tuple[str, ...]:
    watched = Tree(root, workspace or root / "optimization" / "kernel")
    watched.begin()
    (root / name).write_text(text)
    return watched.end()


def test_a_file_that_is_too_large_to_keep_is_named_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "LARGEST_FILE_BYTES", 4)
    (tmp_path / "weights.bin").write_text("12345")

    assert changed(tmp_path, "weights.bin", "1234567") == (
        "weights.bin was changed (its content was not kept, so it cannot be put back)",
    )
    assert (tmp_path / "weights.bin").read_text() == "1234567"


def test_what_is_written_again_as_it_was_is_no_change(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("x = 1\n")
    assert changed(tmp_path, "kernel.py", "x = 1\n") == ()


def test_what_a_run_appends_to_and_what_other_runs_have_is_let_be(tmp_path: Path) -> None:
    workspace = tmp_path / "optimization" / "kernel"
    (tmp_path / "optimization" / "other").mkdir(parents=True)
    workspace.mkdir()
    names = ("kernel/worker.log", "kernel/measurements.jsonl", "kernel/.progress.json", "other/profile.json")

    assert [changed(tmp_path, f"optimization/{name}", "1", workspace) for name in names] == [(), (), (), ()]
    told, _ = changed(tmp_path, "optimization/kernel/profile.json", "1", workspace)
    assert told == "optimization/kernel/profile.json was added"


def test_what_one_of_several_workers_did_is_told_though_another_was_asked_meanwhile(tmp_path: Path) -> None:
    watched = Tree(tmp_path, tmp_path / "workspace")
    watched.begin()
    (tmp_path / "new.py").write_text("")
    watched.begin()

    assert watched.end()[0] == "new.py was added"
    assert watched.end() == ()
