"""The graphs that were timed are replayed on fresh values, and every call of them is compared with an eager one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from doubling import CASE, CPU, double, side, target_of
from torch import Tensor

from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import L2, Timing, TimingPlan
from warpsmith.contracts.target import Inputs
from warpsmith.measure.timing.compare import time_contenders
from warpsmith.measure.worker.implementation import Implementation

OTHER = "wrong_result: the graph that was timed gives another result 0 on fresh values than the same call does, in call"


def timed(*sides: Implementation, mode: Mode = Mode.FORWARD, l2: L2 = L2.COLD, **target: Any) -> Timing:
    plan = TimingPlan(rounds=2, most_rounds=2)
    made = target_of(**target)
    return time_contenders(sides, made, CASE, mode, plan=plan, method=None, l2=l2, seed=1, device=CPU)


def source(name: str, call: Callable[[Inputs], Any]) -> Implementation:
    return side(name, call, source_path=f"{name}.py")


def in_later_captures(cuda: Any, otherwise: Callable[[Tensor, int], Tensor]) -> Callable[[Inputs], Tensor]:
    """Doubles, but in captures after the first, which is the one that is verified: there by the number of the call."""
    graphs: list[Any] = []
    number = 0

    def call(inputs: Inputs) -> Tensor:
        nonlocal number
        if cuda.capturing is None:
            return double(inputs)
        number += 1
        if cuda.capturing not in graphs:
            graphs.append(cuda.capturing)
            number = 1
        return double(inputs) if len(graphs) == 1 else otherwise(inputs["x"], number)

    return call


@pytest.mark.parametrize("mode", list(Mode))
def test_a_graph_that_was_verified_once_and_computes_nothing_later_is_a_wrong_result(cuda: Any, mode: Mode) -> None:
    stale = torch.ones(64)
    cheat = in_later_captures(cuda, lambda x, number: x * 0 + stale if mode is Mode.FORWARD else x * 2.5)
    timing = timed(side("a", double), side("late", cheat), mode=mode)
    assert timing.failures["late"].startswith("wrong_result: the graph that was timed gives another result")
    assert {block.contender for block in timing.blocks} == {"a"}


@pytest.mark.parametrize("wrong", [1, 20, 32])
def test_one_call_of_many_that_skips_its_work_is_found(cuda: Any, wrong: int) -> None:
    cheat = in_later_captures(cuda, lambda x, number: x * (2.01 if number == wrong else 2))
    assert timed(side("late", cheat)).failures == {"late": f"{OTHER} {wrong} of 32"}


def test_the_last_call_of_a_warm_graph_is_what_is_compared(cuda: Any) -> None:
    cheat = in_later_captures(cuda, lambda x, number: x * (2.01 if number > 20 else 2))
    told = timed(side("late", cheat), l2=L2.WARM).failures["late"]
    number, calls = told.removeprefix(OTHER).split(" of ")
    assert int(number) == int(calls) > 20


def test_a_graph_that_writes_what_it_wrote_before_is_found_for_values_are_fresh(cuda: Any) -> None:
    known: dict[int, Tensor] = {}

    def remembers(x: Tensor, number: int) -> Tensor:
        return known.setdefault(number, torch.zeros(64)).copy_(x.detach() * 2)

    def kept(x: Tensor, number: int) -> Tensor:
        with torch.no_grad():
            return remembers(x, number) if number not in known else known[number]

    assert list(timed(side("late", in_later_captures(cuda, kept))).failures) == ["late"]


def test_a_graph_that_knows_its_inputs_again_and_leaves_its_results_as_they_are_is_found(cuda: Any) -> None:
    results: dict[int, tuple[Tensor, Tensor]] = {}

    def once(x: Tensor, number: int) -> Tensor:
        with torch.no_grad():
            last, kept = results.setdefault(number, (torch.zeros(1), torch.zeros(64)))
            kept.copy_(torch.where(last == x[:1], kept, x * 2))
            last.copy_(x[:1])
        return kept

    assert list(timed(side("late", in_later_captures(cuda, once))).failures) == ["late"]


def test_sums_that_vary_from_call_to_call_are_no_wrong_result(cuda: Any) -> None:
    def varies(inputs: Inputs) -> Tensor:
        return double(inputs) + 1e-5 * torch.rand(64)

    assert timed(side("a", varies)).failures == {}


def test_what_varies_nowhere_but_in_the_graph_is_a_wrong_result_though_small(cuda: Any) -> None:
    cheat = in_later_captures(cuda, lambda x, number: x * (2 + 1e-4))
    assert list(timed(source("late", cheat)).failures) == ["late"]


def test_sources_are_compared_with_the_original_and_baselines_with_nobody(cuda: Any) -> None:
    def other(inputs: Inputs) -> Tensor:
        return inputs["x"] * 2.1

    timing = timed(source("b", other), source("original", double), side("baseline", other), source("near", near))
    assert timing.failures == {
        "b": "wrong_result: the call that was timed gives another result 0 than original on fresh values: "
        "the difference is 5.0% of it (RMS), 1.0% allowed"
    }


def near(inputs: Inputs) -> Tensor:
    return inputs["x"] * 2.002


@pytest.mark.parametrize("mode", list(Mode))
def test_a_result_that_is_part_of_an_input_is_not_poisoned(cuda: Any, mode: Mode) -> None:
    def part(inputs: Inputs) -> Tensor:
        return inputs["x"][1:]

    timing = timed(side("a", part), mode=mode, reference=part)
    assert (timing.failures, bool(timing.blocks)) == ({}, True)


def test_values_that_the_host_knows_stay_those_that_were_captured(cuda: Any) -> None:
    makes: list[float] = []

    def make_inputs(case: Any, device: Any, generator: torch.Generator) -> Inputs:
        makes.append(float(torch.rand((), generator=generator)))
        return {"x": torch.full((64,), makes[-1]), "scale": makes[-1]}

    seen: set[float] = set()

    def call(inputs: Inputs) -> Tensor:
        if cuda.capturing is None:
            seen.add(float(inputs["x"].detach()[0]) - inputs["scale"])
        return inputs["x"] * inputs["scale"]

    assert timed(side("a", call), make_inputs=make_inputs).failures == {}
    assert max(map(abs, seen)) < 1e-6
