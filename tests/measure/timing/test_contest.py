from __future__ import annotations

import contextlib
import random
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from doubling import double, double_in, fails, remembers_in, rotations_of, side, target_of, waits_in
from torch import Tensor

from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import L2, TimingMethod
from warpsmith.contracts.target import Inputs, Target
from warpsmith.measure.timing import contest, runners
from warpsmith.measure.timing.code import LoadedCode
from warpsmith.measure.timing.contest import VAIN_CAPTURES, WARM_UP_CALLS, Contest, Impossible
from warpsmith.measure.worker.implementation import Implementation

GRAPH, PROFILER, EVENTS = TimingMethod


def contest_of(
    *sides: Implementation,
    target: Target | None = None,
    mode: Mode = Mode.FORWARD,
    l2: L2 = L2.COLD,
    seed: int = 0,
) -> Contest:
    return Contest(list(sides), rotations_of(target or target_of(), mode, l2), seed)


@pytest.mark.parametrize("mode", list(Mode))
def test_everyone_is_warmed_up_with_its_own_settings_on_inputs_that_were_restored(cuda: Any, mode: Mode) -> None:
    log: list[Any] = []

    def overwriting(name: str) -> Implementation:
        def call(inputs: Inputs) -> Tensor:
            log.append((name, float(inputs["x"].detach()[0])))
            y = double(inputs)
            inputs["x"].data.fill_(9.0)
            return y

        return side(name, call, lambda: log.append(name))

    made = contest_of(overwriting("a"), overwriting("b"), target=target_of(overwrites=("x",)), mode=mode)
    made.warm_up()
    assert made.last is not None
    first = float(made.last.pristine[0][0][1][0])
    assert log == ["a", *[("a", first)] * WARM_UP_CALLS, "b", *[("b", first)] * WARM_UP_CALLS]


@pytest.mark.parametrize("method", list(TimingMethod))
def test_one_that_fails_is_told_with_its_status_and_the_rest_go_on(cuda: Any, method: TimingMethod) -> None:
    made = contest_of(side("fails", fails), side("a", double))
    made.warm_up()
    assert made.failures == {"fails": "runtime_failed: ValueError: no such shape"}
    assert set(made.runners(method, 0)) == {"a"}


@pytest.mark.parametrize("method", [PROFILER, EVENTS])
def test_one_that_fails_later_is_told_and_stays_out(cuda: Any, method: TimingMethod) -> None:
    broken: list[str] = []
    made = contest_of(side("late", lambda inputs: fails(inputs) if broken else double(inputs)), side("a", double))
    made.warm_up()
    assert set(made.runners(method, 0)) == {"late", "a"}
    broken.append("now")
    assert set(made.runners(method, 1)) == {"a"}
    broken.clear()
    assert set(made.runners(method, 2)) == {"a"}
    assert made.failures == {"late": "runtime_failed: ValueError: no such shape"}


def test_a_graph_that_does_not_compute_is_told_and_the_rest_go_on(cuda: Any) -> None:
    made = contest_of(side("remembers", remembers_in({})), side("a", double))
    made.warm_up()
    assert set(made.runners(GRAPH, 0)) == {"a"}
    wrong = "wrong_result: remembers: a graph replay gives another result 0 than the same call does"
    assert made.failures == {"remembers": wrong}


def test_a_graph_is_impossible_where_one_cannot_be_captured(cuda: Any) -> None:
    made = contest_of(side("a", double), side("waits", waits_in(cuda)))
    cause = "RuntimeError: operation not permitted when stream is capturing"
    with pytest.raises(Impossible) as raised:
        made.runners(GRAPH, 0)
    assert str(raised.value) == f"waits cannot be captured into a CUDA graph: runtime_failed: {cause}"
    assert made.failures == {}


def test_what_spoilt_a_capture_is_told_and_not_that_it_could_not_be_ended(cuda: Any) -> None:
    def spoils(inputs: Inputs) -> Tensor:
        try:
            return waits_in(cuda)(inputs)
        finally:
            if cuda.capturing is not None:
                raise RuntimeError("operation failed due to a previous error during capture")

    with pytest.raises(Impossible, match=r"not permitted when stream is capturing$"):
        contest_of(side("spoils", spoils)).runners(GRAPH, 0)


