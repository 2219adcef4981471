"""How long work takes that is counted: what is left of it, as far as that can be told. Pure; the time is handed in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean, median

#: Chosen: no item is measured in less, and no variant judged: what is done faster was on the disk, or could not be
#: applied, and says nothing of the rest.
INSTANT_ITEM_S, INSTANT_VARIANT_S = 0.1, 5.0
#: Chosen: two intervals are the least that can disagree; the last five follow cases that grow and pass over an outlier.
BASIS, RECENT = 2, 5


@dataclass(frozen=True)
class Pace:
    """`done` of `total` items since `since_s`, and the seconds each took where that was `instant_s` or more."""

    instant_s: float
    done: int = 0
    total: int | None = None
    since_s: float = 0.0
    each_s: tuple[float, ...] = ()

    def reached(self, done: int, total: int, at_s: float) -> Pace:
        """The pace with `done` items finished. Fewer than before, or another total, is other work, begun anew."""
        if total != self.total or done < self.done:
            return Pace(self.instant_s, done, total, at_s)
        if done == self.done:
            return self
        took_s = at_s - self.since_s
        each_s = self.each_s if took_s < self.instant_s else (*self.each_s, took_s / (done - self.done))
        return replace(self, done=done, since_s=at_s, each_s=each_s)

    def about_left_s(self, at_s: float) -> float | None:
        """By the median of the recent intervals. None before there are enough of them."""
        return self._left_s(median(self.each_s[-RECENT:]), at_s) if len(self.each_s) >= BASIS else None

    def at_most_left_s(self, at_s: float) -> float | None:
        """By the mean of all intervals, for work that may end before its total. None before the first."""
        return self._left_s(fmean(self.each_s), at_s) if self.each_s else None

    def _left_s(self, each_s: float, at_s: float) -> float:
        """The items after the one under way, and what that has left of its usual time."""
        assert self.total is not None
        under_way_s = max(0.0, each_s - (at_s - self.since_s)) if self.done < self.total else 0.0
        return under_way_s + each_s * max(0, self.total - self.done - 1)


def duration(seconds: float) -> str:
    """A time that has passed: "45 s", "3 min 10 s", "1 h 12 min"."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def roughly(seconds: float) -> str:
    """An estimate, no finer than it is: to the second below ten, to 5 s below a minute and a half, then the minute."""
    if seconds < 10:
        return f"{max(1, round(seconds))} s"
    if seconds < 90:
        return f"{5 * round(seconds / 5)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
