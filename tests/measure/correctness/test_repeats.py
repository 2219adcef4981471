from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from warpsmith.contracts.target import Inputs


def counted(result: Callable[[Inputs, int], Any]) -> Callable[[Inputs], Any]:
    """A call that knows how often it was made."""
    calls = itertools.count()
    return lambda inputs: result(inputs, next(calls))


def doubled(inputs: Inputs) -> Tensor:
    return inputs["x"] * 2


def varying(size: float, least: float = 0.0) -> Callable[[Inputs], Any]:
    """Twice x and the least, in every other call a little more."""
    return counted(lambda inputs, call: inputs["x"] * (2 + least + size * (call % 2)))


DOUBLES: dict[str, Any] = {"original": doubled, "reference": doubled, "forward_only": True}
ROUNDING = 4e-7


def test_a_candidate_may_vary_by_rounding_as_atomic_additions_do(gate: Any) -> None:
    assert gate.failures(varying(ROUNDING / 2, least=ROUNDING / 2), **DOUBLES) == ()


def test_a_candidate_may_not_vary_by_more_than_rounding(gate: Any) -> None:
    failures = gate.failures(varying(1e-3), **DOUBLES)

    assert failures[0].startswith("output: varies between two calls on the same inputs by more than rounding")


def test_an_output_that_is_kept_for_the_next_call_is_found(gate: Any) -> None:
    kept: dict[tuple[int, ...], Tensor] = {}

    def keeps(inputs: Inputs) -> Tensor:
        buffer = kept.setdefault(tuple(inputs["x"].shape), torch.zeros_like(inputs["x"]))
        return buffer.copy_(doubled(inputs))

    assert gate.failures(keeps, **DOUBLES) == (
        "output: a second call returns the memory of the first, which a caller may still hold",
    )


def test_an_output_that_is_cached_by_address_is_found(gate: Any) -> None:
    cache: dict[int, Tensor] = {}

    def caches(inputs: Inputs) -> Tensor:
        return cache.setdefault(inputs["x"].data_ptr(), doubled(inputs)).clone()

    (failure,) = gate.failures(caches, **DOUBLES)

    assert failure.startswith(
        "output: does not follow its inputs: on other values at the same addresses it is off; most at ["
    )


def test_other_values_differ_from_the_first_and_lie_at_the_same_addresses(gate: Any) -> None:
    trial = gate.trial()
    trial.run(_implementation(gate.formula))
    before = [t.clone() for t in (trial.inputs["x"], trial.inputs["w"], *trial.output_gradients.values())]
    addresses = [t.data_ptr() for t in (trial.inputs["x"], trial.inputs["w"], *trial.output_gradients.values())]

    trial.refill(trial.seed + 1)

    after = [trial.inputs["x"], trial.inputs["w"], *trial.output_gradients.values()]
    assert [t.data_ptr() for t in after] == addresses
    assert not any(torch.equal(old, new) for old, new in zip(before, after, strict=True))


def test_random_values_depend_on_seed_and_case_and_on_nothing_else(gate: Any) -> None:
    first, same, other_case = gate.trial(), gate.trial(), gate.trial(gate.case(columns=41))

    assert torch.equal(first.inputs["x"], same.inputs["x"])
    assert not torch.equal(first.inputs["w"][:40], other_case.inputs["w"][:40])


def _implementation(call: Callable[[Inputs], Any]) -> Any:
    from warpsmith.measure.worker.implementation import Implementation

    return Implementation("original", call, lambda: None, None)
