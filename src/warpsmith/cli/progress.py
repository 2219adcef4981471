"""Follows a stage: what it tells becomes a moment of the run, on a screen and in the workspace's progress file."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone

from warpsmith.cli.pace import INSTANT_ITEM_S, INSTANT_VARIANT_S, Pace
from warpsmith.cli.screen import Live, Moment, Plain, Quiet, Screen
from warpsmith.contracts.progress import RunProgress
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.progress import ProgressFile


def utc_now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass
class Follower:
    """The `Progress` that a stage tells. `clock` counts seconds from `began_s`, `today` gives the time of day in UTC.

    Another thread may look at any time: what it sees is replaced whole.
    """

    screen: Screen
    file: ProgressFile
    told: RunProgress
    clock: Callable[[], float] = time.monotonic
    today: Callable[[], datetime] = utc_now
    began_s: float = field(init=False)
    _items: Pace = field(init=False)
    _variants: Pace = field(init=False)
    _stepped: bool = False

    def __post_init__(self) -> None:
        self.began_s = self.clock()
        self._items, self._variants = Pace(INSTANT_ITEM_S), Pace(INSTANT_VARIANT_S)

    def step(self, text: str, number: int | None = None, *, of: int | None = None, at_most: int | None = None) -> None:
        self._stepped, self._items = True, Pace(INSTANT_ITEM_S)
        if number is not None and at_most is not None:
            self._variants = self._variants.reached(number - 1, at_most, self.clock())
        nothing_yet = {"trying": None, "done": None, "total": None}
        self._tell({"step": _one_line(text), "number": number, "of": of, "at_most": at_most, **nothing_yet})
        moment = self.look()
        self.screen.step(moment)
        self.file.write(moment.progress, at_once=True)

    def note(self, text: str, done: int | None = None, total: int | None = None) -> None:
        self._tell({"trying": _one_line(text), "done": done, "total": total})
        if done is None or total is None:
            moment = self.look()
            self.screen.event(moment)
        else:
            self._items = self._items.reached(done, total, self.clock())
            moment = self.look()
            self.screen.counted(moment)
        self.file.write(moment.progress)

    def best(self, text: str) -> None:
        self._tell({"best": _one_line(text)})
        moment = self.look()
        self.screen.best(moment)
        self.file.write(moment.progress)

    def look(self) -> Moment:
        """The run as it is now, with what is left of it."""
        at_s, told = self.clock(), self.told
        left = {
            "left_s": None if told.total is None else self._items.about_left_s(at_s),
            "search_left_s": None if told.at_most is None else self._variants.at_most_left_s(at_s),
        }
        return Moment(told.model_copy(update=left), at_s - self.began_s)

    def end(self, *, whole: bool) -> None:
        """Takes the file away where the stage came to its end; else it says where that was cut off."""
        if whole:
            self.file.remove()
        elif self._stepped:
            self.file.write(self.look().progress, at_once=True)

    def _tell(self, news: dict[str, object]) -> None:
        at = self.today().isoformat(timespec="seconds")
        self.told = self.told.model_copy(update={**news, "updated_at": at})


@contextmanager
def shown(workspace: Workspace, run_id: str, stage: str, *, quiet: bool) -> Iterator[Follower]:
    """A follower of one stage, on the screen that fits standard error. Take it only while holding the run's lock."""
    at = utc_now().isoformat(timespec="seconds")
    told = RunProgress(run_id=run_id, pid=os.getpid(), stage=stage, started_at=at, updated_at=at, step="starting")
    follower = Follower(_screen(quiet=quiet), ProgressFile(workspace, time.monotonic), told)
    whole = False
    try:
        with follower.screen.on(follower.look):
            yield follower
        whole = True
    finally:
        follower.end(whole=whole)


def _screen(*, quiet: bool) -> Screen:
    if quiet:
        return Quiet()
    if not sys.stderr.isatty():
        return Plain()
    from rich.console import Console

    console = Console(stderr=True)
    return Plain() if console.is_dumb_terminal else Live(console)


def _one_line(text: str) -> str:
    """The first line, without what would move a terminal's cursor."""
    first = next(iter(text.splitlines()), "")
    return "".join(character if character.isprintable() else " " for character in first)
