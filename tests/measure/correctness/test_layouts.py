from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from warpsmith.contracts.case import DType
from warpsmith.contracts.target import Inputs
from warpsmith.measure.correctness import layouts
from warpsmith.measure.correctness.bout import Bout, observe
from warpsmith.measure.correctness.layouts import GRADIENT_LAYOUTS, INPUT_LAYOUTS
from warpsmith.measure.worker.implementation import Implementation

Call = Callable[[Inputs], Any]
Probe = Callable[..., tuple[list[str], dict[str, str]]]


class Product(torch.autograd.Function):
    """y = x · w for rows of x. `reads` is how a kernel takes rows from memory, in each pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, reads: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.reads = reads
        ctx.save_for_backward(x, w)
        return torch.empty_like(x, memory_format=torch.contiguous_format).copy_(reads(x) * w)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, w = ctx.saved_tensors
        dy = ctx.reads(gradients[0])
        needs_dx, needs_dw = ctx.needs_input_grad[:2]
        return dy * w if needs_dx else None, (dy * x).sum(dim=0) if needs_dw else None, None


def product(inputs: Inputs, reads: Callable[[Tensor], Tensor] = lambda tensor: tensor) -> Tensor:
    y: Tensor = Product.apply(inputs["x"], inputs["w"], reads)  # type: ignore[no-untyped-call]
    return y


def as_if_contiguous(rows: Tensor) -> Tensor:
    """What a kernel reads that ignores strides, beyond the storage too."""
    return _read(rows, (rows.shape[1], 1))


def with_the_row_stride_alone(rows: Tensor) -> Tensor:
    return _read(rows, (rows.stride(0), 1))


def _read(rows: Tensor, strides: tuple[int, int]) -> Tensor:
    """Elements by their addresses."""
    elements = 1 + (rows.shape[0] - 1) * strides[0] + (rows.shape[1] - 1) * strides[1]
    memory = bytearray(ctypes.string_at(rows.data_ptr(), elements * rows.element_size()))
    return torch.frombuffer(memory, dtype=rows.dtype).as_strided(rows.shape, strides)


def ignores(inputs: Inputs) -> Tensor:
    return product(inputs, as_if_contiguous)


def takes_the_row_stride(inputs: Inputs) -> Tensor:
    return product(inputs, with_the_row_stride_alone)


def ignores_in_gradients(inputs: Inputs) -> Tensor:
    def reads(rows: Tensor) -> Tensor:
        return rows if rows.data_ptr() == inputs["x"].data_ptr() else as_if_contiguous(rows)

    return product(inputs, reads)


@pytest.fixture
def probe(gate: Any) -> Probe:
    """What the two checks alone say of a candidate, and what they skip."""

    def run(candidate: Call, original: Call = product, dtype: DType = DType.FLOAT32, **changes: Any) -> Any:
        sides = [
            Implementation(name, call, lambda: None, None)
            for name, call in (("candidate", candidate), ("original", original))
        ]
        trial = gate.trial(gate.case(dtype), reference=product_in_float64, **changes)
        known = observe(sides[1], trial)
        bout = Bout(*sides, trial, known, trial.reference(), known)
        failures = [*layouts.layouts(bout), *layouts.gradient_layouts(bout)]
        return [f"{failure.check}: {failure}" for failure in failures], bout.skipped

    return run


def product_in_float64(inputs: Inputs) -> Tensor:
    result: Tensor = inputs["x"] * inputs["w"]
    return result


@pytest.mark.parametrize("dtype", list(DType))
def test_a_candidate_that_takes_every_layout_passes_and_nothing_is_skipped(probe: Probe, dtype: DType) -> None:
    assert probe(lambda inputs: product({**inputs, "w": inputs["w"].contiguous()}), dtype=dtype) == ([], {})


@pytest.mark.parametrize(
    ("candidate", "failed"),
    [
        (ignores, ["layouts: output: with strided rows: ", "gradient layouts: "]),
        (takes_the_row_stride, ["layouts: output: with transposed inputs: ", "gradient layouts: "]),
        (ignores_in_gradients, ["gradient layouts: gradient of x: with an expanded output gradient: NaN"]),
    ],
)
def test_a_candidate_that_ignores_strides_is_rejected(probe: Probe, candidate: Call, failed: list[str]) -> None:
    failures, skipped = probe(candidate)

    assert skipped == {}
    for start in failed:
        assert any(failure.startswith(start) for failure in failures), failures


def test_a_candidate_may_ignore_strides_where_the_original_does(probe: Probe) -> None:
    failures, skipped = probe(ignores, original=ignores)

    assert failures == []
    assert sorted(skipped) == [
        "gradient layouts, a transposed output gradient",
        "gradient layouts, an expanded output gradient",
        "layouts, expanded inputs",
        "layouts, strided rows",
        "layouts, transposed inputs",
    ]
    assert "is off by" in skipped["layouts, strided rows"]
    assert "is not finite there" in skipped["layouts, expanded inputs"]


def test_a_candidate_may_refuse_what_the_original_refuses_and_nothing_else(probe: Probe) -> None:
    def refuses(inputs: Inputs) -> Tensor:
        if inputs["x"].data_ptr() % 16:
            raise ValueError("x must be aligned")
        return product(inputs)

    assert probe(refuses)[0] == [
        "layouts: with inputs shifted by one element it fails, the original does not: "
        "runtime_failed: ValueError: x must be aligned"
    ]
    failures, skipped = probe(refuses, original=refuses)
    assert failures == []
    assert skipped == {"layouts, inputs shifted by one element": "runtime_failed: ValueError: x must be aligned"}


def test_results_keep_the_layout_that_the_original_gives_them(probe: Probe) -> None:
    def follows(inputs: Inputs) -> Tensor:
        result: Tensor = inputs["x"] * inputs["w"]
        return result

    (failure,) = probe(product, original=follows)[0][:1]

    assert failure == "layouts: output: with transposed inputs: strides (40, 1), the original's (1, 24)"


def test_a_gradient_that_is_asked_for_alone_is_right_too(probe: Probe) -> None:
    class Shared(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
            ctx.save_for_backward(x, w)
            return product({"x": x, "w": w})

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None]:
            x, w = ctx.saved_tensors
            dx = torch.empty_like(gradients[0])
            if ctx.needs_input_grad[1]:
                dx.copy_(gradients[0] * w)
            return dx, (gradients[0] * x).sum(dim=0)

    (failure,) = probe(lambda inputs: Shared.apply(inputs["x"], inputs["w"]))[0]  # type: ignore[no-untyped-call]

    assert failure.startswith("gradient layouts: gradient of x: with the gradient of x alone: NaN where it does not")


def test_a_probe_that_the_target_names_is_left_out(probe: Probe) -> None:
    failures, skipped = probe(ignores, unprobed=("strided rows", "transposed inputs", "expanded inputs"))

    assert [failure for failure in failures if failure.startswith("layouts")] == []
    assert skipped["layouts, strided rows"] == "the target names it in `unprobed`"


def test_an_input_that_is_overwritten_is_not_expanded(probe: Probe) -> None:
    def in_place(inputs: Inputs) -> Tensor:
        return inputs["x"].mul_(inputs["w"])

    changes = {"forward_only": True, "overwrites": ("x",)}

    assert probe(in_place, original=in_place, **changes) == ([], {})


def test_a_gradient_that_is_nothing_but_rounding_is_no_reason(gate: Any) -> None:
    def softmax(inputs: Inputs) -> Tensor:
        return inputs["x"].softmax(dim=-1)

    def by_hand(inputs: Inputs) -> Tensor:
        x = inputs["x"].contiguous()
        powers = (x - x.amax(dim=-1, keepdim=True).detach()).exp()
        return powers / powers.sum(dim=-1, keepdim=True)

    given = {"original": softmax, "reference": softmax, "differentiable": ("x",)}
    failures = gate.check(by_hand, **given).failures

    assert [failure for failure in failures if failure.check in ("layouts", "gradient layouts")] == []


def test_large_cases_are_probed_only_where_they_are_the_smallest_of_their_dtype(
    probe: Probe, gate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layouts, "SMALL_ELEMENTS", 100)
    smaller, here = gate.case(rows=2), gate.case()

    assert probe(ignores, cases=(smaller, here)) == ([], {})
    assert probe(ignores, cases=(gate.case(DType.FLOAT16, rows=2), here))[0] != []


@pytest.mark.parametrize("name", [*INPUT_LAYOUTS, *GRADIENT_LAYOUTS])
def test_a_layout_keeps_shape_and_values_and_changes_strides_or_address(name: str) -> None:
    tensor = torch.arange(1.0, 31.0).view(5, 6)

    other = {**INPUT_LAYOUTS, **GRADIENT_LAYOUTS}[name](tensor)

    assert other is not None and other.shape == tensor.shape
    assert (other.stride(), other.storage_offset()) != (tensor.stride(), 0)
    assert name.endswith("expanded inputs") or "expanded" in name or torch.equal(other, tensor)
