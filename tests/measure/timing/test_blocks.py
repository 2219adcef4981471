from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from warpsmith.contracts.measurement import Block, TimingPlan
from warpsmith.measure.timing import blocks
from warpsmith.measure.timing.blocks import MOST_STRETCHES, PILOT_ROUNDS, BlockRunner, Blocks, Failed, has_settled
from warpsmith.measure.timing.runners import Runner
from warpsmith.verdict.statistics import rounds_needed


class Device:
    """A device whose time passes only while something is run, and that keeps who was placed and run."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.placed: list[int] = []
        self.ran: list[tuple[str, int]] = []
        #: SM clock and throttle reasons, the last of them for good
        self.clock: list[tuple[int | None, tuple[str, ...]]] = [(None, ())]

    def read(self) -> tuple[int | None, tuple[str, ...]]:
        return self.clock.pop(0) if len(self.clock) > 1 else self.clock[0]

    def monotonic(self) -> float:
        return self.now_s


class Scripted:
    """Takes `ms` a run, which the host notices even where it is next to nothing."""

    def __init__(self, device: Device, name: str, ms: float, calls: int) -> None:
        self.device, self.name, self.ms, self.calls = device, name, ms, calls

    def run_ms(self, count: int) -> list[float]:
        self.device.ran.append((self.name, count))
        self.device.now_s += (self.ms if self.ms > 1e-3 else 0.1) * count / 1000
        return [self.ms] * count

    def work(self) -> None:
        self.run_ms(1)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    found = Device()
    monkeypatch.setattr(blocks, "time", SimpleNamespace(monotonic=found.monotonic))
    return found


class Placements:
    """`times_ms` by name; `scatter` has each placement's times of all but the first name multiplied by one of it."""

    def __init__(self, device: Device, calls: int = 1, scatter: Sequence[float] = (1.0,), **times_ms: float) -> None:
        self.device, self.calls, self.scatter, self.times_ms = device, calls, scatter, times_ms
        self.made: weakref.WeakSet[Any] = weakref.WeakSet()
        self.left_over = 0

    def __call__(self, number: int) -> Mapping[str, Runner]:
        self.left_over += len(self.made)
        self.device.placed.append(number)
        found: dict[str, Runner] = {}
        for index, (name, ms) in enumerate(self.times_ms.items()):
            by = self.scatter[number % len(self.scatter)] if index else 1.0
            found[name] = runner = Scripted(self.device, name, ms * by, self.calls)
            self.made.add(runner)
        return found


def run(placements: Any, *, rounds: int = 3, seed: int = 0, judged: Sequence[str] = ("a", "b"), **plan: Any) -> Blocks:
    made = TimingPlan(**{"rounds": rounds, "most_rounds": rounds, "block_ms": 2.0, **plan})
    clock: Any = placements.device
    return BlockRunner(placements, made, seed, clock, judged).run()


def rounds_of(found: Sequence[Block]) -> int:
    return len({block.round for block in found})


def names_of(found: Sequence[Block]) -> list[str]:
    return [block.contender for block in found]


def test_every_round_has_one_block_of_everyone_and_no_one_always_goes_first(device: Device) -> None:
    measured = run(Placements(device, b=2.0, a=1.0, c=1.0), rounds=60).measured
    assert [block.round for block in measured] == [number for number in range(60) for _ in range(3)]
    rounds = [names_of(measured[at : at + 3]) for at in range(0, 180, 3)]
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds)
    assert min(Counter(each[0] for each in rounds).values()) > 10


def test_order_depends_on_the_seed_and_not_on_who_was_named_first(device: Device) -> None:
    orders = [
        names_of(run(Placements(device, **dict.fromkeys(names, 1.0)), rounds=10, seed=seed).measured)
        for names, seed in (("abc", 5), ("cba", 5), ("abc", 6))
    ]
    assert orders[0] == orders[1] != orders[2]


def test_a_sample_is_a_run_by_its_calls(device: Device) -> None:
    found = run(Placements(device, calls=4, a=0.5), rounds=1)
    assert (found.calls, found.capped) == (4, False)
    assert found.measured == (Block(contender="a", round=0, samples_ms=(0.125,) * 4),)


@pytest.mark.parametrize(("run_ms", "samples"), [(0.2, 10), (5.0, 1), (0.3, 7), (0.05, 32), (1e-6, 32)])
def test_runs_fill_a_block_and_are_one_at_least_and_no_more_than_can_be_read(
    device: Device, run_ms: float, samples: int
) -> None:
    (block,) = run(Placements(device, a=run_ms), rounds=1).measured
    assert len(block.samples_ms) == samples


