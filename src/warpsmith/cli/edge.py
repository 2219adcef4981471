"""The command's edge: every error becomes one clear message and an exit code of the design."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from typing import NoReturn

import typer

from warpsmith.cli import interruption
from warpsmith.cli.app import app
from warpsmith.cli.width import columns, wrapped
from warpsmith.contracts.errors import ExitCode, WarpsmithError

#: click's base of usage errors, wherever this typer has it from: some versions bring click's code along.
ClickException = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


def run() -> None:
    """Runs the command line and exits. Set WARPSMITH_TRACEBACK=1 to see where an error came from."""
    wants_json = "--json" in sys.argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal's encoding lacks is no error
    try:
        interruption.raise_at_a_signal()
        _run(wants_json)
    except interruption.Signalled:
        _fail(interruption.told(), ExitCode.INTERRUPTED, None, wants_json)
    finally:
        interruption.ignore_signals()


def _run(wants_json: bool) -> NoReturn:
    try:
        result = app(standalone_mode=False)
        sys.stdout.flush()
        sys.exit(int(result) if isinstance(result, int) else ExitCode.DONE)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer's own answer to a reader that went away
            _drop_output()
            sys.exit(ExitCode.DONE)
        raise
    except typer.Abort:
        _fail(interruption.told(), ExitCode.INTERRUPTED, None, wants_json)
    except Exception as error:  # the command's edge
        if interruption.is_on_its_way_out(error):
            told = f"{interruption.told()} (on the way out: {error})"
            _fail(told, ExitCode.INTERRUPTED, None, wants_json)
        if isinstance(error, WarpsmithError):
            _fail(error.message, error.exit_code, error.next_command, wants_json)
        if isinstance(error, BrokenPipeError):
            _drop_output()  # its reader went away
            sys.exit(ExitCode.DONE)
        _fail_unexpectedly(error, wants_json)


def _fail_unexpectedly(error: Exception, wants_json: bool) -> NoReturn:
    from warpsmith.cli.output import os_error_told
    from warpsmith.measure.worker.protocol import WorkerError

    if isinstance(error, ClickException):
        error.show()  # type: ignore[attr-defined]
        if wants_json:
            _print_json(error.format_message(), ExitCode.USAGE, None)  # type: ignore[attr-defined]
        sys.exit(ExitCode.USAGE)
    if isinstance(error, WorkerError):
        code = _worker_exit_code(error.failure.status)
        _fail(str(error), code, "warpsmith doctor" if code is ExitCode.UNAVAILABLE else None, wants_json)
    if isinstance(error, OSError):
        try:
            sys.stdout.flush()
        except OSError:  # a full disk, most likely: the rest of the output has nowhere to go
            _drop_output()
        _fail(os_error_told(error), ExitCode.UNAVAILABLE, None, wants_json)
    _fail(
        f"internal error, {type(error).__name__}: {error} (WARPSMITH_TRACEBACK=1 shows where; please report it)",
        ExitCode.INTERNAL,
        None,
        wants_json,
    )


def _drop_output() -> None:
    """What is left to print goes nowhere, so that Python's own flush at the end does not fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _worker_exit_code(status: str) -> ExitCode:
    kernel_at_fault = ("bad_target", "import_failed", "compile_failed", "runtime_failed", "tampered")
    return ExitCode.PREFLIGHT if status in kernel_at_fault else ExitCode.UNAVAILABLE


def _fail(message: str, code: ExitCode, next_command: str | None, wants_json: bool) -> NoReturn:
    if os.environ.get("WARPSMITH_TRACEBACK"):
        traceback.print_exc()
    with contextlib.suppress(OSError):  # the terminal may be gone, and SIGHUP what told us so
        told = f"warpsmith: {message}"
        width = columns(sys.stderr)
        lines = [told] if code is ExitCode.INTERRUPTED else wrapped(told, width)  # a command in it stays in one piece
        print("\n".join(lines), file=sys.stderr)
        if next_command:
            print(f"  next: {next_command}", file=sys.stderr)
    if wants_json:
        _print_json(message, code, next_command)
    sys.exit(code)


def _print_json(message: str, code: ExitCode, next_command: str | None) -> None:
    try:
        print(interruption.error_as_json(message, int(code), next_command), flush=True)
    except OSError:  # standard output itself may be what failed; standard error has been told
        _drop_output()
