"""What a person is told of a finished run: the outcome, how sure, and what was done with it since."""

from __future__ import annotations

import sys

from warpsmith.cli.width import say
from warpsmith.contracts.errors import ExitCode
from warpsmith.contracts.result import FinalOutcome, FinalResult, TestRun
from warpsmith.device.gpus import choose
from warpsmith.report.quantities import origin_told
from warpsmith.stages.in_place import handed_over, taken_back_told
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace

#: What a finished run says to the shell. No improvement is a complete, good result.
EXIT_CODES = {
    FinalOutcome.APPLIED: ExitCode.DONE,
    FinalOutcome.NO_IMPROVEMENT: ExitCode.DONE,
    FinalOutcome.NOT_CONFIRMED: ExitCode.DONE,
    FinalOutcome.REVERTED: ExitCode.REJECTED,
}


def tell(workspace: Workspace, result: FinalResult) -> None:
    """The outcome in two lines, with how many of the kernel's own tests ran here, and what became of it since."""
    tests = "" if result.tests is None or not result.tests.passed else f": {_counts_told(result.tests)}"
    say(f"{workspace.kernel}: {result.outcome.value}: {result.reason}{tests}", sys.stdout)
    if result.confirmation is not None:
        told = f"{result.confirmation.goal_mode.value}: {result.confirmation.goal_told}"
        print(f"  {told} ({origin_told(result.origin)})")
    say([f"  {line}" for line in since_told(workspace)], sys.stdout)


def since_told(workspace: Workspace) -> list[str]:
    """What was done with the result since the report was written, a line each."""
    result = read_document(workspace.final_result, FinalResult)
    lines = [] if result.taken_back_at is None else [f"since: {taken_back_told(result)}; the original is in its place"]
    given = handed_over(workspace)
    return lines if given is None else [*lines, f"handed over: {given.told}"]


def _counts_told(tests: TestRun) -> str:
    """As "25 passed, 82 skipped (no GPU)": tests of a GPU kernel skip themselves where there is none."""
    counts = ", ".join(f"{count} {outcome}" for outcome, count in tests.counts.items())
    return f"{counts} (no GPU)" if tests.counts.get("skipped") and choose("auto") is None else counts
