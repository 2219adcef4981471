"""Values that kernels stumble over: the original decides what a candidate is held to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from warpsmith.contracts.case import DType
from warpsmith.contracts.measurement import CheckFailure
from warpsmith.contracts.target import Inputs
from warpsmith.measure.correctness import extremes as module
from warpsmith.measure.correctness.bout import Bout, observe
from warpsmith.measure.correctness.extremes import extremes
from warpsmith.measure.correctness.probes import PROBES, probes
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.protocol import WorkerError

Call = Callable[[Inputs], Any]
FP32_MAX = torch.finfo(torch.float32).max


def wide(inputs: Inputs) -> Tensor:
    x: Tensor = inputs["x"]
    return x if x.dtype is torch.float64 else x.float()


def layer_norm(inputs: Inputs) -> Tensor:
    x = wide(inputs)
    centred = x - x.mean(dim=-1, keepdim=True)
    return (centred * torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + 1e-5)).to(inputs["x"].dtype)


def layer_norm_in_another_order(inputs: Inputs) -> Tensor:
    x = wide(inputs)
    centred = x - (x[:, ::2].sum(dim=-1, keepdim=True) + x[:, 1::2].sum(dim=-1, keepdim=True)) / x.shape[1]
    squares = centred.square().flip(-1).cumsum(dim=-1)[:, -1:]
    return (centred * torch.rsqrt(squares / x.shape[1] + 1e-5)).to(inputs["x"].dtype)


def layer_norm_in_one_pass(inputs: Inputs) -> Tensor:
    x = wide(inputs)
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x.square().mean(dim=-1, keepdim=True) - mean.square()).clamp(min=0.0)
    return ((x - mean) * torch.rsqrt(variance + 1e-5)).to(inputs["x"].dtype)


def softmax(inputs: Inputs) -> Tensor:
    x = wide(inputs)
    powers = (x - x.amax(dim=-1, keepdim=True)).exp()
    return (powers / powers.sum(dim=-1, keepdim=True)).to(inputs["x"].dtype)


def softmax_without_the_maximum(inputs: Inputs) -> Tensor:
    powers = wide(inputs).exp()
    return (powers / powers.sum(dim=-1, keepdim=True)).to(inputs["x"].dtype)


def softmax_in_two_halves(inputs: Inputs) -> Tensor:
    x = wide(inputs)
    halves = x.tensor_split(2, dim=-1)
    largest = [half.amax(dim=-1, keepdim=True) for half in halves]
    most = torch.maximum(*largest)
    total = sum(((half - most).exp().sum(dim=-1, keepdim=True) for half in halves), torch.zeros(()))
    return ((x - most).exp() / total).to(inputs["x"].dtype)


def doubled(inputs: Inputs) -> Tensor:
    return inputs["x"] * 2


def normalized(inputs: Inputs) -> Tensor:
    """Loses its rows to overflow from magnitudes of the square root of the largest value on."""
    x = wide(inputs)
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6)


def normalized_without_overflow(inputs: Inputs) -> Tensor:
    x = wide(inputs)
    most = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-3, max=FP32_MAX)
    return (x / most) * torch.rsqrt((x / most).square().mean(dim=-1, keepdim=True) + 1e-6 / most.square())


def bout(gate: Any, candidate: Call, original: Call, dtype: DType = DType.FLOAT32, **changes: Any) -> Bout:
    changes = {"reference": original, "forward_only": True, **changes}
    trial = gate.trial(gate.case(dtype, weight=False), **changes)
    sides = [Implementation(n, c, lambda: None, None) for n, c in (("candidate", candidate), ("original", original))]
    known = observe(sides[1], trial)
    return Bout(sides[0], sides[1], trial, known, trial.reference(), known)


def found(gate: Any, candidate: Call, original: Call, dtype: DType = DType.FLOAT32, **changes: Any) -> str:
    """The first reason, or nothing."""
    return next((f"{each.check}: {each}" for each in extremes(bout(gate, candidate, original, dtype, **changes))), "")


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize(
    ("original", "other"),
    [
        (layer_norm, layer_norm_in_another_order),
        (layer_norm_in_one_pass, layer_norm),
        (softmax, softmax_in_two_halves),
        (normalized, normalized_without_overflow),
    ],
)
def test_another_order_or_a_better_formula_passes(gate: Any, original: Call, other: Call, dtype: DType) -> None:
    assert found(gate, original, original, dtype, forward_only=False, differentiable=("x",)) == ""
    assert found(gate, other, original, dtype, forward_only=False, differentiable=("x",)) == ""


def test_a_variance_in_one_pass_is_found_by_a_large_mean(gate: Any) -> None:
    told = found(gate, layer_norm_in_one_pass, layer_norm)

    assert told.startswith("extremes: output: with a mean of 1000 deviations in x: RMS error")


def test_a_softmax_without_the_maximum_is_found_by_large_values(gate: Any) -> None:
    told = found(gate, softmax_without_the_maximum, softmax, unprobed=("infinity",))

    assert told.startswith("extremes: output: with magnitudes up to sqrt(max) in x: nan where it does not belong")
    assert told.endswith("the original has 0")


def dropping(value: float) -> Call:
    """Twice x, with nothing but 0 where x has that value."""

    def call(inputs: Inputs) -> Tensor:
        x = inputs["x"]
        same = x.isnan() if value != value else x == value
        return (x * 2).masked_fill(same, 0.0)

    return call


@pytest.mark.parametrize(
    ("value", "probe"),
    [(float("nan"), "NaN"), (float("inf"), "infinity"), (float("-inf"), "-infinity")],
)
def test_what_is_not_finite_may_not_be_dropped(gate: Any, value: float, probe: str) -> None:
    told = found(gate, dropping(value), doubled)

    assert told.startswith(f"extremes: output: with {probe} in x: 0 where it does not belong, 3 times, first at [0, 0]")


def test_a_nan_may_not_stand_for_an_infinity_that_original_and_reference_have(gate: Any) -> None:
    told = found(gate, lambda i: i["x"] + i["x"] * i["x"].isfinite().float().where(i["x"].isfinite(), 0.0), doubled)
    assert told.startswith("extremes: output: with infinity in x: nan where it does not belong")


def test_in_a_gradient_a_nan_may_stand_for_an_infinity(gate: Any) -> None:
    """Which infinities meet there hangs on how the formula is factored."""

    def squares(inputs: Inputs) -> Tensor:
        return inputs["x"].square()

    class Factored(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.square()

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return gradients[0] * (3 * x - x)

    assert found(gate, lambda i: Factored.apply(i["x"]), squares, forward_only=False, differentiable=("x",)) == ""


def test_a_nan_may_not_spread_to_other_rows(gate: Any) -> None:
    told = found(gate, lambda i: i["x"] * 2 + 0 * i["x"].sum(), doubled)

    assert told.startswith("extremes: output: with NaN in x: nan where it does not belong, 957 times, first at [0, 1]")


def test_where_the_original_passes_over_nan_nothing_is_asked(gate: Any) -> None:
    def passes_over(inputs: Inputs) -> Tensor:
        return inputs["x"].nan_to_num(nan=0.0, posinf=float("inf"), neginf=float("-inf")) * 2

    assert found(gate, doubled, passes_over, reference=doubled) == ""
    assert found(gate, passes_over, passes_over, reference=doubled) == ""


def test_where_the_original_alone_overflows_a_candidate_may_not_invent_a_value(gate: Any) -> None:
    def far_away(inputs: Inputs) -> Tensor:
        x = wide(inputs)
        return normalized(inputs) + torch.where(x.abs().amax() > 1e30, 1e6, 0.0)

    def gives_up(inputs: Inputs) -> Tensor:
        return normalized(inputs) + torch.where(wide(inputs).abs().amax() > 1e30, float("nan"), 0.0)

    finite = {"reference": normalized, "unprobed": ("infinity", "-infinity")}
    assert "1e+06 where it does not belong" in found(gate, far_away, gives_up, **finite)
    assert found(gate, normalized, gives_up, **finite) == ""


def test_at_the_edge_of_the_range_the_order_decides_what_overflows(gate: Any) -> None:
    def early(inputs: Inputs) -> Tensor:
        return inputs["x"].sum(dim=-1) * 2

    def late(inputs: Inputs) -> Tensor:
        return (inputs["x"] * 2).sum(dim=-1)

    assert found(gate, late, early) == ""
    assert found(gate, early, late) == ""


def test_a_candidate_that_overflows_where_the_original_has_room_is_found(gate: Any) -> None:
    def roomy(inputs: Inputs) -> Tensor:
        return inputs["x"] * 2**-20

    def cramped(inputs: Inputs) -> Tensor:
        return inputs["x"] * 2**10 * 2**-30

    assert "with magnitudes up to max/8 in x: inf where it does not belong" in found(gate, cramped, roomy).replace(
        "-inf", "inf"
    )


def test_values_too_small_for_fp32_may_be_flushed_to_zero(gate: Any) -> None:
    def flushes(inputs: Inputs) -> Tensor:
        return doubled({"x": inputs["x"].masked_fill(inputs["x"].abs() < torch.finfo(torch.float32).tiny, 0.0)})

    assert found(gate, flushes, doubled) == ""


def test_small_values_may_not_be_dropped(gate: Any) -> None:
    told = found(gate, lambda i: doubled({"x": i["x"].masked_fill(i["x"].abs() < 1e-30, 0.0)}), doubled)

    assert told.startswith("extremes: output: with magnitudes up to 64 times the smallest normal in x: RMS error")


def test_gradients_are_held_to_the_same(gate: Any) -> None:
    class Stops(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return gradients[0] * torch.where(x.abs().amax() < 1e-20, 0.0, 2.0)

    told = found(gate, lambda i: Stops.apply(i["x"]), doubled, forward_only=False, differentiable=("x",))

    assert told.startswith("extremes: gradient of x: with magnitudes up to 64 times the smallest normal in x: RMS")


def test_a_probe_on_which_the_original_fails_is_skipped_with_the_reason(gate: Any) -> None:
    def finite_only(inputs: Inputs) -> Tensor:
        if not bool(inputs["x"].isfinite().all()):
            raise ValueError("x is not finite")
        return doubled(inputs)

    made = bout(gate, doubled, finite_only, reference=doubled)

    assert list(extremes(made)) == []
    assert set(made.skipped) == {f"extremes, {probe} in x" for probe in ("NaN", "infinity", "-infinity")}
    assert "ValueError: x is not finite" in made.skipped["extremes, NaN in x"]


def test_a_candidate_that_fails_where_the_original_does_not_is_told(gate: Any) -> None:
    def refuses(inputs: Inputs) -> Tensor:
        if bool(inputs["x"].isnan().any()):
            raise ValueError("NaN")
        return doubled(inputs)

    assert list(extremes(bout(gate, refuses, doubled))) == [
        CheckFailure(
            check="extremes",
            message="with NaN in x it fails, the original does not: runtime_failed: ValueError: NaN",
        )
    ]


@pytest.mark.parametrize("name", ["NaN", "NaN in x"])
def test_what_the_target_names_is_left_out(gate: Any, name: str) -> None:
    made = bout(gate, dropping(float("nan")), doubled, unprobed=(name,))

    assert list(extremes(made)) == []
    assert made.skipped == {"extremes, NaN in x": "the target names it in `unprobed`"}


def test_an_original_that_breaks_the_context_is_a_fault_of_the_target_with_its_remedy(gate: Any) -> None:
    def breaks(inputs: Inputs) -> Tensor:
        if bool(inputs["x"].isnan().any()):
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return doubled(inputs)

    with pytest.raises(WorkerError, match=r"unprobed=\('NaN in x',\)") as caught:
        list(extremes(bout(gate, doubled, breaks, reference=doubled)))
    assert (caught.value.failure.status, caught.value.failure.sticky) == ("bad_target", True)


def test_large_cases_and_integers_are_left_alone(gate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    integers = {"make_inputs": lambda case, device, generator: {"x": torch.arange(960).view(24, 40)}}
    made = bout(gate, doubled, doubled, **integers)
    assert (list(extremes(made)), made.skipped["extremes"][:8]) == ([], "no input")

    monkeypatch.setattr(module, "MOST_ELEMENTS", 959)
    large = bout(gate, dropping(float("nan")), doubled)
    assert list(extremes(large)) == []
    assert large.skipped == {"extremes": "an input has 960 elements, more than 959"}


def test_inputs_are_afterwards_as_they_were(gate: Any) -> None:
    made = bout(gate, doubled, doubled)
    before = made.trial.inputs["x"].clone()
    list(extremes(made))
    assert torch.equal(made.trial.inputs["x"], before) and made.trial.changes() == {}


def test_probes_hold_what_their_names_say() -> None:
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    made = {probe: values for probe, _, values in probes({"x": x})}

    assert list(made) == list(PROBES)
    for probe, special in (("NaN", float("nan")), ("infinity", float("inf")), ("-infinity", float("-inf"))):
        other = ~torch.isclose(made[probe], x, rtol=0, atol=0)
        assert other.nonzero().tolist() == [[0, 0], [2, 3], [4, 6]], probe
        assert torch.equal(made[probe][other].nan_to_num(nan=1.0), torch.full((3,), special).nan_to_num(nan=1.0))
    assert float(made["magnitudes up to max/8"].abs().max()) == pytest.approx(FP32_MAX / 8, rel=1e-6)
    assert float(made["subnormal values"].abs().max()) < torch.finfo(torch.float32).tiny
    assert made["one constant"].unique().numel() == 1 and not made["zeros"].any()
    offset = made["a mean of 1000 deviations"]
    assert float(offset.mean() / offset.std(correction=0)) == pytest.approx(1000, rel=0.01)


def test_zeros_have_no_magnitude_and_no_spread() -> None:
    names = [probe for probe, _, _ in probes({"x": torch.zeros(3)})]
    assert names == ["NaN", "infinity", "-infinity", "zeros", "one constant"]
