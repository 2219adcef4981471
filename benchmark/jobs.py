"""Jobs that a benchmark works through on a GPU in the time there is, and the command line that asks for them.

What is kept already is not made again, and nothing is begun that might not end in time, so that the same command goes
on from there, on another machine too. Must not know what is measured.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from warpsmith.contracts.errors import WarpsmithError
from warpsmith.measure.worker.protocol import WorkerError

ROOT = Path(__file__).resolve().parents[1]

#: What jobs are done in: a scratch project.
Project = TypeVar("Project")


class OutOfTime(Exception):
    """What comes next might not end in time. The job goes on from here when it is begun again."""


@dataclass
class Pace:
    """The time there is, in seconds from now on, and what was done in it. `within_s` None is all the time of the world.

    Nothing is to be begun with less time left than the longest took: `first_s` is what the first may take. With less
    than `least_s` left nothing is begun in any case.
    """

    within_s: float | None
    first_s: float
    least_s: float = 0.0
    clock: Callable[[], float] = time.monotonic
    _longest_s: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._began_s = self.clock()

    def took(self, elapsed_s: float) -> None:
        self._longest_s = max(elapsed_s, self._longest_s or 0.0)

    def allows_more(self) -> bool:
        if self.within_s is None:
            return True
        left_s = self._began_s + self.within_s - self.clock()
        return left_s >= max(self.least_s, self.first_s if self._longest_s is None else self._longest_s)


@dataclass(frozen=True)
class Job(Generic[Project]):
    """`kept` is the file that is there once the job is done, which `make` writes.

    One that `goes_on` stops in the middle, with OutOfTime, and need not fit into the time that is left.
    """

    name: str
    kernel: str
    kept: Path
    make: Callable[[Project], None]
    goes_on: bool = False


def missing(jobs: Sequence[Job[Project]]) -> list[Job[Project]]:
    return [job for job in jobs if not job.kept.is_file()]


def kernels_of(jobs: Sequence[Job[Project]]) -> list[str]:
    """Each once, in order."""
    return list(dict.fromkeys(job.kernel for job in jobs))


def work_through(jobs: Sequence[Job[Project]], project: Project, pace: Pace) -> bool:
    """Does what is missing. False where one fails, which stops no other."""
    left, whole = missing(jobs), True
    for place, job in enumerate(left):
        if not pace.allows_more():
            say(f"not begun for want of time: {', '.join(each.name for each in left[place:])}")
            break
        began_s = pace.clock()
        try:
            job.make(project)
        except OutOfTime as stopped:
            say(f"{job.name}: {stopped}")
            continue
        except (WarpsmithError, WorkerError) as error:
            say_failed(f"{job.name}: {error}", error)
            whole = False
            continue
        elapsed_s = pace.clock() - began_s
        if not job.goes_on:
            pace.took(elapsed_s)
        say(f"{job.name}: {elapsed_s:.0f} s")
    return whole


def watched(tell: Callable[[str], None], pace: Pace) -> Callable[[str], None]:
    """`tell`, which hears of every step, and raises OutOfTime where the next one might not end in time."""
    last_s = pace.clock()

    def told(text: str) -> None:
        nonlocal last_s
        now_s = pace.clock()
        pace.took(now_s - last_s)
        last_s = now_s
        if not pace.allows_more():
            raise OutOfTime("stopped for want of time; what was measured is kept, and the same command goes on")
        tell(text)

    return told


def teller(name: str) -> Callable[[str], None]:
    """Tells what a job is at, with the seconds since."""
    began_s = time.monotonic()
    return lambda text: say(f"[{time.monotonic() - began_s:6.1f} s] {name}: {text}")


@dataclass
class Telling:
    """The progress of a session, a line at a time."""

    tell: Callable[[str], None]

    def step(self, text: str, number: int | None = None, *, of: int | None = None, at_most: int | None = None) -> None:
        self.tell(text)

    def note(self, text: str, done: int | None = None, total: int | None = None) -> None:
        self.tell(text if total is None else f"{text} ({done} of {total})")

    def best(self, text: str) -> None:
        self.tell(text)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def say_failed(told: str, error: Exception) -> None:
    say(told)
    if (command := getattr(error, "next_command", None)) is not None:
        say(f"  next: {command}")


def summarized(write: Callable[[], bool], what: str, directory: Path, script: str) -> int:
    """The exit status of a summary. `write` is False where nothing was measured, and raises where it cannot be told."""
    try:
        if write():
            return 0
    except WarpsmithError as error:
        say_failed(str(error), error)
        return 1
    say(f"nothing is {what} in {directory}")
    say(f"  next, on a GPU: python benchmark/{script} measure --into {directory}")
    return 1


@dataclass(frozen=True)
class Asked:
    """A command line. `kernels` are all, where none were named."""

    step: str
    kernels: tuple[str, ...]
    into: Path
    within_s: float | None


def asked(
    description: str | None, kernels: Sequence[str], data: Path, *, measuring: Sequence[str], others: Sequence[str]
) -> Asked:
    """What sys.argv asks for. `others` are the steps about all that is kept, which take neither kernel nor time."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=[*measuring, *others])
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"of {', '.join(kernels)}; all, if none is given")
    default = data.relative_to(ROOT)
    parser.add_argument("--into", type=Path, default=data, metavar="DIRECTORY", help=f"default: {default}")
    parser.add_argument("--within", type=float, metavar="SECONDS", help="begin nothing that might not end by then")
    options = parser.parse_args()
    if unknown := set(options.kernels) - set(kernels):
        parser.error(f"no kernel {', '.join(sorted(unknown))}; there are {', '.join(kernels)}")
    if options.step in others and (options.kernels or options.within is not None):
        parser.error(f"{options.step} takes neither a kernel nor a time: it is about all that is kept")
    return Asked(options.step, tuple(options.kernels or kernels), options.into, options.within)
