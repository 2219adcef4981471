"""A pass means that tests ran and none failed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warpsmith.contracts import result
from warpsmith.contracts.errors import UsageError
from warpsmith.project.tests_gate import failed_tests, run_tests, summary_counts

PYTEST = ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider")


def gate(root: Path, source: str, *arguments: str) -> result.TestRun:
    (root / "test_kernel.py").write_text(source)
    return run_tests(root, PYTEST, ("test_kernel.py", *arguments), log_path=root / "log" / "tests.log", timeout_s=60)


@pytest.mark.parametrize(
    ("source", "counts", "reason"),
    [
        ("def test_a(): pass\ndef test_b(): pass\n", {"passed": 2}, None),
        (
            "import pytest\ndef test_a(): pass\n@pytest.mark.skip\ndef test_b(): pass\n",
            {"passed": 1, "skipped": 1},
            None,
        ),
        ("def test_a(): pass\ndef test_b(): assert 0\n", {"failed": 1, "passed": 1}, "exit status 1"),
        ("import absent_module\n", {"errors": 1}, "exit status 2"),
        (
            "import pytest\n@pytest.mark.skip\ndef test_a(): pass\n@pytest.mark.skip\ndef test_b(): pass\n",
            {"skipped": 2},
            "all 2 tests were skipped",
        ),
        ("x = 1\n", {}, "no tests ran"),
        ("import pytest\n@pytest.mark.xfail\ndef test_a(): assert 0\n", {"xfailed": 1}, "no test passed"),
    ],
)
def test_the_gate_tells_passing_from_every_other_end(
    tmp_path: Path, source: str, counts: dict[str, int], reason: str | None
) -> None:
    run = gate(tmp_path, source)

    assert (run.counts, run.reason, run.passed) == (counts, reason, reason is None)
    assert run.command.startswith("python -m pytest")
    assert run.duration_s > 0


def test_a_repository_that_is_quiet_already_still_shows_its_counts(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q -q\n")

    run = gate(tmp_path, "def test_a(): pass\n")

    assert (run.counts, run.passed) == ({"passed": 1}, True)


def test_tests_run_in_the_root_with_the_environment_they_are_given(tmp_path: Path) -> None:
    source = "import os\ndef test_a(): assert os.environ['KNOB'] == '1' and os.path.exists('marker')\n"
    (tmp_path / "marker").touch()
    (tmp_path / "test_kernel.py").write_text(source)

    run = run_tests(
        tmp_path, PYTEST, ("test_kernel.py",), log_path=tmp_path / "tests.log", env={**os.environ, "KNOB": "1"}
    )

    assert run.passed, run.output_tail


def test_a_hang_is_killed_with_all_it_started(tmp_path: Path) -> None:
    # Reading a pipe ends only when every process that could write to it is gone.
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    program = "exec 3>pipe; echo started >&3; sleep 600 & sleep 600"

    run = run_tests(tmp_path, ("sh", "-c", program), (), log_path=tmp_path / "tests.log", timeout_s=1)

    os.set_blocking(reading, True)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"started\n"
    assert (run.passed, run.reason, run.counts) == (False, "killed after 1 s", {})


def test_long_output_stays_in_the_file_and_its_end_is_told(tmp_path: Path) -> None:
    program = "for i in range(100_000): print('line', i)\nprint('== 3 passed in 0.10s ==')"
    log_path = tmp_path / "tests.log"

    run = run_tests(tmp_path, ("python", "-c", program), (), log_path=log_path)

    assert run.output_tail.splitlines() == [*(f"line {i}" for i in range(99_961, 100_000)), "== 3 passed in 0.10s =="]
    assert run.passed
    assert log_path.read_bytes().startswith(b"line 0\n")


def test_a_command_that_says_nothing_of_tests_is_no_pass(tmp_path: Path) -> None:
    run = run_tests(tmp_path, ("true",), (), log_path=tmp_path / "tests.log")

    assert not run.passed
    assert run.reason == "the output has no pytest summary, so nothing shows that a test ran"


def test_a_command_that_is_not_there_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot run 'no-such-command': No such file or directory"):
        run_tests(tmp_path, ("no-such-command",), (), log_path=tmp_path / "tests.log")


@pytest.mark.parametrize(
    ("output", "counts"),
    [
        ("==== 3 passed, 1 skipped, 2 warnings in 1.20s ====\n", {"passed": 3, "skipped": 1, "warnings": 2}),
        ("1 failed, 2 passed in 75.10s (0:01:15)\n", {"failed": 1, "passed": 2}),
        ("1 passed in 0.1s\nmake: done\n", {"passed": 1}),
        ("5 passed in 0.1s\n1 error in 0.2s\n", {"errors": 1}),
        ("2 passed, 3 subtests passed in 0.1s\n", {"passed": 2, "subtests passed": 3}),
        ("1 passed, 1 warning in 0.1s\n", {"passed": 1, "warnings": 1}),
        ("no tests ran in 0.01s\n", {}),
        ("we had 3 passed in 0.1s\n", None),
        ("", None),
    ],
)
def test_the_last_summary_line_counts(output: str, counts: dict[str, int] | None) -> None:
    assert summary_counts(output) == counts


def test_what_failed_is_told_by_its_node_id(tmp_path: Path) -> None:
    source = """
import pytest

@pytest.mark.parametrize("case", ["a - b", "[x]", "plain"])
def test_case(case):
    assert case == "plain", "a message - with a dash]"

class TestOne:
    def test_inside(self): raise ValueError("FAILED of the test's own")

def test_passes(): print("FAILED no.py::test")
"""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -rN\n")
    (tmp_path / "test_gone.py").write_text("import absent_module\n")
    (tmp_path / "test_kernel.py").write_text(source)
    run = run_tests(tmp_path, PYTEST, (".", "--continue-on-collection-errors"), log_path=tmp_path / "tests.log")
    assert run.failed == (
        "test_kernel.py::test_case[a - b]",
        "test_kernel.py::test_case[[x]]",
        "test_kernel.py::TestOne::test_inside",
        "test_gone.py",
    )


def test_a_pass_names_no_failure_and_neither_does_another_runner(tmp_path: Path) -> None:
    assert gate(tmp_path, "def test_a(): print('= short test summary info =\\nFAILED t.py::t')\n").failed == ()
    assert failed_tests("FAILED (failures=1)\nRan 3 tests\n") == ()
