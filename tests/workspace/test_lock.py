"""Two at once: the second is told who the first is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from warpsmith.contracts.errors import ExitCode, Unavailable
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.lock import cache_directory, gpu_lock, holder, run_lock

HOLD = """
import sys
from pathlib import Path
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.lock import run_lock
with run_lock(Workspace(Path(sys.argv[1]), "rms_norm")):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_run_is_told_who_holds_the_workspace(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "rms_norm")

    with run_lock(workspace), pytest.raises(Unavailable) as caught, run_lock(workspace):
        pass

    assert caught.value.message.startswith(f"the workspace of rms_norm is in use by process {os.getpid()}, started 20")
    assert caught.value.exit_code is ExitCode.UNAVAILABLE
    with run_lock(workspace):
        pass


def test_a_killed_holder_holds_nothing_any_more(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "rms_norm")
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    first = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert first.stdin is not None and first.stdout is not None
    with first, first.stdin, first.stdout:
        assert first.stdout.readline() == b"held\n"
        with pytest.raises(Unavailable, match=f"in use by process {first.pid}, started"), run_lock(workspace):
            pass
        assert str(holder(workspace)).startswith(f"process {first.pid}, started 20")
        first.kill()
        first.wait()

    assert holder(workspace) is None
    with run_lock(workspace):
        pass


def test_nobody_runs_before_and_after_a_run_and_asking_writes_nothing(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "rms_norm")

    assert holder(workspace) is None
    assert list(tmp_path.iterdir()) == []
    with run_lock(workspace):
        assert str(holder(workspace)).startswith(f"process {os.getpid()}, started 20")
    assert holder(workspace) is None


def test_a_lock_is_out_of_git_from_the_first_moment(tmp_path: Path) -> None:
    with run_lock(Workspace(tmp_path, "rms_norm")):
        assert (tmp_path / "optimization" / ".gitignore").read_text() == "*\n"


def test_two_workspaces_do_not_wait_for_each_other(tmp_path: Path) -> None:
    with run_lock(Workspace(tmp_path, "rms_norm")), run_lock(Workspace(tmp_path, "softmax")):
        pass


def test_a_gpu_is_held_in_the_users_cache_whatever_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    with gpu_lock("GPU-1/../x"):
        assert [path.name for path in (tmp_path / "warpsmith").glob("*.lock")] == ["gpu-GPU-1____x.lock"]
        with pytest.raises(Unavailable, match=rf"GPU GPU-1/\.\./x is in use by process {os.getpid()}"):  # noqa: SIM117
            with gpu_lock("GPU-1/../x"):
                pass
        with gpu_lock("GPU-2"):
            pass


@pytest.mark.parametrize("value", ["", "relative/path"])
def test_a_cache_home_that_is_not_absolute_does_not_count(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", value)

    assert cache_directory() == Path.home() / ".cache" / "warpsmith"


def test_a_run_that_starts_waits_out_somebody_who_only_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(tmp_path, "rms_norm")
    workspace.create()
    looking = FileLock(workspace.lock)
    looking.acquire()
    monkeypatch.setattr("warpsmith.workspace.lock.time.sleep", lambda _: looking.release())

    with run_lock(workspace):
        assert str(holder(workspace)).startswith(f"process {os.getpid()}, started 20")


def test_somebody_who_looks_is_not_taken_for_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(tmp_path, "rms_norm")
    workspace.create()
    workspace.lock.with_name(".lock-holder.json").write_text('{"pid": 1, "started": "before it was killed"}')
    looking = FileLock(workspace.lock)
    looking.acquire()
    monkeypatch.setattr("warpsmith.workspace.lock.time.sleep", lambda _: looking.release())

    assert holder(workspace) is None
