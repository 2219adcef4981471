"""What a person sees of a run: a bar on a terminal, readable lines in a log, nothing where that was asked for."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from rich.console import Console
from simulated_run import Run, make_repository

from warpsmith.cli.progress import Follower, shown
from warpsmith.cli.screen import Live, Plain, Quiet, Screen
from warpsmith.contracts.progress import RunProgress
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.progress import ProgressFile, read_progress

BEGAN = datetime(2026, 1, 31, tzinfo=timezone.utc)


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def today(self) -> datetime:
        return BEGAN + timedelta(seconds=self.seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace(tmp_path, "rms_norm")
    workspace.create()
    return workspace


def follower(workspace: Workspace, screen: Screen, clock: Clock) -> Follower:
    at = BEGAN.isoformat()
    told = RunProgress(run_id="r", pid=1, stage="optimize", started_at=at, updated_at=at, step="starting")
    return Follower(screen, ProgressFile(workspace, clock), told, clock, clock.today)


def search(told: Follower, clock: Clock) -> None:
    """Two variants: the first takes a minute, the second is in its third case of six, four seconds each."""
    told.step("v1: Launch settings", 1, at_most=8)
    clock.seconds = 60.0
    told.best("v1, 1.200 [1.190, 1.210] × the original")
    told.note("v1: accepted: faster")
    told.step("v2: Cache hints", 2, at_most=8)
    for index in range(3):
        told.note(f"v2: timing M{index}", index, 6)
        clock.seconds += 4.0 if index < 2 else 0.0


def test_plain_lines_tell_events_at_once_and_counted_items_now_and_then(workspace: Workspace, clock: Clock) -> None:
    lines = io.StringIO()
    search(follower(workspace, Plain(lines), clock), clock)
    assert lines.getvalue().splitlines() == [
        "[   0.0 s] == v1: Launch settings (1 of at most 8)",
        "[  60.0 s]    best so far: v1, 1.200 [1.190, 1.210] × the original",
        "[  60.0 s]    v1: accepted: faster",
        "[  60.0 s] == v2: Cache hints (2 of at most 8), at most about 7 min for the search",
        "[  60.0 s]    v2: timing M0 (1 of 6)",
        "[  68.0 s]    v2: timing M2 (3 of 6, about 15 s left here)",
    ]


def test_a_run_that_is_replayed_at_once_promises_nothing_and_fills_no_log(workspace: Workspace, clock: Clock) -> None:
    lines = io.StringIO()
    told = follower(workspace, Plain(lines), clock)
    for number in (1, 2, 3):
        told.step(f"v{number}: Cache hints", number, at_most=8)
        for index in range(100):
            told.note(f"timing M{index}", index, 100)
            clock.seconds += 0.002
    assert [line.partition("] ")[2] for line in lines.getvalue().splitlines()] == [
        "== v1: Cache hints (1 of at most 8)",
        "   timing M0 (1 of 100)",
        "== v2: Cache hints (2 of at most 8)",
        "== v3: Cache hints (3 of at most 8)",
    ]
    assert told.look().progress.left_s is None


def test_a_note_is_one_line_and_moves_no_cursor(workspace: Workspace, clock: Clock) -> None:
    lines = io.StringIO()
    follower(workspace, Plain(lines), clock).note("failed: \x1b[2Jexpected\ta tensor\nTraceback")
    assert lines.getvalue() == "[   0.0 s]    failed:  [2Jexpected a tensor\n"


def on_terminal(width: int) -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    environment = {"TERM": "xterm", "COLUMNS": str(width), "LINES": "30"}
    return Console(file=stream, force_terminal=True, width=width, height=30, _environ=environment), stream


def rows(console: Console, told: Follower) -> list[str]:
    """What the bar's lines say now."""
    assert isinstance(told.screen, Live)
    with told.screen.on(told.look):
        rendered = console.render_lines(told.screen, pad=False)
    return ["".join(segment.text for segment in row) for row in rendered]


