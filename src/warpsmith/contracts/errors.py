"""Exit codes and the errors that carry them: what was expected, what was found, what to run next."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the shell sees. 0 also stands for "no improvement found", a complete result."""

    DONE = 0
    USAGE = 2
    PREFLIGHT = 3
    WAITING = 4
    REJECTED = 5
    UNAVAILABLE = 6
    INTERRUPTED = 7
    INTERNAL = 70


class WarpsmithError(Exception):
    """An error with an exit code and, where there is one, the command that mends it."""

    exit_code = ExitCode.INTERNAL

    def __init__(self, message: str, *, next_command: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.next_command = next_command


class UsageError(WarpsmithError):
    """The call or a configuration file is wrong."""

    exit_code = ExitCode.USAGE


class PreflightError(WarpsmithError):
    """The kernel cannot be worked on as it is: missing file, failing import, no launch, no tests."""

    exit_code = ExitCode.PREFLIGHT


class ApprovalRequired(WarpsmithError):
    """A person has to confirm before the next stage."""

    exit_code = ExitCode.WAITING


class Rejected(WarpsmithError):
    """A variant failed its gate, or an applied winner was taken back."""

    exit_code = ExitCode.REJECTED


class Unavailable(WarpsmithError):
    """A device or tool that the step needs is not there."""

    exit_code = ExitCode.UNAVAILABLE