def test_the_profiler_is_impossible_where_it_sees_no_kernel(cuda: Any) -> None:
    cuda.empty_profiles = 3
    told = "^a cannot be timed by the profiler: the profiler shows the kernels of 0 of 2 calls$"
    with pytest.raises(Impossible, match=told):
        contest_of(side("a", double)).runners(PROFILER, 0)


def test_the_profiler_is_impossible_where_it_is_not_there(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def profile(**_: Any) -> Any:
        raise ImportError("no Kineto")

    monkeypatch.setattr(runners, "profile", profile)
    with pytest.raises(Impossible, match=r"^a cannot be timed by the profiler: .* does not start: no Kineto$"):
        contest_of(side("a", double)).runners(PROFILER, 0)


@pytest.mark.parametrize(
    ("operations", "repeats"),
    [
        ((1,), 4),  # 3 passes of 0.08 ms would be too short
        ((2,), 2),
        ((5,), 1),
        ((40, 1), 4),  # the fastest decides
    ],
)
def test_a_graph_repeats_the_rotation_until_it_is_long_enough_for_the_fastest(
    cuda: Any, operations: Sequence[int], repeats: int
) -> None:
    made = contest_of(*(side(f"in {count}", double_in(count)) for count in operations))
    assert {runner.calls for runner in made.runners(GRAPH, 0).values()} == {8 * repeats}
    assert {runner.calls for runner in made.runners(GRAPH, 1).values()} == {8 * repeats}


def test_a_graph_has_no_more_calls_than_can_be_captured_soon(cuda: Any) -> None:
    runner = contest_of(side("nothing", lambda inputs: inputs["x"])).runners(GRAPH, 0)["nothing"]
    assert runner.calls == contest.MOST_CALLS


@pytest.mark.parametrize("target", [target_of(elements=2), target_of(overwrites=("x",))])
def test_sets_that_are_flushed_or_overwritten_are_called_once_a_graph(cuda: Any, target: Target) -> None:
    made = contest_of(side("nothing", lambda inputs: inputs["x"]), target=target)
    calls = made.runners(GRAPH, 0)["nothing"].calls
    assert made.last is not None
    assert calls == len(made.last.sets)


@pytest.mark.parametrize(
    ("method", "elements", "l2", "flushes"),
    [
        (GRAPH, 2, L2.COLD, 2),
        (GRAPH, 64, L2.COLD, 0),  # the sets turn L2 over
        (PROFILER, 64, L2.COLD, 2),  # but the outputs of single calls all lie at one place
        (EVENTS, 64, L2.COLD, 2),
        *((method, 2, L2.WARM, 0) for method in TimingMethod),
    ],
)
def test_runs_are_flushed_where_something_of_theirs_would_be_in_l2_that_is_to_be_cold(
    cuda: Any, method: TimingMethod, elements: int, l2: L2, flushes: int
) -> None:
    runner = contest_of(side("a", double), target=target_of(elements), l2=l2).runners(method, 0)["a"]
    cuda.log.clear()
    runner.run_ms(1)
    assert cuda.log.count("flush") == flushes


def test_what_is_put_between_placements_changes_from_one_to_the_next(
    cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[Any] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: log.append("emptied"))
    zeros, alive = torch.zeros, weakref.WeakSet[Any]()

    def spacer(size: int, **kwargs: Any) -> Tensor:
        log.append(size)
        made = zeros(size, **kwargs).as_subclass(Spacer)
        alive.add(made)
        return made

    class Spacer(Tensor):
        __hash__ = object.__hash__

        def __eq__(self, other: object) -> bool:
            return self is other

    def make_inputs(*_: Any) -> Inputs:
        log.append(f"inputs behind {len(alive)}")
        return {"x": torch.ones(512)}

    made = contest_of(side("a", double), target=target_of(make_inputs=make_inputs))
    monkeypatch.setattr(torch, "zeros", spacer)
    for number in range(4):
        made.runners(EVENTS, number)
    assert len(log) == 20
    assert log[0::5] == ["emptied"] * 4
    assert log[4::5] == ["inputs behind 3"] * 4
    distances = list(zip(log[1::5], log[2::5], log[3::5], strict=True))
    assert len(set(distances)) == 4
    assert all(0 < small < 2**20 and small % 512 == 0 for *_, small in distances)


def test_each_placement_has_a_pool_of_its_own_and_captures_lie_elsewhere_in_it(cuda: Any) -> None:
    made = contest_of(side("a", double), side("b", double))
    places, offsets = set[int](), set[int]()
    for number in range(6):
        found = made.runners(GRAPH, number)
        assert len(cuda.pools) == number + 1
        pointers = found["a"].captured.pointers  # type: ignore[attr-defined]
        assert pointers == found["b"].captured.pointers  # type: ignore[attr-defined]
        assert not places.intersection(pointers)
        places.update(pointers)
        offsets.add(min(pointers) - cuda.pools[-1].base)
    assert min(offsets) >= 512 + 2
    assert len(offsets) == 6
    assert made.equal_addresses == [True] * 6


def test_spacers_in_a_pool_are_given_back_with_its_placement(cuda: Any) -> None:
    made = contest_of(side("a", double))
    made.runners(GRAPH, 0)
    assert cuda.pools[0].taken == {}


def test_nothing_that_was_captured_is_left_when_code_is_loaded_anew(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    monkeypatch.setattr(LoadedCode, "reload", lambda code, draw: left.append(len(cuda.graphs)))
    made = contest_of(side("a", double), side("b", double))
    for number in range(3):
        found = made.runners(GRAPH, number)
        assert (len(found), len(cuda.graphs)) == (2, 2)
        del found
    with pytest.raises(Impossible):
        contest_of(side("a", double), side("waits", waits_in(cuda)), seed=1).runners(GRAPH, 0)
    made.runners(EVENTS, 3)
    assert left == [0] * 5


@pytest.mark.parametrize("method", list(TimingMethod))
def test_code_is_loaded_anew_for_each_placement_after_its_inputs_and_before_its_calls(
    cuda: Any, monkeypatch: pytest.MonkeyPatch, method: TimingMethod
) -> None:
    log: list[str] = []
    drawn: list[float] = []

    def told(what: str) -> None:
        if log[-1:] != [what]:
            log.append(what)

    class Loaded:
        @contextlib.contextmanager
        def watching(self) -> Iterator[None]:
            log.append("watching")
            yield
            log.append("watched")

        def reload(self, draw: random.Random) -> None:
            log.append("reload")
            drawn.append(draw.random())

    target = target_of(make_inputs=lambda *_: told("inputs") or {"x": torch.ones(64)})
    monkeypatch.setattr(contest, "LoadedCode", Loaded)
    made = contest_of(side("a", lambda inputs: told("call") or double(inputs)), target=target)
    made.warm_up()
    made.runners(method, 0)
    made.runners(method, 1)
    placement = ["inputs", "reload", "call"]
    assert log == ["inputs", "watching", "call", "watched", *placement, *placement]
    assert len(set(drawn)) == 2


def test_each_placement_has_its_own_values_which_follow_from_the_seed(cuda: Any) -> None:
    def values_by(seed: int) -> list[tuple[float, ...]]:
        made, found = contest_of(side("a", double), seed=seed), []
        for number in range(2):
            made.runners(EVENTS, number)
            assert made.last is not None
            found += [tuple(each.inputs["x"].tolist()) for each in made.last.sets]
        return found

    first = values_by(1)
    assert values_by(1) == first
    assert len({*first, *values_by(2)}) == 4 * 8


def test_no_one_always_takes_memory_first(cuda: Any) -> None:
    def orders_by(seed: int) -> list[list[str]]:
        made = contest_of(*(side(name, double) for name in "abc"), seed=seed)
        return [list(made.runners(EVENTS, number)) for number in range(8)]

    orders = orders_by(0)
    assert {order[0] for order in orders} == {"a", "b", "c"}
    assert orders_by(0) == orders != orders_by(1)


Pointers = Callable[[str, int], int]


def captured_at(monkeypatch: pytest.MonkeyPatch, pointers: Pointers) -> list[str]:
    """Has the nth capture of each name lie where `pointers` says; the names are kept as they are captured."""
    made: list[str] = []

    def capture(implementation: Implementation, *_: Any, **__: Any) -> Any:
        name = implementation.name
        made.append(name)
        place = pointers(name, made.count(name) - 1)
        return SimpleNamespace(
            pointers=(place,), calls=8, refill=lambda: None, run_ms=lambda: 1.0, graph=None, forward=None
        )

    monkeypatch.setattr(contest, "capture", capture)
    return made


def test_equal_addresses_are_recorded_a_placement(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = captured_at(monkeypatch, lambda name, turn: turn)
    found = contest_of(side("a", double), side("b", double))
    for number, captures in ((0, 4), (1, 6), (2, 8)):  # those that settle the length of a graph come first
        found.runners(GRAPH, number)
        assert len(made) == captures
    assert found.equal_addresses == [True] * 3


def test_what_lands_elsewhere_is_captured_once_more(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = captured_at(monkeypatch, lambda name, turn: 8 if name == "b" and turn == 1 else 0)
    found = contest_of(side("a", double), side("b", double))
    found.runners(GRAPH, 0)
    assert (len(made), found.equal_addresses) == (6, [True])


def test_what_lands_elsewhere_again_is_told_and_not_tried_for_ever(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = captured_at(monkeypatch, lambda name, turn: 8 if name == "b" else 0)
    found = contest_of(side("a", double), side("b", double))
    captures = []
    for number in range(VAIN_CAPTURES + 2):
        before = len(made)
        found.runners(GRAPH, number)
        captures.append(len(made) - before)
    assert captures == [2 + 4, *[4] * (VAIN_CAPTURES - 1), 2, 2]
    assert found.equal_addresses == [False] * (VAIN_CAPTURES + 2)


@pytest.mark.parametrize(
    ("paths", "apart", "equal"),
    [
        ({"a": "a.py", "b": "b.py", "provider": None}, "provider", True),
        ({"a": "a.py", "provider": None, "b": "b.py"}, "b", False),
        ({"a": "a.py", "provider": None, "other": None}, "other", False),  # one source alone is compared with them
        ({"a": None, "b": None}, "b", False),
    ],
)
def test_addresses_are_compared_among_sources_and_those_of_others_do_not_matter(
    cuda: Any, monkeypatch: pytest.MonkeyPatch, paths: dict[str, str | None], apart: str, equal: bool
) -> None:
    made = captured_at(monkeypatch, lambda name, turn: 8 if name == apart else 0)
    found = contest_of(*(side(name, double, source_path=path) for name, path in paths.items()))
    found.runners(GRAPH, 0)
    assert found.equal_addresses == [equal]
    assert len(made) == len(paths) * (2 if equal else 3)  # not once more where all is well


def test_a_capture_that_helped_is_not_in_vain(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = captured_at(monkeypatch, lambda name, turn: 8 if name == "b" and turn % 2 else 0)
    found = contest_of(side("a", double), side("b", double))
    for number in range(VAIN_CAPTURES + 2):
        found.runners(GRAPH, number)
    assert len(made) == 2 + 4 * (VAIN_CAPTURES + 2)
    assert all(found.equal_addresses)


@pytest.mark.parametrize("shared", [True, False])
def test_addresses_are_equal_only_if_every_output_lies_at_the_same_place(cuda: Any, shared: bool) -> None:
    def contender(name: str, memory: dict[int, Tensor]) -> Implementation:
        def call(inputs: Inputs) -> Tensor:
            x = inputs["x"]
            return torch.mul(x, 2, out=memory.setdefault(x.data_ptr(), torch.empty_like(x)))

        return side(name, call)

    first: dict[int, Tensor] = {}
    found = contest_of(contender("a", first), contender("b", first if shared else {}))
    found.runners(GRAPH, 0)
    assert found.equal_addresses == [shared]


@pytest.mark.parametrize("at", ["warm-up", "capture", "a later call"])
def test_a_broken_context_is_not_outlived(cuda: Any, at: str) -> None:
    working: list[str] = []

    def breaks(inputs: Inputs) -> Tensor:
        if at == "warm-up" or (working and (at != "capture" or cuda.capturing is not None)):
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return double(inputs)

    made = contest_of(side("breaks", breaks), side("a", double))
    with pytest.raises(RuntimeError, match="illegal memory access"):
        made.warm_up()
        working.append("now")
        made.runners(GRAPH if at == "capture" else EVENTS, 0)