def test_a_terminal_shows_step_count_times_best_and_what_is_tried(workspace: Workspace, clock: Clock) -> None:
    console, _ = on_terminal(120)
    told = follower(workspace, Live(console), clock)
    search(told, clock)
    step, counted, best, trying = rows(console, told)
    assert step.endswith(" optimize: v2: Cache hints (2 of at most 8)")
    bar, _, rest = counted.strip().partition(" ")
    assert (bar.count("━"), bar.count("┄")) == (10, 20)
    assert rest == "2/6, 1 min 8 s, about 15 s left here · at most about 7 min for the search"
    assert best == "  best so far: v1, 1.200 [1.190, 1.210] × the original"
    assert trying == "  v2: timing M2"


def test_time_goes_on_while_nothing_is_told(workspace: Workspace, clock: Clock) -> None:
    console, _ = on_terminal(120)
    told = follower(workspace, Live(console), clock)
    search(told, clock)
    clock.seconds += 3.0
    assert "2/6, 1 min 11 s, about 15 s left here · at most about 7 min" in rows(console, told)[1]
    clock.seconds += 600.0
    assert "2/6, 11 min 11 s, about 10 s left here · at most about 6 min" in rows(console, told)[1]


@pytest.mark.parametrize("width", [20, 40, 60])
def test_a_narrow_terminal_cuts_the_bars_lines_and_wraps_none(workspace: Workspace, clock: Clock, width: int) -> None:
    console, stream = on_terminal(width)
    told = follower(workspace, Live(console), clock)
    search(told, clock)
    told.note("[bold]a note[/bold] " + "that is much longer than the terminal is wide " * 4)
    assert stream.getvalue().splitlines()[-1].count("that is much longer") == 4
    assert [len(row) <= width for row in rows(console, told)] == [True] * 3
    told.note("[bold]a case[/bold] " + "that is much longer than the terminal is wide " * 4, 1, 6)
    shown_rows = rows(console, told)
    assert [len(row) <= width for row in shown_rows] == [True] * 4
    assert shown_rows[3].startswith("  [bold]a case") and shown_rows[3].endswith("…")


def test_what_has_happened_stays_above_the_bar(workspace: Workspace, clock: Clock) -> None:
    console, stream = on_terminal(120)
    console.no_color = True
    search(follower(workspace, Live(console), clock), clock)
    plain = Console(file=io.StringIO(), width=120)
    lines = [str(plain.render_str(line)) for line in stream.getvalue().replace("\x1b[1m", "").splitlines()]
    assert [line.replace("\x1b[0m", "").replace("\x1b[2m", "") for line in lines] == [
        "v1: Launch settings (1 of at most 8)",
        "  best so far: v1, 1.200 [1.190, 1.210] × the original",
        "  v1: accepted: faster",
        "v2: Cache hints (2 of at most 8)",
    ]


