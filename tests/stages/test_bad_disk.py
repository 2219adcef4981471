"""A disk that is full or read-only ends a stage with one clear error, and the same command then goes on to the end."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib.figure
import pytest
from simulated_run import SOURCE, Run

from warpsmith.contracts.errors import ExitCode, Unavailable
from warpsmith.contracts.result import SearchResult
from warpsmith.measure.worker.process import ProcessWorker
from warpsmith.measure.worker.protocol import Identify, TargetRef
from warpsmith.project.commands import run_to_file
from warpsmith.project.style import run_style
from warpsmith.report.figures import save
from warpsmith.workspace.documents import read_document

REAL_FSYNC = os.fsync


@contextmanager
def full_after(writes: int, code: int = errno.ENOSPC) -> Iterator[None]:
    """No more than so many writes reach the disk."""
    done: list[int] = []

    def flush(descriptor: int) -> None:
        done.append(descriptor)
        if len(done) > writes:
            raise OSError(code, os.strerror(code))
        REAL_FSYNC(descriptor)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", flush)
        yield


def without_leftovers(root: Path) -> None:
    assert not [path for path in root.rglob("*") if path.name.endswith(".warpsmith-new")]


@pytest.mark.parametrize("writes", [0, 1, 30])
def test_a_profile_on_a_full_disk_goes_on_once_there_is_space(run: Run, profiled_tree: Path, writes: int) -> None:
    production = run.production.read_bytes()

    with full_after(writes), pytest.raises(Unavailable, match="the disk is full; free some space") as caught:
        run.profile()

    assert caught.value.exit_code is ExitCode.UNAVAILABLE
    assert not run.workspace.profile.exists()
    without_leftovers(run.root)
    run.profile()
    assert run.workspace.profile.read_bytes() == Run.of(profiled_tree).workspace.profile.read_bytes()
    assert run.production.read_bytes() == production


@pytest.mark.parametrize("writes", [0, 30, 150])
def test_a_search_on_a_full_disk_goes_on_once_there_is_space(profiled: Run, optimized_tree: Path, writes: int) -> None:
    production = profiled.production.read_bytes()

    with full_after(writes), pytest.raises(Unavailable, match=r"cannot write .*: the disk is full"):
        profiled.optimize()

    assert not profiled.workspace.search_result.exists()
    without_leftovers(profiled.root)
    profiled.optimize()
    assert profiled.workspace.search_result.read_bytes() == Run.of(optimized_tree).workspace.search_result.read_bytes()
    assert profiled.production.read_bytes() == production


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_finalize_on_a_bad_disk_leaves_original_or_winner_and_goes_on(optimized: Run, code: int) -> None:
    original = optimized.production.read_bytes()
    winner = optimized.workspace.variant(_winner(optimized)).read_bytes()
    # Within the measurements, at the winner's bytes, after its tests, at a plot and at report.json.
    for writes in (0, 20, 11, 3, 4, 17):
        with full_after(writes, code), pytest.raises(Unavailable, match="cannot write"):
            optimized.finalize()
        assert optimized.production.read_bytes() in (original, winner)
        assert not optimized.workspace.final_result.exists()
        without_leftovers(optimized.root)
    optimized.finalize()
    assert optimized.production.read_bytes() == winner


def _winner(run: Run) -> int:
    winner = read_document(run.workspace.search_result, SearchResult).winner
    assert winner is not None
    return winner


def test_a_figure_is_whole_or_not_there(tmp_path: Path) -> None:
    figure = matplotlib.figure.Figure()
    with full_after(1), pytest.raises(Unavailable, match=r"cannot write .*speed\.png: the disk is full|speed\.svg"):
        save(figure, tmp_path / "plots", "speed", "Speed")
        save(figure, tmp_path / "plots", "other", "Other")
    assert all(path.stat().st_size > 0 for path in (tmp_path / "plots").iterdir())


def refuse(code: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def test_a_log_that_cannot_be_opened_is_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = TargetRef(path="t.py", root=str(tmp_path), sha256="0" * 64)
    worker = ProcessWorker(tmp_path, tmp_path / "worker.log")
    monkeypatch.setattr(Path, "open", refuse(errno.EROFS))
    with pytest.raises(Unavailable, match=r"cannot write .*worker\.log: the file system is read-only"):
        worker.ask(Identify(target=target))
    with pytest.raises(Unavailable, match=r"cannot write .*tests\.log: the file system is read-only"):
        run_to_file(["true"], root=tmp_path, log_path=tmp_path / "tests.log", timeout_s=1)


def test_a_style_copy_that_cannot_be_written_is_told_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kernel.py"
    file.write_bytes(b"x = 1\n")
    monkeypatch.setattr("tempfile.mkdtemp", refuse(errno.ENOSPC))
    styled = run_style(tmp_path, ["true"], file)
    assert styled.content == b"x = 1\n"
    assert styled.told.startswith("the style command did not run: cannot write")
    assert "the disk is full" in styled.told


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_workspace_that_is_read_only_stays_as_it_is(run: Run) -> None:
    run.workspace.directory.chmod(0o555)
    try:
        with pytest.raises(Unavailable, match="permission denied"):
            run.profile()
    finally:
        run.workspace.directory.chmod(0o755)
    assert (run.root / SOURCE).is_file()
    run.profile()
