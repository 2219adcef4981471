"""What a person sees of long work: a live line on a terminal, plain lines elsewhere, nothing with --quiet.

All of it goes to standard error; standard output is for results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


class Quiet:
    """Says nothing."""

    def step(self, text: str, done: int | None = None, total: int | None = None) -> None: ...

    def note(self, text: str) -> None: ...

    def best(self, text: str) -> None: ...


class Plain:
    """One line an event, with the seconds since the start, for logs and agents."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def step(self, text: str, done: int | None = None, total: int | None = None) -> None:
        counted = f" ({done} of at most {total})" if done is not None and total is not None else ""
        self._say(f"== {text}{counted}")

    def note(self, text: str) -> None:
        self._say(f"   {text}")

    def best(self, text: str) -> None:
        self._say(f"   best so far: {text}")

    def _say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._started:6.1f} s] {text}", file=sys.stderr, flush=True)


class Live:
    """A bar with the step, what is being tried and the best so far."""

    def __init__(self, bar: RichProgress, task: TaskID) -> None:
        self._bar, self._task = bar, task

    def step(self, text: str, done: int | None = None, total: int | None = None) -> None:
        self._bar.console.print(f"[bold]{_escaped(text)}[/bold]")
        self._bar.update(self._task, description=_escaped(text), completed=(done or 1) - 1, total=total, trying="")

    def note(self, text: str) -> None:
        self._bar.update(self._task, trying=_escaped(text.splitlines()[0][:100]) if text else "")

    def best(self, text: str) -> None:
        self._bar.update(self._task, best=f"best {_escaped(text)}")


@contextmanager
def shown(*, quiet: bool) -> Iterator[Quiet | Plain | Live]:
    """The progress display that fits standard error."""
    if quiet:
        yield Quiet()
    elif not sys.stderr.isatty():
        yield Plain()
    else:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TimeElapsedColumn(),
            TextColumn("[green]{task.fields[best]}[/green]"),
            TextColumn("[dim]{task.fields[trying]}[/dim]"),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            yield Live(bar, bar.add_task("starting", total=None, best="", trying=""))


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")
