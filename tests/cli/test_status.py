"""What another terminal is told of a run: what is tried now, where it was cut off, and the runs before it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from command_line import Command
from simulated_run import REPOSITORY, Run, make_repository

from warpsmith.cli.status import Standing, as_data, standing, told
from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.errors import ExitCode
from warpsmith.contracts.history import RunSummary
from warpsmith.contracts.printed import Status
from warpsmith.contracts.progress import RunProgress
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import (
    FinalOutcome,
    FinalResult,
    NextStep,
    PredictionCheck,
    PredictionSummary,
    RunState,
    SearchResult,
)
from warpsmith.contracts.verdict import Interval
from warpsmith.workspace.documents import read_document, write_document
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.lock import Holder, holder
from warpsmith.workspace.runs import archive

RUN_ID = "20260131T000000Z-000000"
EARLIER_ID = "20260130T000000Z-ffffff"
AT = "2026-01-31T00:00:00+00:00"
NOW = datetime(2026, 1, 31, 0, 10, tzinfo=timezone.utc)
MEASURED = Origin(kind=OriginKind.MEASURED, gpu="NVIDIA H200", date="2026-01-31")

#: A process that works on a run as `warpsmith profile` does, as far as its standard input lets it.
WORKING = """
import sys
from pathlib import Path
from warpsmith.cli.progress import shown
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.lock import run_lock
workspace = Workspace(Path(sys.argv[1]), "rms_norm")
with run_lock(workspace), shown(workspace, sys.argv[2], "profile", quiet=True) as progress:
    progress.note("M1024", 0, 6)
    progress.step("baselines: original, torch", 4, of=5)
    print("working", flush=True)
    for line in sys.stdin:
        progress.step(line.strip(), 5, of=5)
        print("told", flush=True)
