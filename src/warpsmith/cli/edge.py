"""The command's edge: every error becomes one clear message and an exit code of the design."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from types import FrameType

import typer

from warpsmith.cli.app import app
from warpsmith.contracts.errors import ExitCode, WarpsmithError

#: click's base of usage errors, wherever this typer has it from: some versions bring click's code along.
ClickException = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")

INTERRUPTED = "interrupted; what was measured is kept, and the same command goes on from here"


def main() -> None:
    """Runs the command line and exits. Set WARPSMITH_TRACEBACK=1 to see where an error came from."""
    wants_json = "--json" in sys.argv
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        result = app(standalone_mode=False)
        sys.exit(int(result) if isinstance(result, int) else ExitCode.DONE)
    except (Signalled, typer.Abort):
        _fail(INTERRUPTED, ExitCode.INTERRUPTED, None, wants_json)
    except WarpsmithError as error:
        _fail(error.message, error.exit_code, error.next_command, wants_json)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader of our output went away
        sys.exit(ExitCode.DONE)
    except Exception as error:  # the command's edge
        _fail_unexpectedly(error, wants_json)


class Signalled(BaseException):
    """SIGINT or SIGTERM. No Exception, so that nothing on the way out takes it for a failure of its own."""


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise Signalled


def _fail_unexpectedly(error: Exception, wants_json: bool) -> None:
    from warpsmith.measure.worker.protocol import WorkerError

    if isinstance(error, ClickException):
        error.show()  # type: ignore[attr-defined]
        if wants_json:
            _print_json(error.format_message(), ExitCode.USAGE, None)  # type: ignore[attr-defined]
        sys.exit(ExitCode.USAGE)
    if isinstance(error, WorkerError):
        _fail(str(error), _worker_exit_code(error.failure.status), "warpsmith doctor", wants_json)
    if isinstance(error, OSError):
        _fail(f"{error.strerror}: {error.filename}", ExitCode.UNAVAILABLE, None, wants_json)
    _fail(
        f"internal error, {type(error).__name__}: {error} (WARPSMITH_TRACEBACK=1 shows where; please report it)",
        ExitCode.INTERNAL,
        None,
        wants_json,
    )


def _worker_exit_code(status: str) -> ExitCode:
    kernel_at_fault = ("bad_target", "import_failed", "compile_failed", "runtime_failed")
    return ExitCode.PREFLIGHT if status in kernel_at_fault else ExitCode.UNAVAILABLE


def _fail(message: str, code: ExitCode, next_command: str | None, wants_json: bool) -> None:
    if os.environ.get("WARPSMITH_TRACEBACK"):
        traceback.print_exc()
    print(f"warpsmith: {message}", file=sys.stderr)
    if next_command:
        print(f"  next: {next_command}", file=sys.stderr)
    if wants_json:
        _print_json(message, code, next_command)
    sys.exit(code)


def _print_json(message: str, code: ExitCode, next_command: str | None) -> None:
    print(json.dumps({"error": {"message": message, "exit_code": int(code), "next_command": next_command}}))
