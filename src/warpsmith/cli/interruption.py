"""What SIGINT, SIGTERM and SIGHUP do, from a command's first moment to its last: one line, and exit code 7.

Loaded before all else, so it imports only what starts at once: until then Python itself answers a signal. Must not
know what a command does: while there is nothing to clean up it ends the process, after that it raises `Signalled` and
lets the way out clean up.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # typing itself takes too long to load
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

#: `contracts.errors.ExitCode.INTERRUPTED`, which is not loaded yet.
EXIT_CODE = 7

KEPT = "what was measured is kept, and the same command goes on from here"
#: What an interruption leaves behind; set by a command of which something else is true.
leaves = KEPT

#: `error_as_json` of that, for when nothing may be loaded: a module may be half loaded already.
_AS_JSON = f'{{"error": {{"message": "interrupted; {KEPT}", "exit_code": {EXIT_CODE}, "next_command": null}}}}\n'

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

#: Chosen: an interrupt that somebody's bare `except` swallowed comes again after this long.
AGAIN_S = 0.5


class Signalled(BaseException):
    """A signal. No Exception, so that nothing on the way out takes it for a failure of its own."""


def end_at_a_signal() -> None:
    """From here on a signal ends the process at once. One that is ignored already, as under nohup, stays so."""
    _handle_with(_end)


def raise_at_a_signal() -> None:
    """From here on a signal raises Signalled, once: those that come while it is on its way out change nothing."""
    global leaves
    leaves = KEPT
    _handle_with(_raise)
    sys.unraisablehook = _unraisable


def ignore_signals() -> None:
    """From here on the command has ended, and says so undisturbed."""
    if signal.getsignal(signal.SIGALRM) is _raise:
        signal.setitimer(signal.ITIMER_REAL, 0)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def told() -> str:
    """What a person is told of an interruption."""
    return f"interrupted; {leaves}"


def is_on_its_way_out(error: BaseException | None) -> bool:
    """Whether an exception is a signal's, or was raised by the clean-up after one."""
    return _comes_of(error, Signalled)


def error_as_json(message: str, exit_code: int, next_command: str | None) -> str:
    import json

    return json.dumps({"error": {"message": message, "exit_code": exit_code, "next_command": next_command}})


def _handle_with(handler: Any) -> None:
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _end(_signal: int, _frame: FrameType | None) -> None:
    try:
        os.write(2, f"warpsmith: {told()}\n".encode())
        if "--json" in sys.argv:
            os.write(1, _AS_JSON.encode())
    finally:
        os._exit(EXIT_CODE)


def _raise(_signal: int, _frame: FrameType | None) -> None:
    if _comes_of(sys.exc_info()[1], (Signalled, SystemExit)):
        return  # the clean-up of an earlier signal goes on, or the command has ended
    signal.signal(signal.SIGALRM, _raise)
    signal.setitimer(signal.ITIMER_REAL, AGAIN_S, AGAIN_S)
    raise Signalled


def _comes_of(error: BaseException | None, kind: type[BaseException] | tuple[type[BaseException], ...]) -> bool:
    while error is not None and not isinstance(error, kind):
        error = error.__context__
    return error is not None


def _unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Says nothing of an interrupt that came where no exception can leave, such as a finalizer: it comes again."""
    if not isinstance(unraisable.exc_value, Signalled):
        sys.__unraisablehook__(unraisable)
