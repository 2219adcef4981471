from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from doubling import double, rotations_of, side, target_of
from torch import Tensor

from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import L2
from warpsmith.contracts.target import Inputs, Target
from warpsmith.measure.timing.capture import Captured, GraphPool, capture
from warpsmith.measure.worker.failures import WrongResult


def captured(
    call: Callable[[Inputs], Any],
    *,
    mode: Mode = Mode.FORWARD,
    target: Target | None = None,
    repeats: int = 1,
    activate: Callable[[], None] = lambda: None,
    l2: L2 = L2.COLD,
) -> Captured:
    """A capture that was verified."""
    rotation = rotations_of(target or target_of(), mode, l2).make(0)
    pool = GraphPool.on(torch.cuda.current_stream(), (512, 2))
    return capture(side("a", call, activate), mode, rotation, repeats=repeats, pool=pool, verify=True)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_graph_calls_every_set_as_often_as_asked(cuda: Any, mode: Mode) -> None:
    graph = captured(double, mode=mode, repeats=3)
    sets = 8 if mode is Mode.FORWARD else 4
    operations = written = 2 if mode is Mode.FULL else 1  # the output, and the gradient
    assert (graph.calls, len(graph.pointers)) == (3 * sets, 3 * sets * written)
    assert graph.run_ms() == pytest.approx(0.01 * operations * 3 * sets)


def test_no_call_of_a_graph_writes_where_another_did(cuda: Any) -> None:
    assert len(set(captured(double, repeats=3).pointers)) == 24


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("l2", list(L2))
def test_memory_is_used_again_within_a_graph_only_where_l2_is_to_be_warm(cuda: Any, l2: L2, mode: Mode) -> None:
    places: list[int] = []

    class Doubles(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return noted(x * 2)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return noted(gradient * 2)

    def noted(made: Tensor) -> Tensor:
        if cuda.capturing is not None:
            places.append(made.data_ptr())
        return made

    def call(inputs: Inputs) -> Tensor:
        return Doubles.apply(inputs["x"])

    graph = captured(call, mode=mode, repeats=32, target=target_of(elements=512), l2=l2)
    assert graph.calls == 32
    written = 2 if mode is Mode.FULL else 1
    if l2 is L2.COLD:
        assert len(set(graph.pointers)) == 32 * written
    else:  # those of the first call are kept, those of the call before while the next is made
        assert len(places) >= 32
        assert len(set(places)) <= 6


def test_what_is_captured_lies_behind_the_spacers_of_its_pool_one_capture_where_the_other_did(cuda: Any) -> None:
    rotation = rotations_of(target_of()).make(0)
    pool = GraphPool.on(torch.cuda.current_stream(), (1024, 3))
    first, second = (
        capture(side(name, double), Mode.FORWARD, rotation, repeats=1, pool=pool, verify=False) for name in "ab"
    )
    (taken,) = cuda.pools
    assert first.pointers == second.pointers == tuple(taken.base + 1027 + 256 * number for number in range(8))


def test_only_a_pass_backward_alone_has_a_graph_of_its_forward_passes(cuda: Any) -> None:
    assert [captured(double, mode=mode).forward is None for mode in Mode] == [
        mode is not Mode.BACKWARD for mode in Mode
    ]


@pytest.mark.parametrize("mode", list(Mode))
def test_settings_are_made_current_before_the_capture(cuda: Any, mode: Mode) -> None:
    log: list[str] = []

    def call(inputs: Inputs) -> Tensor:
        log.append("call")
        return double(inputs)

    captured(call, mode=mode, activate=lambda: log.append("activate"))
    assert (log[0], log.count("activate")) == ("activate", 1)


def once_captured(cuda: Any, otherwise: Callable[[Tensor], Tensor]) -> Callable[[Inputs], Tensor]:
    return lambda inputs: double(inputs) if cuda.capturing is None else otherwise(inputs["x"])


@pytest.mark.parametrize(
    "otherwise",
    [
        pytest.param(lambda x: x * 2.01, id="other values"),
        pytest.param(lambda x: x * float("nan"), id="NaN"),
        pytest.param(lambda x: torch.full_like(x, 2.0).detach(), id="a constant"),
    ],
)
def test_a_replay_that_gives_something_else_is_a_wrong_result(cuda: Any, otherwise: Any) -> None:
    with pytest.raises(WrongResult, match=r"^a: a graph replay gives another result 0 than the same call does$"):
        captured(once_captured(cuda, otherwise))


def test_a_replay_that_writes_nothing_is_a_wrong_result(cuda: Any) -> None:
    kept = torch.empty(64)
    with pytest.raises(WrongResult):
        captured(once_captured(cuda, lambda x: kept))


def test_a_wrong_result_is_found_in_whichever_output_it_is(cuda: Any) -> None:
    def call(inputs: Inputs) -> tuple[Tensor, Tensor]:
        return double(inputs), inputs["x"] + (0 if cuda.capturing is None else 1)

    with pytest.raises(WrongResult, match="another result 1 than"):
        captured(call)


def test_what_sums_in_another_order_differ_by_is_no_wrong_result(cuda: Any) -> None:
    def sums(inputs: Inputs) -> Tensor:
        return torch.cat([double(inputs) * 0 + 1e4, 1e-2 * torch.rand(8)])

    captured(sums)


def test_a_result_that_is_nan_by_right_is_no_wrong_result(cuda: Any) -> None:
    captured(lambda inputs: inputs["x"] * float("nan"))


@pytest.mark.parametrize("mode", list(Mode))
def test_a_result_that_is_memory_of_an_input_is_not_poisoned(cuda: Any, mode: Mode) -> None:
    class Passes(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient

    captured(lambda inputs: Passes.apply(inputs["x"]), mode=mode)


@pytest.mark.parametrize("mode", list(Mode))
def test_what_a_call_overwrites_is_restored_before_either_result(cuda: Any, mode: Mode) -> None:
    class DoublesInPlace(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            x.data.mul_(2)
            return x + 0

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient.data.mul_(2)

    captured(lambda inputs: DoublesInPlace.apply(inputs["x"]), mode=mode, target=target_of(overwrites=("x",)))


def test_a_call_that_cannot_be_captured_raises_its_own_error(cuda: Any) -> None:
    def waits(inputs: Inputs) -> Tensor:
        raise RuntimeError("operation not permitted when stream is capturing")

    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
        captured(waits)
