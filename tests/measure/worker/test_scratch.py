"""Scratch folders: what is removed, and what is somebody's still."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.measure.worker import scratch
from warpsmith.measure.worker.scratch import Scratch, cache_variables, writable_places


@pytest.fixture(autouse=True)
def temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    scratch._remove_abandoned.cache_clear()
    yield tmp_path / "tmp"
    scratch._remove_abandoned.cache_clear()


def test_what_a_killed_command_left_behind_is_removed_and_what_is_held_is_not(tmp_path: Path) -> None:
    held, abandoned = Scratch.new(tmp_path), Scratch.new(tmp_path)
    os.close(abandoned.lock)  # as a process that is killed does
    scratch._remove_abandoned.cache_clear()

    new = Scratch.new(tmp_path)

    assert [each.folder.exists() for each in (held, abandoned, new)] == [True, False, True]
    for each in (held, new):
        each.remove()


def test_a_cache_is_where_it_was_asked_for_from_the_repository(tmp_path: Path, temporary_files: Path) -> None:
    found = cache_variables({"TRITON_CACHE_DIR": "cache", "CUDA_CACHE_PATH": "/elsewhere"}, tmp_path)

    inductor = found.pop("TORCHINDUCTOR_CACHE_DIR")
    assert inductor.startswith(f"{temporary_files}/torchinductor_")
    assert found == {"TRITON_CACHE_DIR": str(tmp_path / "cache"), "CUDA_CACHE_PATH": "/elsewhere"}


def test_caches_are_made_and_none_has_the_repository_in_it(tmp_path: Path) -> None:
    root = tmp_path / "home" / ".cache" / "repository"
    root.mkdir(parents=True)
    environment = {"HOME": str(tmp_path / "home"), "TRITON_CACHE_DIR": str(root / "cache")}

    below = [place for place in writable_places(environment, root) if place.is_relative_to(tmp_path)]

    assert below == [root / "cache", tmp_path / "home" / ".nv", tmp_path / "home" / ".triton"]
    assert all(place.is_dir() for place in below)