def test_an_interruption_leaves_the_terminal_as_it_was_and_results_alone(
    workspace: Workspace, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    console, stream = on_terminal(80)
    screen = Live(console)
    with pytest.raises(KeyboardInterrupt), screen.on(follower(workspace, screen, clock).look):
        print("a result")
        raise KeyboardInterrupt
    assert capsys.readouterr().out == "a result\n"
    hidden, restored = stream.getvalue().rfind("\x1b[?25l"), stream.getvalue().rfind("\x1b[?25h")
    assert 0 <= hidden < restored
    assert stream.getvalue().endswith("\x1b[2K")  # the bar's own lines are gone


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("quiet", "stream", "term", "expected"),
    [
        (True, Terminal(), "xterm", Quiet),
        (False, Terminal(), "xterm", Live),
        (False, Terminal(), "dumb", Plain),
        (False, io.StringIO(), "xterm", Plain),
    ],
)
def test_the_screen_fits_where_it_is_seen(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, quiet: bool, stream: io.StringIO, term: str, expected: type
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", term)
    with shown(workspace, "r", "profile", quiet=quiet) as told:
        assert type(told.screen) is expected


def test_quiet_says_nothing_and_still_tells_other_processes(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    with shown(workspace, "r", "profile", quiet=True) as told:
        told.step("baselines", 4, of=5)
        told.note("M1024", 0, 6)
        told.best("v1")
        found = read_progress(workspace)
    assert capsys.readouterr() == ("", "")
    assert found is not None
    assert (found.run_id, found.pid, found.stage, found.step) == ("r", os.getpid(), "profile", "baselines")


def test_a_stage_that_ended_leaves_no_progress_and_one_that_was_cut_off_says_where(workspace: Workspace) -> None:
    with shown(workspace, "r", "optimize", quiet=True) as told:
        told.step("v1: Launch settings", 1, at_most=8)
    assert not workspace.progress.exists()

    with pytest.raises(KeyboardInterrupt), shown(workspace, "r", "optimize", quiet=True) as told:
        told.step("v2: Cache hints", 2, at_most=8)
        told.note("timing M1", 1, 6)
        told.note("timing M2", 2, 6)
        raise KeyboardInterrupt
    found = read_progress(workspace)
    assert found is not None
    assert (found.step, found.number, found.trying, found.done) == ("v2: Cache hints", 2, "timing M2", 2)


def test_a_command_that_never_began_keeps_where_the_one_before_was_cut_off(workspace: Workspace) -> None:
    with pytest.raises(KeyboardInterrupt), shown(workspace, "r", "optimize", quiet=True) as told:
        told.step("v2: Cache hints", 2, at_most=8)
        raise KeyboardInterrupt
    before = workspace.progress.read_bytes()
    with pytest.raises(KeyboardInterrupt), shown(workspace, "r", "optimize", quiet=True):
        raise KeyboardInterrupt
    assert workspace.progress.read_bytes() == before


def test_a_profile_tells_its_steps_in_order_and_counts_that_begin_at_none(tmp_path: Path, clock: Clock) -> None:
    run = Run.begin(make_repository(tmp_path))
    told = follower(run.workspace, Recorded(), clock)
    run.told = told  # type: ignore[assignment]
    run.profile()
    assert isinstance(told.screen, Recorded)
    assert [(step.number, step.at_most) for step in told.screen.steps] == [(number, None) for number in range(1, 7)]
    assert all((step.number or 0) <= (step.of or 0) for step in told.screen.steps)
    for counts in told.screen.counts:
        assert 0 <= counts.done < counts.total  # type: ignore[operator]
        assert not re.search(r"\d of \d", str(counts.trying))
    baselines = [counts.done for counts in told.screen.counts if counts.number == 4]
    assert baselines == list(range(len(baselines))) and len(baselines) == told.screen.counts[0].total


class Recorded(Quiet):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.steps: list[RunProgress] = []
        self.counts: list[RunProgress] = []

    def step(self, moment: object) -> None:
        self.steps.append(moment.progress)  # type: ignore[attr-defined]

    def counted(self, moment: object) -> None:
        self.counts.append(moment.progress)  # type: ignore[attr-defined]


def test_the_file_holds_the_whole_moment(workspace: Workspace, clock: Clock) -> None:
    search(follower(workspace, Quiet(), clock), clock)
    assert json.loads(workspace.progress.read_text()) == {
        "schema_version": 1,
        "run_id": "r",
        "pid": 1,
        "stage": "optimize",
        "started_at": "2026-01-31T00:00:00+00:00",
        "updated_at": "2026-01-31T00:01:08+00:00",
        "step": "v2: Cache hints",
        "number": 2,
        "of": None,
        "at_most": 8,
        "trying": "v2: timing M2",
        "done": 2,
        "total": 6,
        "best": "v1, 1.200 [1.190, 1.210] × the original",
        "left_s": 16.0,
        "search_left_s": 412.0,
    }
