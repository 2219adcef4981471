"""What a CPU cannot show of honesty at run time: streams, compiled launches, graphs that differ from one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
from torch import Tensor

from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.measurement import L2, Timing, TimingMethod, TimingPlan
from warpsmith.contracts.target import Inputs, Target
from warpsmith.measure.correctness import gate as gates
from warpsmith.measure.correctness.bout import observe
from warpsmith.measure.correctness.surroundings import Surroundings
from warpsmith.measure.correctness.trial import Trial
from warpsmith.measure.timing.compare import time_contenders
from warpsmith.measure.worker.implementation import Implementation

pytestmark = pytest.mark.gpu

CASE = Case(axes={"M": 2048, "N": 4096}, dtype=DType.FLOAT32)
ROWS = Case(axes={"M": 64, "N": 256}, dtype=DType.FLOAT32)

Call = Callable[[Inputs], Any]
Make = Callable[..., Implementation]


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    return {"x": torch.randn((case.axes["M"], case.axes["N"]), device=device, generator=generator)}


def double(inputs: Inputs) -> Tensor:
    return inputs["x"] * 2


TARGET = Target(
    name="double",
    source="double.py",
    module="double",
    make_inputs=make_inputs,
    call=lambda module, inputs: None,
    reference=double,
    cost=lambda case, mode: Cost(bytes_moved=2 * 4 * case.axes["M"] * case.axes["N"], flops=0),
    cases=(CASE,),
    differentiable=("x",),
)


def device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())


def side(name: str, call: Call) -> Implementation:
    return Implementation(name, call, lambda: None, f"{name}.py")


def timed(*sides: Implementation, mode: Mode = Mode.FORWARD, method: Any = None, l2: L2 = L2.COLD) -> Timing:
    plan = TimingPlan(rounds=4, most_rounds=4)
    return time_contenders(sides, TARGET, CASE, mode, plan=plan, method=method, l2=l2, seed=0, device=device())


def unjoined(inputs: Inputs) -> Tensor:
    x = inputs["x"]
    y = torch.empty_like(x)
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.mul(x, 2, out=y)
    return y


def joined(inputs: Inputs) -> Tensor:
    x, side_stream = inputs["x"].detach(), torch.cuda.Stream()
    y = torch.empty_like(x)
    side_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side_stream):
        torch.mul(x, 2, out=y)
    torch.cuda.current_stream().wait_stream(side_stream)
    return y


def plain(inputs: Inputs) -> Tensor:
    return inputs["x"].detach() * 2


def against(candidate: Call, original: Call, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the check of streams has against the candidate: results that are not ready may fail others before it."""
    monkeypatch.setattr(gates, "CHECKS", {"streams": gates.CHECKS["streams"]})
    forward = Target(**{**vars(TARGET), "modes": (Mode.FORWARD,), "differentiable": ()})
    sides = side("candidate", candidate), side("original", original)
    (found,) = gates.check(*sides, forward, [CASE], device=device(), seed=1)
    assert {failure.check for failure in found.failures} <= {"streams"}
    return [failure.message.partition(";")[0] for failure in found.failures]


ELSEWHERE = "launches on another stream than the current one, the original does not: aten::mul"
NOT_READY = "its results are not ready on the current stream"


def test_work_on_another_stream_is_found_whether_or_not_it_happens_to_be_done_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for _ in range(5):
        with torch.no_grad():
            assert against(unjoined, plain, monkeypatch) == [ELSEWHERE, NOT_READY]


def test_streams_that_the_original_uses_too_and_joins_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert against(plain, plain, monkeypatch) == []
    assert against(joined, plain, monkeypatch) == [ELSEWHERE]
    assert against(joined, joined, monkeypatch) == []


def test_compiled_launches_are_counted_by_pass_on_whichever_thread(target: Target, original: Implementation) -> None:
    found = observe(original, Trial.of(target, ROWS, device=device(), seed=1))
    counted = {name: launches.of_file(original.source_path) for name, launches in found.launches.items()}
    assert counted == {"forward": {"_rms_norm_forward_kernel": 1}, "backward": {"_rms_norm_backward_kernel": 1}}
    assert not any(launches.elsewhere for launches in found.launches.values())
    assert "aten::empty_like" in found.operations or "aten::empty" in found.operations