def test_the_number_of_samples_stays_that_of_the_first_placement(device: Device) -> None:
    found = run(Placements(device, a=1.0, b=0.5, scatter=(1.0, 2.0, 3.0)), rounds=3).measured
    assert [(len(block.samples_ms), block.samples_ms[0]) for block in found if block.contender == "b"] == [
        (4, 0.5),
        (4, 1.0),
        (4, 1.5),
    ]


def test_as_many_rounds_as_were_asked_for_need_no_pilot(device: Device) -> None:
    found = run(Placements(device, a=1.0, b=1.0, scatter=(0.5, 2.0)), rounds=4, cap_s=1e-6)
    assert (found.pilot, rounds_of(found.measured), found.capped) == ((), 4, False)
    assert device.placed == [0, 1, 2, 3]


NOISY = (1.0, 1.01, 0.99, 1.02)


@pytest.mark.parametrize(
    ("scatter", "rounds", "most", "expected"),
    [
        ((1.0,), 3, 100, 3),  # the least that was asked for
        (NOISY, 3, 1000, None),  # what the pilot needs
        (NOISY, 3, 10, 10),  # no more than allowed
    ],
)
def test_a_pilot_settles_how_many_rounds_there_are_and_is_put_aside(
    device: Device, scatter: Sequence[float], rounds: int, most: int, expected: int | None
) -> None:
    placements = Placements(device, a=1.0, b=1.0, scatter=scatter)
    found = run(placements, rounds=rounds, most_rounds=most, half_width=0.005, cap_s=3600.0)
    assert rounds_of(found.pilot) == PILOT_ROUNDS
    needed = rounds_needed(found.pilot, ("a", "b"), 0.005)
    if expected is None:
        assert rounds < needed < most
    assert (rounds_of(found.measured), found.capped) == (expected or needed, False)
    assert device.placed == list(range(1 + PILOT_ROUNDS + (expected or needed)))


def test_only_the_scatter_of_those_that_are_judged_counts(device: Device) -> None:
    placements = Placements(device, a=1.0, baseline=1.0, scatter=NOISY)
    found = run(placements, rounds=3, most_rounds=1000, cap_s=3600.0, judged=("a",))
    assert rounds_of(found.measured) == 3


@pytest.mark.parametrize(
    ("cap_s", "rounds", "capped"),
    [
        (3600.0, 20, False),
        (26 * 0.007, 20, False),  # a round of two blocks of 2 ms and 3 ms before them, and the pilot has six of them
        (16 * 0.007, 10, True),
        (8 * 0.007, 2, True),  # below the least that was asked for
        (1e-3, 1, True),
    ],
)
def test_the_time_cap_counts_the_pilot_and_is_told_where_it_kept_rounds_away(
    device: Device, monkeypatch: pytest.MonkeyPatch, cap_s: float, rounds: int, capped: bool
) -> None:
    monkeypatch.setattr(blocks, "WAKE_MS", 2.5)  # three runs, whatever the scatter, of 3 ms on average
    placements = Placements(device, a=1.0, b=1.0, scatter=(1.0, 1.25, 0.75))
    found = run(placements, rounds=3, most_rounds=20, cap_s=min(3600.0, cap_s + 1e-6), block_ms=2.0)
    assert (rounds_of(found.measured), found.capped) == (rounds, capped)


@pytest.mark.parametrize(
    ("rounds", "most", "a_placement", "placed"),
    [(7, 7, 3, 3), (7, 7, 7, 1), (6, 6, 3, 2), (3, 100, 3, 1 + 2 + 1), (4, 100, 1, 1 + 6 + 4)],
)
def test_placements_are_made_anew_as_often_as_asked_and_the_pilots_are_not_used_again(
    device: Device, rounds: int, most: int, a_placement: int, placed: int
) -> None:
    placements = Placements(device, a=1.0, b=1.0)
    found = run(placements, rounds=rounds, most_rounds=most, rounds_a_placement=a_placement)
    assert device.placed == list(range(placed))
    assert rounds_of(found.measured) == rounds


def test_a_placement_gives_its_memory_back_before_the_next_is_made(device: Device) -> None:
    placements = Placements(device, a=1.0, b=1.0)
    run(placements, rounds=3, most_rounds=20, cap_s=3600.0)
    assert (len(device.placed) > 3, placements.left_over) == (True, 0)


def test_one_that_drops_out_has_no_more_blocks_and_the_rest_go_on(device: Device) -> None:
    everyone = Placements(device, a=1.0, b=1.0)

    def placements(number: int) -> Mapping[str, Runner]:
        found = everyone(number)
        return found if number < 2 else {"a": found["a"]}

    clock: Any = device
    plan = TimingPlan(rounds=4, most_rounds=4)
    measured = BlockRunner(placements, plan, 0, clock, ("a", "b")).run().measured
    assert Counter(names_of(measured)) == {"a": 4, "b": 2}


