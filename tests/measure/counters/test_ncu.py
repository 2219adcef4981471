from __future__ import annotations

import sys
from pathlib import Path

import pytest

from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.counters import CounterRow, Counters
from warpsmith.contracts.measurement import SourceRef
from warpsmith.measure.counters.metrics import ASKED, METRICS
from warpsmith.measure.counters.ncu import command, count
from warpsmith.measure.counters.refusals import CALL_IS_MADE
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
        *("--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "demangled"),
        *("--metrics", ",".join(ASKED)),
        *("python", "-m", "runner"),
    ]


#: Of a pass backward: the second kernel of its own, and one of torch's.
TABLE = f"""\
{CALL_IS_MADE}
"ID","Kernel Name","Block Size","Grid Size","gpu__time_duration.sum","lts__t_sector_hit_rate.pct"
"","","","","ns","%"
"0","void fill<(int)4, FillFunctor<float>>(int, T2)","(1, 1, 1)","(2, 1, 1)","1,500","36.44"
"1","backward","(1, 1, 1)","(3, 1, 1)","2,500","50"
"2","sums","(1, 1, 1)","(4, 1, 1)","900","50"
"""


def row(kernel: str, grid: str, duration_ns: float, hits: float) -> CounterRow:
    metrics = {"gpu__time_duration.sum": duration_ns, "lts__t_sector_hit_rate.pct": hits}
    return CounterRow(kernel=kernel, grid=grid, block="(1, 1, 1)", metrics=metrics)


ROWS = (
    row("void fill<(int)4, FillFunctor<float>>(int, T2)", "(2, 1, 1)", 1500.0, 36.44),
    row("backward", "(3, 1, 1)", 2500.0, 50.0),
    row("sums", "(4, 1, 1)", 900.0, 50.0),
)


def test_a_row_a_launch_comes_back_in_their_order_with_the_version_and_what_is_missing(tmp_path: Path) -> None:
    found = count(QUESTION, ncu=fake_ncu(tmp_path, f"print({TABLE!r})"))

    assert found == Counters(
        case=CASE,
        mode=Mode.BACKWARD,
        rows=ROWS,
        ncu_version="2025.3.1.0",
        missing_metrics=tuple(name for name in METRICS if name not in ROWS[0].metrics),
    )


REFUSING = """
import pathlib
asked = words[words.index('--metrics') + 1].split(',')
with pathlib.Path({log!r}).open('a') as log:
    print(len(asked), file=log)
for name in {unknown!r}:
    if name in asked:
        print('==ERROR== Failed to find metric regex:^' + name.replace('.', chr(92) + '.') + '$')
        break
else:
    print({table!r})
"""


def test_a_metric_that_ncu_does_not_have_costs_itself_alone(tmp_path: Path) -> None:
    unknown, log = ("dram__bytes_read.sum", "sm__throughput.avg.pct_of_peak_sustained_elapsed"), tmp_path / "log"
    ncu = fake_ncu(tmp_path, REFUSING.format(log=str(log), unknown=unknown, table=TABLE))

    found = count(QUESTION, ncu=ncu)

    assert found.rows == ROWS
    assert set(unknown) < set(found.missing_metrics)
    assert log.read_text().split() == [str(len(ASKED) - without) for without in range(3)]


def test_metrics_that_are_told_missing_beside_a_table_are_not_asked_for_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    told = f"==ERROR== Failed to access the following 1 metrics: dram__bytes_read.sum\n{TABLE}"

    found = count(QUESTION, ncu=fake_ncu(tmp_path, REFUSING.format(log=str(log), unknown=(), table=told)))

    assert found.rows == ROWS
    assert len(log.read_text().split()) == 1


def test_an_unknown_metric_that_was_not_asked_for_is_the_reason(tmp_path: Path) -> None:
    found = count(QUESTION, ncu=fake_ncu(tmp_path, "print('==ERROR== Failed to find metric another__one.sum')"))

    assert found.unavailable == "ncu failed: Failed to find metric another__one.sum"


def test_a_version_in_no_known_encoding_keeps_nothing_from_being_counted(tmp_path: Path) -> None:
    ncu = Path(fake_ncu(tmp_path, f"print({TABLE!r})"))
    ncu.write_text(ncu.read_text().replace("print('Version 2025.3.1.0 (x)')", "sys.stdout.buffer.write(b'\\351\\377')"))

    found = count(QUESTION, ncu=str(ncu))

    assert (found.ncu_version, len(found.rows)) == (None, 3)


def test_the_runner_is_handed_the_question(tmp_path: Path) -> None:
    body = f"import pathlib\npathlib.Path({str(tmp_path / 'seen')!r}).write_text(pathlib.Path(words[-2]).read_text())"

    count(QUESTION, ncu=fake_ncu(tmp_path, body))

    assert Count.model_validate_json((tmp_path / "seen").read_text()) == QUESTION


def test_a_refusal_is_told_with_its_remedy(tmp_path: Path) -> None:
    found = count(QUESTION, ncu=fake_ncu(tmp_path, "sys.exit('==ERROR== ERR_NVGPUCTRPERM - The user ...')"))

    assert found.rows == ()
    assert "administrators only" in str(found.unavailable)
    assert "CAP_PERFMON" in str(found.remedy)


def test_a_table_that_is_cut_short_is_a_launch_without_its_figures(tmp_path: Path) -> None:
    found = count(QUESTION, ncu=fake_ncu(tmp_path, f"sys.stdout.write({TABLE[:-8]!r})"))

    assert found.rows == (*ROWS[:2], ROWS[2].model_copy(update={"metrics": {}}))


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ('==ERROR== Failed to profile "sums" in process 41', 'ncu failed: Failed to profile "sums" in process 41'),
        (
            "ValueError: no\n==ERROR== The application returned an error code (1).",
            "the call failed under ncu: ValueError: no",
        ),
    ],
)
def test_launches_before_a_failure_are_not_all_and_so_none(tmp_path: Path, told: str, reason: str) -> None:
    printed = TABLE.replace(CALL_IS_MADE, told)

    found = count(QUESTION, ncu=fake_ncu(tmp_path, f"print({printed!r})"))

    assert (found.rows, found.unavailable) == ((), reason)


def test_a_program_that_fails_after_its_call_is_counted(tmp_path: Path) -> None:
    told = f"{TABLE}==ERROR== The application returned an error code (11)."

    assert count(QUESTION, ncu=fake_ncu(tmp_path, f"print({told!r})")).rows == ROWS


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
