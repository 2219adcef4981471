"""Where progress is shown: a bar on a terminal, plain lines elsewhere, nowhere with --quiet. Always standard error.

Knows how a moment of a run looks, and nothing of how it came about.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Protocol

from warpsmith.cli.pace import duration, roughly
from warpsmith.contracts.progress import RunProgress

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

#: Chosen: a log that is read, not watched, needs a sign of life and not every item.
LINE_EVERY_S = 5.0
REFRESH_PER_SECOND = 4


@dataclass(frozen=True)
class Moment:
    """A run at one moment, `elapsed_s` after the command took up the stage."""

    progress: RunProgress
    elapsed_s: float


class Screen(Protocol):
    """`on` shows whatever `look` returns until it ends; the others tell what has just happened."""

    @contextmanager
    def on(self, look: Callable[[], Moment]) -> Iterator[None]: ...

    def step(self, moment: Moment) -> None: ...

    def event(self, moment: Moment) -> None: ...

    def counted(self, moment: Moment) -> None: ...

    def best(self, moment: Moment) -> None: ...


class Quiet:
    """Says nothing."""

    @contextmanager
    def on(self, look: Callable[[], Moment]) -> Iterator[None]:
        yield

    def step(self, moment: Moment) -> None: ...

    def event(self, moment: Moment) -> None: ...

    def counted(self, moment: Moment) -> None: ...

    def best(self, moment: Moment) -> None: ...


class Plain:
    """One line an event, with the seconds since the start. Counted items have a line now and then."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr
        self._counted_s: float | None = None

    @contextmanager
    def on(self, look: Callable[[], Moment]) -> Iterator[None]:
        yield

    def step(self, moment: Moment) -> None:
        left = search_left(moment.progress)
        self._say(moment, f"== {step_line(moment.progress)}" + (f", {left}" if left else ""))

    def event(self, moment: Moment) -> None:
        self._say(moment, f"   {moment.progress.trying}")

    def counted(self, moment: Moment) -> None:
        if self._counted_s is not None and moment.elapsed_s - self._counted_s < LINE_EVERY_S:
            return
        self._counted_s = moment.elapsed_s
        self._say(moment, f"   {trying_line(moment.progress)}")

    def best(self, moment: Moment) -> None:
        self._say(moment, f"   best so far: {moment.progress.best}")

    def _say(self, moment: Moment, text: str) -> None:
        with suppress(OSError):  # whoever read this went away; the run goes on
            print(f"[{moment.elapsed_s:6.1f} s] {text}", file=self._stream, flush=True)


class Live:
    """Four lines that are kept up to date; above them stays what has happened."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._look: Callable[[], Moment] | None = None

    @contextmanager
    def on(self, look: Callable[[], Moment]) -> Iterator[None]:
        from rich.live import Live as RichLive

        self._look = look
        with RichLive(
            self,
            console=self._console,
            refresh_per_second=REFRESH_PER_SECOND,
            transient=True,
            redirect_stdout=False,  # results are no progress
        ):
            yield

    def step(self, moment: Moment) -> None:
        self._say(step_line(moment.progress), "bold")

    def event(self, moment: Moment) -> None:
        self._say(f"  {moment.progress.trying}", "dim")

    def counted(self, moment: Moment) -> None: ...

    def best(self, moment: Moment) -> None:
        self._say(f"  best so far: {moment.progress.best}", "green")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.spinner import Spinner

        assert self._look is not None
        moment = self._look()
        progress = moment.progress
        spinner = Spinner("line" if options.ascii_only else "dots").render(console.get_time())
        yield _line(f"{spinner} {progress.stage}: {step_line(progress)}", "bold")
        counts = "" if progress.total is None else f"{_bar(progress, options)} {progress.done}/{progress.total}, "
        left = " · ".join(text for text in (left_here(progress), search_left(progress)) if text)
        yield _line(f"  {counts}{duration(moment.elapsed_s)}" + (f", {left}" if left else ""))
        if progress.best is not None:
            yield _line(f"  best so far: {progress.best}", "green")
        if progress.total is not None:  # else it stands above, as what happened last
            yield _line(f"  {progress.trying}", "dim")

    def _say(self, text: str, style: str) -> None:
        from rich.text import Text

        self._console.print(Text(text, style=style), soft_wrap=True)  # reasons are told whole


def step_line(progress: RunProgress) -> str:
    """The step, and which of how many."""
    if progress.number is None or (progress.of is None and progress.at_most is None):
        return progress.step
    most = f"at most {progress.at_most}" if progress.of is None else str(progress.of)
    return f"{progress.step} ({progress.number} of {most})"


def trying_line(progress: RunProgress) -> str:
    """What is done now, which of how many, and what that leaves."""
    if progress.total is None or progress.done is None:
        return progress.trying or ""
    left = left_here(progress)
    told = f"{min(progress.done + 1, progress.total)} of {progress.total}" + (f", {left}" if left else "")
    return f"{progress.trying} ({told})"


def left_here(progress: RunProgress) -> str:
    """An empty text where nothing can be told, or the estimate has run out."""
    left_s = progress.left_s or 0.0
    return f"about {roughly(left_s)} left here" if left_s >= 1 else ""


def search_left(progress: RunProgress) -> str:
    """An empty text where nothing can be told, or the estimate has run out."""
    left_s = progress.search_left_s or 0.0
    return f"at most about {roughly(left_s)} for the search" if left_s >= 1 else ""


def _line(text: str, style: str = "") -> Text:
    """One line, cut where the terminal ends."""
    from rich.text import Text

    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _bar(progress: RunProgress, options: ConsoleOptions) -> str:
    done, total = progress.done or 0, progress.total or 1
    cells = max(8, min(30, options.max_width // 4))
    full = min(cells, cells * done // total)
    return "#" * full + "-" * (cells - full) if options.ascii_only else "━" * full + "┄" * (cells - full)
