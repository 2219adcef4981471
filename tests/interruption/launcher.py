"""Runs `warpsmith` commands in forks of one process that has everything imported, and interrupts each where it is told.

`python launcher.py [simulated]` reads one order a line and answers with one line. A fork is what a fresh process would
be after its imports: this process has one thread, and nothing of warpsmith has run in it. With `simulated`, a
simulated GPU answers, and what it is asked is written down where no kill can reach it. Without it, an order may name a
store of another run: what that run compiled is then not compiled again, and its plots are not drawn.
"""

from __future__ import annotations

import functools
import gc
import importlib
import io
import json
import mmap
import os
import struct
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import compiled_before

STAGES = Path(__file__).resolve().parents[1] / "stages"

#: What warpsmith loads only where it needs it.
LOADED_LATE = (
    "warpsmith.cli.edge",
    "warpsmith.cli.flow",
    "warpsmith.stages.profiler",
    "warpsmith.stages.optimizer",
    "warpsmith.stages.finalizer",
    "matplotlib.backends.backend_svg",
    "PIL.PngImagePlugin",
    "rich.progress",
    "rich.markdown",
)

#: What is done to files and processes (https://docs.python.org/3/library/audit_events.html), besides writing.
EVENTS = frozenset(
    {
        "open",
        "os.rename",
        "os.remove",
        "os.mkdir",
        "os.rmdir",
        "os.chmod",
        "os.truncate",
        "os.listdir",
        "os.scandir",
        "os.killpg",
        "fcntl.flock",
        "subprocess.Popen",
    }
)

#: Those of them that only look. To be killed between two looks is to be killed before the next change.
LOOKS = frozenset({"os.listdir", "os.scandir"})

#: Two widths tuned and one between them.
CASES = ("8192x4096-bf16", "8192x8192-bf16", "8192x2048-bf16")

#: All events, those that change something, and writes.
COUNTS = struct.Struct("qqq")

Play = Callable[[dict[str, Any]], None]


class Events:
    """Counts what the process does, each kind for itself and all together, and at one event sends itself a signal.

    `at` is the event's kind and number, from 1 on; kind "" counts all, "change" those that change something, and
    "write" are the middles of what is written. With `again` every event from there on brings another signal. The
    counts of all events, of changes and of writes survive the process in `told`.
    """

    def __init__(self, told: mmap.mmap, at: tuple[str, int], signal_number: int, again: bool) -> None:
        self.told, self.at, self.signal_number, self.again = told, at, signal_number, again
        self.counts: Counter[str] = Counter()
        self.reached = False

    def install(self) -> None:
        sys.addaudithook(self.audited)
        os.write = self.halved(os.write)  # type: ignore[assignment]
        os.fdopen = self.opened  # type: ignore[assignment]

    def audited(self, event: str, arguments: Any) -> None:
        if event in EVENTS:
            self.happen(event, changes=event not in LOOKS and (event != "open" or opened_to_change(*arguments)))

    def happen(self, event: str, before: Callable[[], object] | None = None, *, changes: bool = True) -> None:
        kinds = ("", event, "change") if changes else ("", event)
        self.counts.update(kinds)
        COUNTS.pack_into(self.told, 0, self.counts[""], self.counts["change"], self.counts["write"])
        kind, number = self.at
        if self.again if self.reached else kind in kinds and self.counts[kind] == number:
            self.reached = True
            if before is not None:
                before()
            os.kill(os.getpid(), self.signal_number)

    def halved(self, write: Callable[[int, bytes], int]) -> Callable[[int, bytes], int]:
        def counted(descriptor: int, data: bytes) -> int:
            done = 0

            def half() -> None:
                nonlocal done
                done = write(descriptor, data[: len(data) // 2])

            self.happen("write", half)
            return done + write(descriptor, data[done:])

        return counted

    def opened(self, descriptor: int, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        if mode != "wb":
            return open(descriptor, mode, *arguments, **named)
        counted = os.write

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                return counted(self.fileno(), bytes(data))

        return io.BufferedWriter(File(descriptor, "w"))


def opened_to_change(_path: Any, _mode: str | None, flags: int) -> bool:
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def simulate() -> Play:
    """Loads the simulated GPU, at few cases and with no plots: what is proven here does not depend on either.

    What is returned puts one into this process, by an order.
    """
    sys.path.insert(0, str(STAGES))
    import simulated_gpu

    from warpsmith.device.gpus import Gpu
    from warpsmith.stages import recording, reporting, session

    simulated_gpu.CASES = CASES
    simulated_gpu.real_target()
    device = simulated_gpu.DEVICE
    gpu = Gpu(0, device.uuid, device.name, device.capability, None)
    write = os.write

    def play(order: dict[str, Any]) -> None:
        def watch(question: Any) -> None:
            descriptor = os.open(order["asked"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            write(descriptor, f"{question.kind} {question.identity}\n".encode())
            os.close(descriptor)

        workers = simulated_gpu.SimulatedGpu(Path(order["folder"]), watch=watch)
        vars(session).update(choose=lambda *_: gpu, _live_workers=lambda *_: workers)
        vars(recording).update(choose=lambda *_: gpu)
        vars(reporting).update(save_plots=lambda *_: ())

    return play


def shorten(order: dict[str, Any]) -> None:
    """Where the order names a store, leaves out what takes long and writes no file and starts no process of its own.

    A worker process is started and asked all the same, and every plot is written, if only as a word.
    """
    if order["compiled_before"] is None:
        return
    from matplotlib.figure import Figure

    from warpsmith.stages import session

    os.environ[compiled_before.STORE] = order["compiled_before"]
    worker = functools.partial(session.ProcessWorker, module=compiled_before.__name__)
    vars(session).update(ProcessWorker=worker)
    Figure.savefig = lambda _, file, **options: file.write(b"drawn")  # type: ignore[assignment]


def run(order: dict[str, Any], told: mmap.mmap, play: Play) -> None:
    """One command, in a fork. Never returns."""
    code = 1
    try:
        os.chdir(order["folder"])
        os.environ.update(order["environment"], WARPSMITH_TEST_PID=str(os.getpid()))
        with open(order["output"], "wb") as output:
            for descriptor in (1, 2):
                os.dup2(output.fileno(), descriptor)
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        play(order)
        from warpsmith.cli import main

        sys.argv = ["warpsmith", *order["arguments"]]
        Events(told, tuple(order["at"]), order["signal"], order["again"]).install()
        if order["within_s"] is not None:
            timer = threading.Timer(order["within_s"], os.kill, (os.getpid(), order["signal"]))
            timer.daemon = True
            timer.start()
        main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve(play: Play) -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    told = mmap.mmap(-1, COUNTS.size)
    gc.collect()
    gc.freeze()  # what is imported need not be looked through in every fork
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        COUNTS.pack_into(told, 0, 0, 0, 0)
        pid = os.fork()
        if pid == 0:
            replies.close()
            run(order, told, play)
        _, status = os.waitpid(pid, 0)
        events, changes, writes = COUNTS.unpack_from(told)
        code = os.waitstatus_to_exitcode(status)
        reply = {"code": code, "events": events, "changes": changes, "writes": writes}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    for name in LOADED_LATE:
        importlib.import_module(name)
    serve(simulate() if "simulated" in sys.argv[1:] else shorten)