def test_torch_in_the_place_of_the_forward_kernel_is_refused(
    target: Target, original: Implementation, variant: Make
) -> None:
    launched = "    block_size, num_warps = _launch_settings(n_cols)\n    if n_rows == 0:\n"
    by_torch = (
        "    torch.rsqrt(rows.square().mean(-1) + eps, out=rstd)\n"
        "    torch.mul(rows * rstd[:, None], weight + offset, out=y)\n"
        "    block_size, num_warps = _launch_settings(n_cols)\n    if True:\n"
    )
    candidate = variant((launched, by_torch))
    (found,) = gates.check(candidate, original, target, [ROWS], device=device(), seed=1)
    assert [failure.check for failure in found.failures] == ["own kernels"]
    assert "in the forward pass, where the original launches _rms_norm_forward_kernel" in found.failures[0].message


def test_timing_compiling_and_profiling_replace_nothing() -> None:
    torch.cuda.init()
    before = Surroundings.taken()
    for method in TimingMethod:
        assert timed(side("a", double), side("b", double), method=method).failures == {}
    compiled = torch.compile(lambda x: torch.softmax(x, -1) * 2)
    compiled(torch.randn(8, 64, device=device(), requires_grad=True)).sum().backward()
    tuned = triton.autotune(configs=[triton.Config({}, num_warps=n) for n in (1, 2)], key=[])(_adds_one)
    tuned[(1,)](torch.zeros(8, device=device()))
    torch.cuda.synchronize()
    assert [change.message for change in before.changes() if not change.name.startswith("thread ")] == []


@triton.jit
def _adds_one(x):  # type: ignore[no-untyped-def]
    triton.language.store(x, triton.language.load(x) + 1)


def in_later_captures(otherwise: Call) -> Call:
    """Doubles, eagerly and in the first capture, which is the one that is verified before anything is timed."""
    captures, capturing = 0, False

    def call(inputs: Inputs) -> Any:
        nonlocal captures, capturing
        now = torch.cuda.is_current_stream_capturing()
        captures += now and not capturing
        capturing = now
        return otherwise(inputs) if now and captures > 1 else double(inputs)

    return call


@pytest.mark.parametrize("l2", list(L2))
def test_a_graph_that_computes_something_else_once_it_has_been_verified_is_a_wrong_result(l2: L2) -> None:
    cheat = in_later_captures(lambda inputs: inputs["x"] * 3)
    timing = timed(side("a", double), side("b", double), side("late", cheat), l2=l2)
    assert timing.failures.keys() == {"late"}, timing.failures
    assert timing.failures["late"].startswith("wrong_result: the graph that was timed gives another result 0 on fresh")
    assert {block.contender for block in timing.blocks} == {"a", "b"}


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("l2", list(L2))
def test_honest_graphs_are_proven_in_every_mode(mode: Mode, l2: L2) -> None:
    timing = timed(side("a", double), side("original", lambda inputs: inputs["x"] + inputs["x"]), mode=mode, l2=l2)
    assert (timing.method, timing.failures) == (TimingMethod.GRAPH, {})


def test_sums_by_atomics_are_proven() -> None:
    def scattered(inputs: Inputs) -> Tensor:
        x = inputs["x"]
        index = torch.arange(x.shape[0], device=x.device) % 3
        return torch.zeros(3, x.shape[1], device=x.device).index_add_(0, index, x)

    timing = timed(side("a", scattered), side("b", scattered))
    assert (timing.method, timing.failures) == (TimingMethod.GRAPH, {})


def test_a_source_that_computes_something_else_while_it_is_timed_is_a_wrong_result() -> None:
    timing = timed(side("original", double), side("other", lambda inputs: inputs["x"] * 2.1))
    assert timing.failures.keys() == {"other"}
    assert timing.failures["other"].startswith("wrong_result: the call that was timed gives another result 0 than orig")
