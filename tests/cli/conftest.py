"""The command line in this process, on a small repository without a GPU."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Test modules are imported by path, so what they share is found only if they are told where.
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "stages")]

from command_line import Command, Outcome  # noqa: E402
from simulated_run import Run, make_repository  # noqa: E402

from warpsmith.cli import main  # noqa: E402
from warpsmith.cli.interruption import SIGNALS  # noqa: E402
from warpsmith.device.gpus import GpuList  # noqa: E402


@pytest.fixture
def begun(tmp_path: Path) -> Run:
    """A run that has just begun, autonomous."""
    return Run.begin(make_repository(tmp_path))


@pytest.fixture
def profiled(begun: Run) -> Run:
    """A run whose profile is there."""
    begun.profile()
    return begun


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Runs `warpsmith ARGUMENTS` in a folder. There is no GPU, whatever machine this is."""
    none = GpuList((), "NVML finds no NVIDIA GPU")
    monkeypatch.setattr("warpsmith.stages.session.gpus", lambda: none)
    monkeypatch.setattr("warpsmith.stages.session.choose", lambda device: None)
    monkeypatch.setattr("warpsmith.stages.recording.gpus", lambda: none)
    monkeypatch.setattr("warpsmith.stages.recording.choose", lambda device: None)
    monkeypatch.setattr("warpsmith.stages.doctor.gpus", lambda: none)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    monkeypatch.setattr("sys.unraisablehook", sys.unraisablehook)

    def run(folder: Path, *arguments: str) -> Outcome:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["warpsmith", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capfd.readouterr()
        assert "Traceback" not in shown.err + shown.out
        return Outcome(int(ended.value.code or 0), shown.out, shown.err)

    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield run
    for number, handler in before.items():
        signal.signal(number, handler)