def test_nobody_to_run_is_no_blocks(device: Device) -> None:
    assert run(Placements(device), most_rounds=20) == Blocks((), (), 1, capped=False)


@pytest.mark.parametrize(
    ("readings", "settled"),
    [
        ([], False),
        ([1980], False),
        ([345, 1980], False),
        ([345, 1980, 1965], True),
        ([1980, 1961], True),
        ([1980, 1959], False),
        ([1980, 1755], False),
        ([None], True),
        ([1980, None], True),
    ],
)
def test_a_clock_has_settled_once_two_readings_agree(readings: list[int | None], settled: bool) -> None:
    assert has_settled(readings) is settled


def test_the_clock_settles_first_and_is_then_kept_with_each_block(device: Device) -> None:
    device.clock = [(345, ()), (1200, ()), (1980, ()), (1970, ()), (1500, ("software power cap",)), (None, ())]
    measured = run(Placements(device, a=0.7), rounds=2).measured
    assert [(block.sm_clock_mhz, block.throttle_reasons) for block in measured] == [
        (1500, ("software power cap",)),
        (None, ()),
    ]
    stretch, wake = math.ceil(10.0 / 0.7), math.ceil(3.0 / 0.7)
    assert device.ran == [*[("a", 1)] * 4 * stretch, ("a", 3), ("a", 3), *[("a", 1)] * wake, ("a", 3)]


def test_the_clock_settles_under_everyones_work_in_turn(device: Device) -> None:
    run(Placements(device, b=4.0, a=2.0, c=3.0), rounds=1)
    assert device.ran[:4] == [("a", 1), ("b", 1), ("c", 1), ("a", 1)]  # 11 ms


@pytest.mark.parametrize("most", [4, 20])
def test_every_new_placement_has_the_device_woken_by_everyone_in_turn_and_none_of_that_is_a_sample(
    device: Device, most: int
) -> None:
    everyone = Placements(device, b=0.7, a=0.7, c=0.7)

    def placements(number: int) -> Mapping[str, Runner]:
        device.ran.append(("placed", number))
        return everyone(number)

    clock: Any = device
    plan = TimingPlan(rounds=4, most_rounds=most, rounds_a_placement=2, block_ms=2.0, cap_s=3600.0)
    found = BlockRunner(placements, plan, 0, clock, ("a", "b")).run()
    later = device.ran[device.ran.index(("placed", 1)) :]
    stretches = [later[at : at + 12] for at in range(0, len(later), 12)]
    for number, (placed, *ran) in enumerate(stretches, start=1):
        assert placed == ("placed", number)
        assert ran[:5] == [("a", 1), ("b", 1), ("c", 1), ("a", 1), ("b", 1)]  # 3.5 ms
        assert sorted(ran[5:]) == [("a", 3), ("a", 3), ("b", 3), ("b", 3), ("c", 3), ("c", 3)]
    assert len(stretches) == (1 if most == 4 else 3 + 2)
    assert {block.samples_ms for block in (*found.pilot, *found.measured)} == {(0.7,) * 3}


def test_a_run_that_took_no_time_is_no_sample_but_a_wrong_result(device: Device) -> None:
    with pytest.raises(Failed) as failed:
        run(Placements(device, a=1.0, b=0.0))
    assert (failed.value.name, repr(failed.value.__cause__)) == ("b", "WrongResult('a run took no time')")


def test_one_that_fails_is_named_whichever_run_of_its_it_is_settling_and_counting_included(device: Device) -> None:
    def fails_at(turn: int) -> BlockRunner:
        class Failing(Scripted):
            left = turn

            def run_ms(self, count: int) -> list[float]:
                Failing.left -= 1
                if Failing.left == 0:
                    raise ValueError("no such shape")
                return super().run_ms(count)

        def placements(number: int) -> Mapping[str, Runner]:
            return {"a": Scripted(device, "a", 2.0, 1), "b": Failing(device, "b", 2.0, 1)}

        clock: Any = device
        return BlockRunner(placements, TimingPlan(rounds=2, most_rounds=2), 0, clock, ("a", "b"))

    runs = 2 + 1 + 1 + 1 + 1  # settling, counting, a block, waking, a block
    for turn in range(1, runs + 1):
        with pytest.raises(Failed) as failed:
            fails_at(turn).run()
        assert (failed.value.name, repr(failed.value.__cause__)) == ("b", "ValueError('no such shape')")
    fails_at(runs + 1).run()


def test_a_clock_that_does_not_settle_is_not_waited_for_for_ever(device: Device) -> None:
    device.clock = [(1000 + 500 * (turn % 2), ()) for turn in range(100)]
    run(Placements(device, a=10.0), rounds=1)
    assert device.ran == [*[("a", 1)] * MOST_STRETCHES, ("a", 3), ("a", 1)]