"""


@contextmanager
def working(root: Path, run_id: str = RUN_ID) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", WORKING, str(root), run_id]
    environment = {"PYTHONPATH": str(REPOSITORY / "src")}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "working\n"
        try:
            yield process
        finally:
            process.kill()


def status(command: Command, root: Path) -> dict[str, Any]:
    ended = command(root, "status", "rms_norm", "--json")
    assert ended.exit_code == ExitCode.DONE, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def end_run(workspace: Workspace, run_id: str, reason: str = "confirmed") -> None:
    write_document(
        workspace.search_result,
        SearchResult(
            run_id=run_id,
            winner=None,
            winner_sha256=None,
            stop_reason="tried",
            noise_floor=None,
            variants=(),
            origin=MEASURED,
        ),
    )
    workspace.profile.write_text("{}")
    outcome = FinalOutcome.NO_IMPROVEMENT
    final = FinalResult(
        run_id=run_id, outcome=outcome, reason=reason, winner=None, original_sha256="0" * 64, origin=MEASURED
    )
    write_document(workspace.final_result, final)
    workspace.report_page.write_text(f"# The report of {run_id}\n")


def with_an_earlier_run(root: Path) -> Run:
    run = Run.begin(root)
    run.ask_for(run_id=EARLIER_ID)
    end_run(run.workspace, EARLIER_ID)
    archive(run.workspace)
    run.ask_for(autonomous=True)
    return run


def test_before_any_run_status_says_so(tmp_path: Path, command: Command) -> None:
    found = status(command, make_repository(tmp_path))
    assert {name: found[name] for name in ("run", "running", "progress", "history")} == {
        "run": None,
        "running": None,
        "progress": None,
        "history": [],
    }
    assert found["next"]["state"] == "new"


def test_what_another_process_does_is_told_while_it_does_it_and_where_it_was_killed_after(
    begun: Run, command: Command
) -> None:
    with working(begun.root) as process:
        assert process.stdin is not None and process.stdout is not None
        found = status(command, begun.root)
        assert found["running"]["pid"] == found["progress"]["pid"] == process.pid
        assert (found["progress"]["step"], found["progress"]["number"]) == ("baselines: original, torch", 4)
        assert found["progress"]["elapsed_s"] >= 0
        process.stdin.write("hardware counters\n")
        process.stdin.flush()
        assert process.stdout.readline() == "told\n"
        lines = command(begun.root, "status", "rms_norm").out.splitlines()
        assert lines[0].startswith(f"rms_norm: profile, running now (process {process.pid}, started 20")
        assert "  step: hardware counters (5 of 5)" in lines
        assert lines[-1].startswith("next: wait until it has ended")
    found = status(command, begun.root)
    assert (found["running"], found["progress"]["step"]) == (None, "hardware counters")
    lines = command(begun.root, "status", "rms_norm").out.splitlines()
    assert lines[0] == "rms_norm: profile, not running; stopped while: hardware counters (5 of 5)"
    assert lines[-1].startswith("next: warpsmith profile rms_norm   (")


def test_progress_of_another_run_or_of_a_finished_stage_is_not_told(begun: Run, command: Command) -> None:
    with working(begun.root, run_id=EARLIER_ID):
        assert status(command, begun.root)["progress"] is None
    assert status(command, begun.root)["progress"] is None
    with working(begun.root):
        pass
    assert status(command, begun.root)["progress"] is not None
    end_run(begun.workspace, RUN_ID)
    assert status(command, begun.root)["progress"] is None


def test_a_process_that_has_told_nothing_yet_is_not_taken_for_the_one_before(begun: Run, command: Command) -> None:
    with working(begun.root):
        pass
    with working(begun.root, run_id=EARLIER_ID) as process:
        at = datetime.now(timezone.utc).isoformat()
        stale = RunProgress(run_id=RUN_ID, pid=1, stage="profile", started_at=at, updated_at=at, step="baselines")
        write_document(begun.workspace.progress, stale)
        found = status(command, begun.root)
        assert (found["running"]["pid"], found["progress"]) == (process.pid, None)


@pytest.mark.parametrize("content", [b"", b"{", b'{"run_id": 3}'])
def test_a_progress_file_that_is_damaged_is_no_progress(begun: Run, command: Command, content: bytes) -> None:
    begun.workspace.progress.write_bytes(content)
    assert status(command, begun.root)["progress"] is None


def test_what_is_left_is_counted_on_from_when_it_was_told(begun: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    progress = RunProgress(
        run_id=RUN_ID,
        pid=7,
        stage="profile",
        started_at=AT,
        updated_at="2026-01-31T00:09:50+00:00",
        step="baselines",
        left_s=9.0,
        search_left_s=40.0,
    )
    write_document(begun.workspace.progress, progress)
    monkeypatch.setattr("warpsmith.cli.status.holder", lambda _: Holder(7, AT))
    found = standing(begun.workspace, NOW, terminal_only=False)
    assert (found.elapsed_s, found.progress) == (
        600.0,
        progress.model_copy(update={"left_s": None, "search_left_s": 30.0}),
    )


PREDICTIONS = PredictionSummary(
    checks=(PredictionCheck(number=1, predicted_low=1.1, predicted_high=1.3, measured=1.2, place="within"),),
    measured_over_middle=1.003,
)
RUNNING = Standing(
    kernel="rms_norm",
    run=RunSummary(run_id=RUN_ID, begun=AT, goal=Mode.FULL, state=RunState.OPTIMIZE),
    next=NextStep(
        kernel="rms_norm",
        state=RunState.OPTIMIZE,
        command="warpsmith optimize rms_norm",
        why="variants come next",
        read=(),
        known_so_far=("v1 settings: accepted, 1.200 [1.190, 1.210] ×",),
    ),
    holder=Holder(7, AT),
    progress=RunProgress(
        run_id=RUN_ID,
        pid=7,
        stage="optimize",
        started_at=AT,
        updated_at=AT,
        step="v2: Cache hints",
        number=2,
        at_most=8,
        trying="v2: timing M2",
        done=2,
        total=6,
        best="v1, 1.200 × the original",
        left_s=16.0,
        search_left_s=412.0,
    ),
    elapsed_s=68.0,
    last_event={"event": "variant", "at": AT},
    predictions=PREDICTIONS,
    earlier=(
        RunSummary(
            run_id=EARLIER_ID,
            begun=AT,
            goal=Mode.FORWARD,
            state=RunState.DONE,
            outcome=FinalOutcome.APPLIED,
            winner=2,
            speedup=Interval(value=1.35, low=1.34, high=1.36),
            origin=MEASURED,
        ),
        RunSummary(run_id="20260129T000000Z-eeeeee", begun=AT, goal=Mode.FULL, state=RunState.WAITING_FINALIZE),
        RunSummary(
            run_id="20260128T120000Z-dddddd",
            begun=AT,
            state=RunState.PREDICTED,
            origin=Origin(kind=OriginKind.PREDICTED, gpu="Tesla T4"),
        ),
        RunSummary(run_id="20260128T000000Z-dddddd", damaged="request.json is not there"),
    ),
)


def test_a_person_reads_all_of_it_line_by_line() -> None:
    assert told(RUNNING) == [
        f"rms_norm: optimize, running now (process 7, started {AT})",
        f"  run {RUN_ID}, begun {AT}: at optimize, goal full",
        "  step: v2: Cache hints (2 of at most 8)",
        "  trying: v2: timing M2 (3 of 6)",
        "  best so far: v1, 1.200 × the original",
        "  time: 1 min 8 s in this stage, about 15 s left here, at most about 7 min for the search",
        "  v1 settings: accepted, 1.200 [1.190, 1.210] ×",
        "earlier runs:",
        f"  {EARLIER_ID}, begun {AT}: applied, goal forward, v2 1.350 [1.340, 1.360] ×, measured on NVIDIA H200",
        f"  20260129T000000Z-eeeeee, begun {AT}: at waiting_for_approval_to_finalize, goal full",
        f"  20260128T120000Z-dddddd, begun {AT}: at predicted, predicted for Tesla T4",
        "  20260128T000000Z-dddddd: damaged: request.json is not there",
        "next: wait until it has ended; warpsmith status rms_norm tells how far it is",
    ]


def test_of_many_earlier_runs_the_newest_are_listed_and_the_others_counted() -> None:
    runs = tuple(RunSummary(run_id=f"20260101T0000{n:02}Z-000000", damaged="gone") for n in range(27, 0, -1))
    lines = told(replace(RUNNING, earlier=runs))

    listed = lines[lines.index("earlier runs:") + 1 : -1]
    assert [line.split(":")[0].strip() for line in listed[:-1]] == [run.run_id for run in runs[:10]]
    assert listed[-1] == "  and 17 more; `warpsmith status rms_norm --json` lists all"


def test_a_program_reads_the_same_under_names_that_stay() -> None:
    data = json.loads(as_data(RUNNING).model_dump_json())
    assert set(data) == set(Status.model_fields)
    assert data["running"] == {"pid": 7, "started": AT}
    assert PredictionSummary.model_validate(data["predictions"]) == PREDICTIONS
    assert data["progress"] == {**json.loads(RUNNING.progress.model_dump_json()), "elapsed_s": 68.0}  # type: ignore[union-attr]
    assert RunSummary.model_validate(data["run"]) == RUNNING.run
    assert tuple(RunSummary.model_validate(run) for run in data["history"]) == RUNNING.earlier
    assert NextStep.model_validate(data["next"]) == RUNNING.next


def test_a_damaged_run_in_the_history_is_told_and_breaks_nothing(tmp_path: Path, command: Command) -> None:
    run = with_an_earlier_run(make_repository(tmp_path))
    (run.workspace.history / EARLIER_ID / "report.json").write_text("{")
    ended = command(run.root, "status", "rms_norm")
    assert ended.exit_code == ExitCode.DONE
    assert f"{EARLIER_ID}: damaged: " in ended.told


def test_the_report_of_an_earlier_run_is_shown_by_how_its_id_begins(tmp_path: Path, command: Command) -> None:
    run = with_an_earlier_run(make_repository(tmp_path))
    ended = command(run.root, "report", "rms_norm", "--run", "20260130")
    assert ended.exit_code == ExitCode.DONE
    assert f"# The report of {EARLIER_ID}" in ended.out
    assert f"page: optimization/rms_norm/history/{EARLIER_ID}/report.md" in ended.out
    ended = command(run.root, "report", "rms_norm", "--run", EARLIER_ID, "--json")
    assert FinalResult.model_validate_json(ended.out).run_id == EARLIER_ID


def test_a_report_of_an_unknown_or_unfinished_run_is_a_usage_error(tmp_path: Path, command: Command) -> None:
    run = with_an_earlier_run(make_repository(tmp_path))
    ended = command(run.root, "report", "rms_norm", "--run", "1999")
    assert ended.exit_code == ExitCode.USAGE
    assert f"no run of rms_norm has the id '1999'; there are: {RUN_ID}, {EARLIER_ID}" in ended.told_err
    ended = command(run.root, "report", "rms_norm", "--run", RUN_ID)
    assert ended.exit_code == ExitCode.USAGE
    assert f"nothing in run {RUN_ID} of rms_norm to report on" in ended.err


def test_looking_leaves_the_run_to_whoever_has_it(begun: Run, command: Command) -> None:
    with working(begun.root) as process:
        before = {path: path.read_bytes() for path in begun.workspace.directory.iterdir() if path.is_file()}
        status(command, begun.root)
        assert {path: path.read_bytes() for path in before} == before
        assert holder(begun.workspace) == Holder(process.pid, (holder(begun.workspace) or Holder()).started)


def test_a_clock_that_was_set_back_gives_no_negative_time(begun: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    later = (NOW + timedelta(hours=1)).isoformat()
    progress = RunProgress(
        run_id=RUN_ID, pid=7, stage="profile", started_at=later, updated_at=later, step="baselines", left_s=9.0
    )
    write_document(begun.workspace.progress, progress)
    monkeypatch.setattr("warpsmith.cli.status.holder", lambda _: Holder(7, AT))
    found = standing(begun.workspace, NOW, terminal_only=False)
    assert (found.elapsed_s, found.progress) == (0.0, progress)


def test_a_damaged_ledger_is_told_with_the_way_out_and_hides_nothing(profiled: Run, command: Command) -> None:
    profiled.workspace.ledger.write_text("nonsense\n" + profiled.workspace.ledger.read_text())
    shown, as_json = (command(profiled.root, "status", "rms_norm", *rest) for rest in ((), ("--json",)))
    ledger = profiled.workspace.ledger
    for ended, text in ((shown, shown.told), (as_json, as_json.told_err)):
        assert ended.exit_code == ExitCode.DONE
        assert f"{ledger}, line 1: expected one JSON object" in text
        assert f"put it aside: mv {ledger} {ledger}.damaged" in text
    assert "next: warpsmith" in shown.told and json.loads(as_json.out)["last_event"] is None


@pytest.mark.parametrize("name", ["optimization", "optimization/rms_norm"])
def test_a_file_in_the_place_of_a_workspace_is_told_with_what_mends_it(
    tmp_path: Path, command: Command, name: str
) -> None:
    root = make_repository(tmp_path)
    place = root / name
    place.parent.mkdir(exist_ok=True)
    place.write_text("")
    for each in ("status", "next", "profile"):
        ended = command(root, each, "rms_norm", "--json")
        error = json.loads(ended.out)["error"]
        assert (ended.exit_code, error["next_command"]) == (ExitCode.USAGE, f"mv {place} {place}.damaged")
        assert error["message"] == f"{place} is no folder; expected the one that runs write to"
    (row,) = json.loads(command(root, "list", "--json").out)
    assert row["next"] == f"mv {place} {place}.damaged" and "is no folder" in row["problem"]


def test_the_goal_is_told_once_it_is_known(begun: Run, command: Command) -> None:
    assert "goal" not in command(begun.root, "status", "rms_norm").told
    request = read_document(begun.workspace.request, Request)
    write_document(begun.workspace.request, request.model_copy(update={"goal": Mode.BACKWARD}))
    assert "goal backward" in command(begun.root, "status", "rms_norm").told
    write_document(begun.workspace.request, request)
    begun.profile()
    assert "goal full" in command(begun.root, "status", "rms_norm").told


def test_list_names_files_that_are_no_targets_for_their_names(tmp_path: Path, command: Command) -> None:
    root = make_repository(tmp_path)
    (root / "benchmark" / "benchmark_a b.py").write_text("")
    ended = command(root, "list", "--json")
    assert [row["kernel"] for row in json.loads(ended.out)] == ["rms_norm"]
    assert ended.told_err.startswith("benchmark/benchmark_a b.py is no target: a kernel's name is ASCII letters")
