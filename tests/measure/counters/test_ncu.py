from __future__ import annotations

import sys
from pathlib import Path

import pytest

from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.measurement import CounterRow, Counters, SourceRef
from warpsmith.measure.counters.metrics import METRICS
from warpsmith.measure.counters.ncu import command, count
from warpsmith.measure.worker.protocol import Count, TargetRef

CASE = Case(axes={"M": 8, "N": 16}, dtype=DType.BFLOAT16)
QUESTION = Count(
    target=TargetRef(path="benchmark_k.py", root=".", sha256="0" * 64),
    source=SourceRef(path="k.py", sha256="1" * 64),
    case=CASE,
    mode=Mode.BACKWARD,
)


def fake_ncu(folder: Path, body: str) -> str:
    """A program in ncu's place that tells a version and otherwise runs the body, Python, with `words` its arguments."""
    path = folder / "ncu"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nwords = sys.argv[1:]\n"
        f"if words == ['--version']:\n    sys.exit('NVIDIA (R) Nsight Compute' and print('Version 2025.3.1.0 (x)'))\n"
        f"{body}\n"
    )
    path.chmod(0o755)
    return str(path)


def test_the_range_between_profiler_start_and_stop_is_counted_with_every_metric_named() -> None:
    assert command("/bin/ncu", ["python", "-m", "runner"]) == [
        *("/bin/ncu", "--target-processes", "application-only", "--profile-from-start", "off"),
        *("--clock-control", "none", "--cache-control", "all"),
        *("--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(METRICS)),
        *("python", "-m", "runner"),
    ]


def test_rows_come_back_with_the_version_and_what_is_missing(tmp_path: Path) -> None:
    header = '"ID","Kernel Name","Block Size","Grid Size","gpu__time_duration.sum"'
    table = f'{header}\n"","","","","ns"\n"0","k","b","g","1,500"'

    found = count(QUESTION, ncu=fake_ncu(tmp_path, f"print({table!r})"))

    assert found == Counters(
        case=CASE,
        mode=Mode.BACKWARD,
        rows=(CounterRow(kernel="k", grid="g", block="b", metrics={"gpu__time_duration.sum": 1500.0}),),
        ncu_version="2025.3.1.0",
        missing_metrics=METRICS[1:],
    )


def test_the_runner_is_handed_the_question(tmp_path: Path) -> None:
    body = f"import pathlib\npathlib.Path({str(tmp_path / 'seen')!r}).write_text(pathlib.Path(words[-2]).read_text())"

    count(QUESTION, ncu=fake_ncu(tmp_path, body))

    assert Count.model_validate_json((tmp_path / "seen").read_text()) == QUESTION


def test_a_refusal_is_told_with_its_remedy(tmp_path: Path) -> None:
    found = count(QUESTION, ncu=fake_ncu(tmp_path, "sys.exit('==ERROR== ERR_NVGPUCTRPERM - The user ...')"))

    assert found.rows == ()
    assert "administrators only" in str(found.unavailable)
    assert "CAP_PERFMON" in str(found.remedy)


def test_a_hang_ends_at_the_time_limit(tmp_path: Path) -> None:
    found = count(QUESTION, ncu=fake_ncu(tmp_path, "import signal; signal.pause()"), time_limit_s=0.5)

    assert found.unavailable == "ncu did not finish within 0.5 s"


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.write_text("no program")])
def test_a_tool_that_cannot_be_run_is_told(tmp_path: Path, make: object) -> None:
    path = tmp_path / "broken"
    make(path)  # type: ignore[operator]

    assert "cannot be run" in str(count(QUESTION, ncu=str(path)).unavailable)


def test_without_ncu_the_reason_is_that_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsmith.measure.counters.ncu.find_ncu", lambda: None)

    found = count(QUESTION)

    assert found == Counters(
        case=CASE,
        mode=Mode.BACKWARD,
        unavailable="ncu is not installed",
        remedy="install NVIDIA Nsight Compute and put ncu on the path",
    )
