"""The hard gate: a kernel's own tests, by the repository's command. Passing means that tests ran and none failed."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from warpsmith.contracts.result import TestRun
from warpsmith.project.commands import Finished, run_to_file, tail_of, with_this_python

#: Chosen: an hour is a hang, also for tests that compile hundreds of specializations.
TIME_LIMIT_S = 3600.0

_TAIL_BYTES = 1 << 16
_SHOWN_LINES = 40

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_COUNT = r"\d+ [a-z]+(?: passed| failed| skipped)?"
_SUMMARY = re.compile(rf"^[= ]*(no tests ran|{_COUNT}(?:, {_COUNT})*) in [\d.]+s\b", re.MULTILINE)
_FAILURES_BEGIN = re.compile(r"^=* ?short test summary info ?=*$", re.MULTILINE)
#: A node id may have spaces and dashes in its brackets; the message after " - " may be missing.
_FAILURE = re.compile(r"^(?:FAILED|ERROR) (.+?(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)
_PLURALS = {"error": "errors", "warning": "warnings"}
_OUTCOMES_OF_RUN_TESTS = ("passed", "failed", "errors", "xfailed", "xpassed")


def run_tests(
    root: Path,
    command: Sequence[str],
    arguments: Sequence[str],
    *,
    log_path: Path,
    timeout_s: float = TIME_LIMIT_S,
    env: Mapping[str, str] | None = None,
) -> TestRun:
    """Runs `command arguments` in `root`. `env` None is the environment that warpsmith has.

    Passed means exit status 0 and a pytest summary of which at least one test passed: "no tests ran" and "all
    skipped" prove nothing. Raises UsageError where the command does not exist.
    """
    told = (*command, *arguments, *_summary_shown(command))
    finished = run_to_file(with_this_python(told), root=root, log_path=log_path, timeout_s=timeout_s, env=env)
    output = _without_machine_paths(_ANSI.sub("", tail_of(log_path, _TAIL_BYTES)), root)
    counts = summary_counts(output)
    reason = _why_no_pass(finished, counts, timeout_s)
    return TestRun(
        command=shlex.join(told),
        passed=reason is None,
        counts=counts or {},
        duration_s=finished.duration_s,
        output_tail="\n".join(output.splitlines()[-_SHOWN_LINES:]),
        reason=reason,
        failed=() if reason is None else failed_tests(output),
    )


def failed_tests(output: str) -> tuple[str, ...]:
    """The node ids in pytest's last short summary, in order, each once; a file where it could not be collected."""
    *_, begin = (None, *_FAILURES_BEGIN.finditer(output))
    return () if begin is None else tuple(dict.fromkeys(_FAILURE.findall(output, begin.end())))


def summary_counts(output: str) -> dict[str, int] | None:
    """The counts of pytest's last summary line, such as {"passed": 3, "skipped": 1}.

    {} stands for "no tests ran", None for an output without such a line.
    """
    found = _SUMMARY.findall(output)
    if not found:
        return None
    counts = {}
    for each in found[-1].split(", ") if found[-1] != "no tests ran" else ():
        number, _, outcome = each.partition(" ")
        counts[_PLURALS.get(outcome, outcome)] = int(number)
    return counts


def _without_machine_paths(output: str, root: Path) -> str:
    """Reports travel: the repository is told as "." and the Python environment as "<environment>"."""
    for path, told in ((f"{root}{os.sep}", ""), (str(root), "."), (sys.prefix, "<environment>")):
        output = output.replace(path, told)
    return output


def _summary_shown(command: Sequence[str]) -> tuple[str, ...]:
    """Twice quiet (once here, once in a pytest.ini) prints no summary, so pytest is told how quiet to be.

    `-r` in a pytest.ini may leave out what failed, so that is told too.
    """
    is_pytest = any(PurePath(word).name in ("pytest", "py.test") for word in command)
    return ("--verbosity=-1", "-rfE") if is_pytest else ()


def _why_no_pass(finished: Finished, counts: dict[str, int] | None, timeout_s: float) -> str | None:
    if finished.status is None:
        return f"killed after {timeout_s:.0f} s"
    if counts is not None and sum(counts.get(outcome, 0) for outcome in _OUTCOMES_OF_RUN_TESTS) == 0:
        skipped = counts.get("skipped", 0)
        return f"all {skipped} tests were skipped" if skipped else "no tests ran"
    if finished.status != 0:
        return f"exit status {finished.status}"
    if counts is None:
        return "the output has no pytest summary, so nothing shows that a test ran"
    return None if counts.get("passed", 0) else "no test passed"
