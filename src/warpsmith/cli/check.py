"""`check`: the gate by itself, on one source file, told once and for all; the list of its checks; and, with a base,
what a change makes of the compiled code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from warpsmith.cli import interruption
from warpsmith.cli.output import print_json, print_markdown
from warpsmith.contracts.errors import ExitCode
from warpsmith.contracts.examination import LISTED
from warpsmith.project.config import load_config
from warpsmith.project.discover import find_root
from warpsmith.stages.check_request import Asked, ChangeAsked

#: What an interruption leaves behind.
NOTHING_LEFT = "nothing is kept, the same command starts anew"


def check(start: Path, kernel: str, asked: Asked, *, as_json: bool, quiet: bool) -> int:
    """Exit status 0 where the file passed, 5 where it is rejected. Raises WarpsmithError."""
    interruption.leaves = NOTHING_LEFT
    from warpsmith.report.rejection import check_page
    from warpsmith.stages.check import check as checked

    root = find_root(start)
    result = checked(root, load_config(root), kernel, asked, _teller(quiet))
    if as_json:
        print_json(result)
    else:
        print_markdown(check_page(result).rstrip())
        if not result.passed:
            print(f"\nTo see it again:\n  {result.examination.command}")
    return _status(result.passed)


def compare(start: Path, kernel: str, asked: ChangeAsked, *, as_json: bool, quiet: bool) -> int:
    """Exit status 0 where nothing is over a limit, 5 where something is. Raises WarpsmithError."""
    interruption.leaves = NOTHING_LEFT
    from warpsmith.report.change_view import change_page
    from warpsmith.stages.check_change import compare as compared

    root = find_root(start)
    result = compared(root, load_config(root), kernel, asked, _teller(quiet))
    if as_json:
        print_json(result)
    else:
        print_markdown(change_page(result).rstrip())
    return _status(result.passed)


def list_checks(*, as_json: bool) -> int:
    """Admission and every check by its name, and what it makes sure of."""
    from warpsmith.report.rejection import purposes_page

    if as_json:
        print_json(dict(LISTED))
    else:
        print_markdown(purposes_page())
    return ExitCode.DONE


def _teller(quiet: bool) -> Callable[[str], None]:
    """Where progress is told: on standard error, or nowhere."""
    return lambda text: None if quiet else print(text, file=sys.stderr)


def _status(passed: bool) -> ExitCode:
    return ExitCode.DONE if passed else ExitCode.REJECTED
