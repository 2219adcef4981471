"""A variant that misbehaves ends as a status: the worker is replaced, the next question answered, the tree as it was.

Each fault once with Landlock, where this kernel has it, and those that touch files once more as on a kernel without.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.measurement import HostTime
from warpsmith.measure.worker import output, process
from warpsmith.measure.worker.confinement import Confinement, confinement
from warpsmith.measure.worker.leftovers import started_by
from warpsmith.measure.worker.process import ProcessWorker
from warpsmith.measure.worker.protocol import MeasureHostTime, TargetRef, WorkerError, WorkerFailure

HERE = Path(__file__).parent
FILES = {"kernel.py": "x = 1\n", "package/__init__.py": "", "package/deep/table.csv": "1,2\n", ".hidden": "h\n"}

landlocked = pytest.mark.skipif(confinement().reason is not None, reason=str(confinement().reason))
keeps_signals_in = pytest.mark.skipif(not confinement().keeps_signals_in, reason="needs Landlock 6")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "link.py").symlink_to("kernel.py")
    return root


@pytest.fixture
def worker(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessWorker]:
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    worker = ProcessWorker(root, tmp_path / "workspace" / "worker.log", module="hostile_worker")
    yield worker
    worker.close()


@pytest.fixture
def without_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "confinement", lambda: Confinement(0, "this kernel does not offer it"))


def wish(worker: ProcessWorker, text: str) -> MeasureHostTime:
    target = TargetRef(path=text, root=str(worker.root), sha256="0" * 64)
    case = Case(axes={"M": 1}, dtype=DType.FLOAT32)
    return MeasureHostTime(target=target, contenders=(), case=case, mode=Mode.FORWARD)


def came_of(worker: ProcessWorker, text: str) -> str:
    answer = worker.ask(wish(worker, text))
    assert isinstance(answer, HostTime)
    return answer.failures["found"]


def failure_of(worker: ProcessWorker, text: str) -> WorkerFailure:
    with pytest.raises(WorkerError) as error:
        worker.ask(wish(worker, text))
    return error.value.failure


def assert_as_it_was(root: Path) -> None:
    found = {str(path.relative_to(root)): path for path in root.rglob("*") if not path.is_dir()}
    assert {name: path.read_text() for name, path in found.items()} == {**FILES, "link.py": "x = 1\n"}
    assert found["link.py"].is_symlink()


@pytest.mark.parametrize(("text", "number"), [("crash", signal.SIGSEGV), ("abort", signal.SIGABRT)])
def test_a_crash_is_told_with_its_signal_and_its_place(
    worker: ProcessWorker, text: str, number: signal.Signals
) -> None:
    failure = failure_of(worker, text)

    assert failure.status == "died"
    assert f"status -{int(number)} ({number.name})" in failure.message
    assert "its last words:\nFatal Python error: " in failure.message
    assert f"in {text}\n" in failure.message
    assert came_of(worker, "name_itself")


def test_a_loop_that_never_ends_is_ended_at_its_limit(worker: ProcessWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    before = came_of(worker, "name_itself")
    with monkeypatch.context() as patch:
        patch.setitem(process.TIME_LIMIT_S, "host_time", 0.3)
        assert failure_of(worker, "hang") == WorkerFailure(status="timeout", message="no answer within 0.3 s")

    assert came_of(worker, "name_itself") != before
    assert not Path("/proc", before).exists()


def test_a_worker_that_takes_the_machines_memory_is_ended_before_it_has_it(worker: ProcessWorker) -> None:
    limited = replace(worker, memory_limit_bytes=300 << 20)
    try:
        failure = failure_of(limited, "hoard")
        assert failure.status == "out_of_memory"
        assert "GB of the machine's memory" in failure.message
        assert came_of(limited, "name_itself")
    finally:
        limited.close()


def test_a_worker_is_the_first_that_the_kernel_ends_where_memory_runs_out(worker: ProcessWorker) -> None:
    pid = came_of(worker, "name_itself")
    assert Path("/proc", pid, "oom_score_adj").read_text() == "1000\n"


def test_more_memory_than_there_is_is_a_status_and_no_death(worker: ProcessWorker) -> None:
    before = came_of(worker, "name_itself")
    assert failure_of(worker, "ask_for_too_much").status == "out_of_memory"
    assert came_of(worker, "name_itself") == before


def test_of_a_flood_of_output_the_beginning_and_the_end_are_kept(worker: ProcessWorker) -> None:
    assert came_of(worker, "flood") == "printed"

    printed = worker.log.read_bytes()
    lines = printed.splitlines()
    assert (lines[0], lines[-1]) == (b"the first line", b"the last line")
    assert b"\n[%d bytes of output left out]\n" % ((32 << 20) + 29 - 2 * output.KEPT_BYTES) in printed
    assert len(printed) < 2 * output.KEPT_BYTES + 100


def test_an_answer_that_is_none_is_a_death_and_not_an_error_of_whoever_asked(worker: ProcessWorker) -> None:
    assert failure_of(worker, "answer_nonsense").status == "died"
    assert came_of(worker, "name_itself")


@landlocked
def test_a_variant_cannot_write_into_the_repository(worker: ProcessWorker, root: Path) -> None:
    before = came_of(worker, "name_itself")
    for text in ("overwrite", "truncate", "delete", "delete_all", "replace", "add"):
        failure = failure_of(worker, text)
        assert failure.status == "runtime_failed"
        assert failure.message.startswith("PermissionError: [Errno 13] Permission denied")
        assert_as_it_was(root)
    assert came_of(worker, "name_itself") == before


@landlocked
def test_a_repository_among_caches_is_no_more_writable_than_elsewhere(
    root: Path, worker: ProcessWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(root.parent))
    assert failure_of(worker, "delete").message.startswith("PermissionError")


def test_a_variant_can_write_to_where_it_runs_and_to_caches_and_reads_the_repository_from_there(
    worker: ProcessWorker, root: Path
) -> None:
    assert came_of(worker, "write_beside") == repr("x = 1\n")
    assert_as_it_was(root)


def test_a_worker_that_removes_where_it_runs_is_followed_by_one_that_answers(worker: ProcessWorker) -> None:
    assert came_of(worker, "remove_its_own") == "removed"
    assert came_of(worker, "write_beside")


def test_a_scratch_folder_is_gone_with_its_worker(worker: ProcessWorker) -> None:
    came_of(worker, "write_beside")
    assert worker._spawned is not None
    folder = worker._spawned.scratch.folder
    assert folder.is_dir()
    worker.close()
    assert not folder.exists()


@pytest.mark.usefixtures("without_landlock")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("overwrite", "kernel.py was changed"),
        ("overwrite_unseen", "kernel.py was changed"),
        ("delete_all", "package/__init__.py was deleted; package/deep/table.csv was deleted"),
        ("replace", "kernel.py was deleted; kernel.py/other.py was added"),
        ("add", "package/new.py was added"),
    ],
)
def test_without_landlock_what_a_variant_did_to_the_repository_is_named_and_put_back(
    worker: ProcessWorker, root: Path, text: str, told: str
) -> None:
    before, modified_ns = came_of(worker, "name_itself"), (root / "kernel.py").stat().st_mtime_ns
    failure = failure_of(worker, text)

    assert failure.status == "tampered"
    assert failure.message.startswith(f"files of the repository were touched: {told}")
    assert_as_it_was(root)
    assert (root / "kernel.py").stat().st_mtime_ns == modified_ns
    assert came_of(worker, "name_itself") != before


@pytest.mark.usefixtures("without_landlock")
def test_without_landlock_what_is_put_back_throws_nothing_away(worker: ProcessWorker) -> None:
    _, _, folder = failure_of(worker, "add").message.rpartition("what was there instead is in ")
    assert (Path(folder) / "package" / "new.py").read_text() == "z = 3\n"


@pytest.mark.usefixtures("without_landlock")
def test_without_landlock_damage_before_a_crash_is_put_back_and_both_are_told(
    worker: ProcessWorker, root: Path
) -> None:
    failure = failure_of(worker, "damage_and_crash")

    assert failure.status == "tampered"
    assert "kernel.py was deleted; besides, died: the worker ended with status -11" in failure.message
    assert_as_it_was(root)


@pytest.mark.usefixtures("without_landlock")
def test_what_is_changed_between_questions_is_nobodys_fault(worker: ProcessWorker, root: Path) -> None:
    came_of(worker, "name_itself")
    (root / "kernel.py").write_text("x = 5\n")
    assert came_of(worker, "name_itself")
    assert (root / "kernel.py").read_text() == "x = 5\n"


def test_a_process_that_left_its_group_and_its_parent_ends_with_the_worker(worker: ProcessWorker) -> None:
    daemon = came_of(worker, "leave_a_daemon")
    assert Path("/proc", daemon).exists()
    worker.close()
    assert is_gone(daemon)


def test_a_death_is_seen_and_what_was_left_running_ends_though_it_holds_all_pipes_open(
    worker: ProcessWorker, tmp_path: Path
) -> None:
    assert failure_of(worker, "leave_a_daemon_and_crash").status == "died"
    assert is_gone((tmp_path / "cache" / "daemon").read_text())
    assert came_of(worker, "name_itself")


def is_gone(pid: str) -> bool:
    """It, or all but the entry of a process that nobody has asked yet how it ended."""
    stat = Path("/proc", pid, "stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"


@keeps_signals_in
def test_a_variant_cannot_kill_who_asked_it(worker: ProcessWorker) -> None:
    for text in ("kill_the_parent", "kill_the_parents_group"):
        assert failure_of(worker, text).message == "PermissionError: [Errno 1] Operation not permitted"


PARENT = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(HERE)!r})
import test_faults
from test_faults import ProcessWorker, came_of, process
process.confinement = lambda: test_faults.Confinement(0, "as on an older kernel")
root = Path(sys.argv[1])
worker = ProcessWorker(root, root.parent / "worker.log", module="hostile_worker")
print(came_of(worker, "leave_a_daemon"), came_of(worker, "name_itself"), flush=True)
came_of(worker, "kill_the_parent")
"""


def test_where_a_variant_does_kill_who_asked_it_nothing_goes_on_running(root: Path, worker: ProcessWorker) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[2] / "src")])}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(root)], env=environment, stdout=subprocess.PIPE, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        pids = parent.stdout.read().decode().split()  # to the end: the daemon holds no end of it
    assert parent.returncode == -signal.SIGKILL
    assert len(pids) == 2 and not started_by(parent.pid)
    assert_as_it_was(root)
    assert came_of(worker, "name_itself")
