from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from warpsmith.contracts.target import Inputs
from warpsmith.measure.correctness import gate as gates
from warpsmith.measure.correctness.bystanders import blamed
from warpsmith.measure.correctness.surroundings import Change
from warpsmith.measure.worker.implementation import Implementation


def beside(gate: Any, act: Callable[[], Any]) -> Callable[[Inputs], Any]:
    def call(inputs: Inputs) -> Any:
        act()
        return gate.formula(inputs)

    return call


def found(gate: Any, candidate: Callable[[], Any], original: Callable[[], Any] = lambda: None) -> list[tuple[str, str]]:
    checked = gate.check(beside(gate, candidate), original=beside(gate, original))
    return [(failure.check, failure.message) for failure in checked.failures]


def always(*_: Any, **__: Any) -> bool:
    return True


def test_a_candidate_that_replaces_what_results_are_compared_with_is_refused(
    gate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaces = found(gate, lambda: monkeypatch.setattr(torch, "allclose", always))
    monkeypatch.undo()
    assert replaces == [("bystanders", "replaces torch.allclose")]


def test_what_the_original_replaces_the_candidate_may_too(gate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def replaces() -> None:
        monkeypatch.setattr(torch, "allclose", lambda *_, **__: True)

    told = found(gate, replaces, replaces)
    monkeypatch.undo()
    assert told == []


@pytest.mark.parametrize(
    ("act", "generator"),
    [
        (lambda: torch.rand(1), "torch's random numbers on the CPU"),
        (lambda: torch.manual_seed(1234), "torch's random numbers on the CPU"),
        (random.random, "Python's random numbers"),
    ],
)
def test_random_numbers_that_everyone_shares_are_left_alone_unless_the_original_draws(
    gate: Any, act: Callable[[], Any], generator: str
) -> None:
    told = f"draws from or seeds {generator}, which the original leaves alone"
    assert found(gate, act) == [("bystanders", told)]
    assert found(gate, act, act) == []


def test_what_is_replaced_after_the_first_run_is_found_at_the_end_of_the_case(
    gate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def later() -> None:
        calls.append(1)
        if len(calls) > 1:
            monkeypatch.setattr(torch, "allclose", always)

    told = found(gate, later)
    monkeypatch.undo()
    assert told == [("bystanders", "replaces torch.allclose")]


def test_without_the_check_nothing_of_it_is_looked_at(gate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "CHECKS", {"values": gates.CHECKS["values"]})
    with monkeypatch.context() as patch:
        assert found(gate, lambda: patch.setattr(torch, "allclose", always)) == []


def side(name: str, path: str | None) -> Implementation:
    return Implementation(name, lambda inputs: None, lambda: None, path)


SIDES = [side("original", "o.py"), side("a", "a.py"), side("b", "b.py"), side("torch", None)]


@pytest.mark.parametrize(
    ("change", "guilty"),
    [
        (Change("f", "replaces f", "a.py", is_code=True), ["a"]),
        (Change("f", "replaces f", "o.py", is_code=True), []),
        (Change("f", "replaces f", "torch/cuda.py", is_code=True), ["a", "b"]),
        (Change("f", "deletes f", None, is_code=True), ["a", "b"]),
        (Change("thread", "leaves a thread running: t", "b.py"), ["b"]),
        (Change("thread", "leaves a thread running: t", "concurrent/futures.py"), []),
        (Change("gc", "changes gc from True to False"), []),
    ],
)
def test_among_several_the_one_whose_code_it_is_has_changed_it_else_every_variant(
    change: Change, guilty: list[str]
) -> None:
    assert blamed([change], SIDES) == dict.fromkeys(guilty, f"wrong_result: {change.message}")
