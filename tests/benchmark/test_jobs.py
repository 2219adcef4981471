"""Jobs worked through in the time there is, on a clock of their own, and the command line that asks for them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from warpsmith.contracts.errors import PreflightError

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmark"))

from jobs import Job, OutOfTime, Pace, asked, kernels_of, missing, summarized, watched, work_through  # noqa: E402


@dataclass
class Work:
    """Jobs that take as long as they are told to, and then lie in a folder, or end otherwise."""

    into: Path
    now_s: float = 0.0
    begun: list[str] = field(default_factory=list)

    def pace(self, within_s: float | None, first_s: float = 90.0, least_s: float = 0.0) -> Pace:
        return Pace(within_s, first_s, least_s, clock=lambda: self.now_s)

    def job(self, name: str, takes_s: float, ends: Exception | None = None, *, goes_on: bool = False) -> Job[Path]:
        kept = self.into / name

        def make(project: Path) -> None:
            self.begun.append(name)
            self.now_s += takes_s
            if ends is not None:
                raise ends
            kept.write_text(project.name)

        return Job(name, name.partition(" ")[0], kept, make, goes_on)


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path)


def test_what_is_kept_is_not_made_again_and_a_failure_stops_no_other(
    work: Work, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = PreflightError("it does not launch", next_command="warpsmith doctor")
    (tmp_path / "a forward").touch()
    jobs = [work.job("a forward", 1), work.job("a backward", 1, failing), work.job("b forward", 1)]

    assert kernels_of(missing(jobs)) == ["a", "b"]
    assert not work_through(jobs, tmp_path, work.pace(None))
    assert work.begun == ["a backward", "b forward"]
    assert "a backward: it does not launch\n  next: warpsmith doctor\n" in capsys.readouterr().err
    assert work_through([jobs[0], jobs[2]], tmp_path, work.pace(None))
    assert work.begun == ["a backward", "b forward"]


@pytest.mark.parametrize(
    ("within_s", "begun"), [(89.0, ""), (90.0, "a"), (119.0, "a"), (120.0, "a b"), (160.0, "a b c")]
)
def test_nothing_is_begun_that_might_not_end_in_time(
    work: Work, tmp_path: Path, capsys: pytest.CaptureFixture[str], within_s: float, begun: str
) -> None:
    jobs = [work.job("a", 60), work.job("b", 40), work.job("c", 40)]
    assert work_through(jobs, tmp_path, work.pace(within_s))
    assert work.begun == begun.split()
    told = capsys.readouterr().err
    left = [job.name for job in jobs if job.name not in begun]
    assert not left or f"not begun for want of time: {', '.join(left)}" in told


def test_a_job_that_goes_on_says_nothing_of_the_next_by_its_length(work: Work, tmp_path: Path) -> None:
    jobs = [work.job("a", 500, goes_on=True), work.job("b", 40, goes_on=True)]
    assert work_through(jobs, tmp_path, work.pace(600.0, first_s=60.0, least_s=60.0))
    assert work.begun == ["a", "b"]


def test_a_job_that_ran_out_of_time_is_no_failure_and_is_missing_still(
    work: Work, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = work.job("a", 50, OutOfTime("stopped for want of time"), goes_on=True)
    assert work_through([job, work.job("b", 1)], tmp_path, work.pace(100.0, first_s=60.0, least_s=60.0))
    assert missing([job]) == [job]
    assert work.begun == ["a"]
    assert "a: stopped for want of time\nnot begun for want of time: b\n" in capsys.readouterr().err


def test_a_run_is_stopped_where_its_longest_step_would_not_fit_any_more(work: Work) -> None:
    heard: list[str] = []
    told = watched(heard.append, work.pace(300.0, first_s=10.0, least_s=10.0))
    for name, takes_s in (("compiling", 5.0), ("checking", 80.0), ("timing", 60.0), ("timing again", 70.0)):
        work.now_s += takes_s
        told(name)  # 85 s are left at the last, and 80 may be needed
    assert heard == ["compiling", "checking", "timing", "timing again"]
    work.now_s += 6.0
    with pytest.raises(OutOfTime, match="the same command goes on"):
        told("timing once more")
    assert len(heard) == 4


def test_short_steps_leave_what_any_step_may_take(work: Work) -> None:
    told = watched(lambda text: None, work.pace(100.0, first_s=60.0, least_s=60.0))
    work.now_s = 40.0
    told("a long one may come")
    work.now_s = 40.5
    with pytest.raises(OutOfTime):
        told("too late for it")


def command(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["a_benchmark.py", *words])


def test_a_command_line_names_kernels_or_means_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = ROOT / "benchmark" / "data" / "a"

    def found(*words: str) -> tuple[str, tuple[str, ...], Path, float | None]:
        command(monkeypatch, *words)
        each = asked("what it is", ("a", "b"), data, measuring=["measure"], others=["summarize"])
        return each.step, each.kernels, each.into, each.within_s

    assert found("measure") == ("measure", ("a", "b"), data, None)
    assert found("measure", "b", "--within", "60", "--into", str(tmp_path)) == ("measure", ("b",), tmp_path, 60.0)
    assert found("summarize") == ("summarize", ("a", "b"), data, None)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("measure", "c"), "no kernel c; there are a, b"),
        (("summarize", "a"), "summarize takes neither a kernel nor a time"),
        (("summarize", "--within", "9"), "summarize takes neither a kernel nor a time"),
    ],
)
def test_a_command_line_that_cannot_be_meant_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    command(monkeypatch, *words)
    with pytest.raises(SystemExit, match="2"):
        asked("", ("a", "b"), ROOT / "benchmark", measuring=["measure"], others=["summarize"])
    assert told in capsys.readouterr().err


def test_a_summary_of_nothing_says_how_to_come_by_something(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert summarized(lambda: True, "tuned", tmp_path, "tuned.py") == 0
    assert summarized(lambda: False, "tuned", tmp_path, "tuned.py") == 1
    told = capsys.readouterr().err
    assert told == (
        f"nothing is tuned in {tmp_path}\n  next, on a GPU: python benchmark/tuned.py measure --into {tmp_path}\n"
    )

    def strange() -> bool:
        raise PreflightError("figures would not compare")

    assert summarized(strange, "tuned", tmp_path, "tuned.py") == 1
    assert capsys.readouterr().err == "figures would not compare\n"
