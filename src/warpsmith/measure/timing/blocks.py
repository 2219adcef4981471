"""Runs contenders in interleaved blocks, after a pilot has settled how many rounds there are.

Owns order, counts and the clock. Must not know how a run is timed, nor what it computes.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from warpsmith.contracts.measurement import Block, TimingPlan
from warpsmith.device.clocks import ClockReader
from warpsmith.measure.timing.runners import LEAST_MS, Runner
from warpsmith.measure.worker.failures import WrongResult
from warpsmith.verdict.statistics import rounds_needed

#: Chosen: enough rounds for a first idea of their scatter; they are put aside.
PILOT_ROUNDS = 6
#: Chosen: an idle H200 takes some milliseconds of work to reach its clock.
SETTLE_MS = 10.0
#: Chosen: while inputs and graphs are made the GPU is idle; so much work goes before the blocks of a placement.
WAKE_MS = 3.0
#: Chosen: a profile of more calls takes longer to read than it tells.
MOST_SAMPLES = 32
#: Chosen: readings of the SM clock that differ by less than this share are the same clock.
SETTLED_WITHIN = 0.01
#: Chosen: a clock that has not settled after this many stretches of SETTLE_MS is throttled, and will not.
MOST_STRETCHES = 10

#: Everyone's runner in the placement of that number.
Placements = Callable[[int], Mapping[str, Runner]]


class Failed(Exception):
    """A contender that had run before failed in a block, or took no time in it; the error is the cause."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True)
class Blocks:
    """`measured` are the blocks that count; `pilot` settled how many. `capped`: the time cap allowed no more."""

    pilot: tuple[Block, ...]
    measured: tuple[Block, ...]
    calls: int
    capped: bool


@dataclass
class BlockRunner:
    """`judged` names whose scatter settles the number of rounds: the first is what the others are compared with."""

    placements: Placements
    plan: TimingPlan
    seed: int
    clock: ClockReader
    judged: Sequence[str]
    _made: int = field(default=0, init=False)
    _counts: dict[str, int] = field(default_factory=dict, init=False)
    _runners: Mapping[str, Runner] = field(default_factory=dict, init=False)

    def run(self) -> Blocks:
        """Pilot and measurement. Raises what the placements raise, and Failed."""
        self._order = random.Random(self.seed)
        self._runners = self.placements(0)
        self._made = 1
        if not self._runners:
            return Blocks((), (), 1, capped=False)
        self._settle()
        self._counts = {name: self._count(name) for name in self._runners}
        begun_s = time.monotonic()
        open_ended = self.plan.most_rounds > self.plan.rounds
        pilot = self._rounds(PILOT_ROUNDS if open_ended else 0, fresh=True)
        rounds, capped = self.plan.rounds, False
        if open_ended:
            round_s = (time.monotonic() - begun_s) / PILOT_ROUNDS
            affordable = max(1, int((self.plan.cap_s - PILOT_ROUNDS * round_s) / max(round_s, 1e-6)))
            needed = rounds_needed(pilot, self.judged, self.plan.half_width)
            rounds = max(self.plan.rounds, min(needed, self.plan.most_rounds))
            capped, rounds = rounds > affordable, min(rounds, affordable)
        measured = self._rounds(rounds, fresh=open_ended)
        calls = max((runner.calls for runner in self._runners.values()), default=1)
        return Blocks(pilot, measured, calls, capped)

    @property
    def runners(self) -> Mapping[str, Runner]:
        """Those of the last placement."""
        return self._runners

    def _rounds(self, count: int, *, fresh: bool) -> tuple[Block, ...]:
        """`count` rounds of one block a contender in random order; with `fresh` not on what is there already."""
        blocks: list[Block] = []
        for number in range(count):
            if number % self.plan.rounds_a_placement == 0 and (fresh or number > 0):
                self._runners = {}  # gives its memory back before the next is made
                self._runners = self.placements(self._made)
                self._made += 1
                self._work(WAKE_MS)
            names = sorted(self._runners)
            self._order.shuffle(names)
            blocks += [self._block(name, number) for name in names]
        return tuple(blocks)

    def _block(self, name: str, number: int) -> Block:
        runs_ms, calls = self._run_ms(name, self._counts.get(name, 1)), self._runners[name].calls
        samples = tuple(round(ms / calls, 7) for ms in runs_ms)
        if min(samples) <= 0:
            raise Failed(name) from WrongResult("a run took no time")
        mhz, reasons = self.clock.read()
        return Block(contender=name, round=number, samples_ms=samples, sm_clock_mhz=mhz, throttle_reasons=reasons)

    def _run_ms(self, name: str, count: int) -> list[float]:
        with _failing_as(name):
            return self._runners[name].run_ms(count)

    def _count(self, name: str) -> int:
        wanted = round(self.plan.block_ms / max(min(self._run_ms(name, 3)), LEAST_MS))
        return max(1, min(MOST_SAMPLES, wanted))

    def _work(self, milliseconds: float) -> None:
        """Keeps the device busy so long, with everyone in turn."""
        names, until_s = itertools.cycle(sorted(self._runners)), time.monotonic() + milliseconds / 1000
        while self._runners and time.monotonic() < until_s:
            with _failing_as(name := next(names)):
                self._runners[name].work()

    def _settle(self) -> None:
        """Works until two readings of the SM clock agree."""
        readings: list[int | None] = []
        while len(readings) < MOST_STRETCHES and not has_settled(readings):
            self._work(SETTLE_MS)
            readings.append(self.clock.read()[0])


@contextlib.contextmanager
def _failing_as(name: str) -> Iterator[None]:
    """Raises Failed for whatever a contender's code fails by."""
    try:
        yield
    except Exception as error:
        raise Failed(name) from error


def has_settled(readings_mhz: Sequence[int | None]) -> bool:
    """Whether the last two readings agree. A clock that cannot be read is not waited for."""
    if readings_mhz and readings_mhz[-1] is None:
        return True
    if len(readings_mhz) < 2:
        return False
    before, now = readings_mhz[-2:]
    return before is not None and now is not None and abs(now - before) <= SETTLED_WITHIN * before
