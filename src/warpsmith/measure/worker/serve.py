"""The worker's side of the protocol: one JSON line in, one JSON line out, whatever the user's code prints."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from queue import Queue
from threading import Thread
from typing import Any, TextIO

from warpsmith.contracts.base import Contract
from warpsmith.measure.worker.confinement import isolate_this_process
from warpsmith.measure.worker.failures import classify
from warpsmith.measure.worker.leftovers import kill, started_by
from warpsmith.measure.worker.protocol import QUESTION, WorkerError

_retired = False


def retire(reason: str) -> None:
    """This process answers what it is being asked and nothing after that: it is no longer what it was."""
    global _retired
    _retired = True
    print(f"retires: {reason}", file=sys.stderr)


def serve(load: Callable[[], Mapping[str, Callable[[Any], Contract]]]) -> None:
    """Answers questions from standard input by the handlers that `load` returns, confined as its environment says.

    Whoever asks holds standard input open. When that closes, at any moment and whatever is being answered, this
    process ends and takes along what it started, so that nothing of it disturbs what is measured next.

    Replies go to a private copy of standard output and questions come from a private copy of standard input; the
    public ones are pointed elsewhere first, so that nothing a kernel's module prints can be taken for a reply.
    """
    isolate_this_process()
    sys.path[:] = [entry for entry in sys.path if entry not in ("", os.getcwd())]  # Python 3.10 knows no safe path
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    questions: Queue[bytes] = Queue()
    Thread(target=_listen, args=(os.dup(sys.stdin.fileno()), questions), daemon=True).start()
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    handlers = load()
    while True:
        question = QUESTION.validate_json(questions.get())
        try:
            _reply(replies, "answer", handlers[question.kind](question))
        except WorkerError as error:
            _reply(replies, "failure", error.failure)
        except (
            BaseException
        ) as error:  # the worker's edge: whatever the user's code raised, SystemExit too, is a status
            traceback.print_exc()
            _reply(replies, "failure", classify(error))


def _listen(descriptor: int, questions: Queue[bytes]) -> None:
    """Passes questions on until nobody can ask any more; then ends the process with all that it started."""
    with os.fdopen(descriptor, "rb") as stream:
        for line in stream:
            questions.put(line)
    kill(started_by(os.getpid()))
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _reply(replies: TextIO, key: str, content: Contract) -> None:
    retired = ', "retired": true' if _retired else ""
    replies.write(f'{{"{key}": {content.model_dump_json()}{retired}}}\n')
    replies.flush()
