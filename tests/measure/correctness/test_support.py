from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import Tensor
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.utils import counters

from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.measurement import CaseCheck
from warpsmith.contracts.target import Inputs
from warpsmith.measure.correctness import support

AUTOCAST = "under torch.autocast('cpu', torch.bfloat16)"


@pytest.fixture
def probed(gate: Any) -> Callable[..., CaseCheck]:
    """The gate at the one case of a target, which is then the one that is probed."""

    def check(candidate: Callable[[Inputs], Any], **changes: Any) -> CaseCheck:
        case = changes.pop("case", gate.case())
        found: CaseCheck = gate.check(candidate, case, cases=(case,), **changes)
        return found

    return check


def told(found: CaseCheck) -> list[tuple[str, str]]:
    return [(failure.check, str(failure)) for failure in found.failures]


def product(inputs: Inputs) -> Tensor:
    """A product of matrices, which autocast computes in bfloat16."""
    return inputs["x"] @ inputs["w"].outer(inputs["w"])


PRODUCT: dict[str, Any] = {"original": product, "reference": product}


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0] * 2


def doubled(inputs: Inputs) -> Tensor:
    y: Tensor = Doubled.apply(inputs["x"])  # type: ignore[no-untyped-call]
    return y


DOUBLES: dict[str, Any] = {"original": doubled, "reference": doubled}


def with_a_break(inputs: Inputs) -> Tensor:
    torch._dynamo.graph_break()
    return doubled(inputs)


@pytest.mark.parametrize("dtype", DType)
def test_what_the_original_does_passes(probed: Any, gate: Any, dtype: DType) -> None:
    found = probed(product, **PRODUCT, case=gate.case(dtype))
    assert (told(found), found.skipped) == ([], {})


def test_another_dtype_under_autocast_is_found(probed: Any) -> None:
    def stays_wide(inputs: Inputs) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return product(inputs)

    assert told(probed(stays_wide, **PRODUCT)) == [
        ("autocast", f"output: {AUTOCAST}: dtype torch.float32, the original's torch.bfloat16")
    ]


def test_the_first_dtype_that_a_candidate_fails_under_ends_it(probed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(support.AUTOCAST_DTYPES, "cpu", (torch.bfloat16, torch.float16))

    def widened(inputs: Inputs) -> Tensor:
        return doubled(inputs).double() if torch.is_autocast_enabled("cpu") else doubled(inputs)

    assert told(probed(widened, **DOUBLES)) == [
        ("autocast", f"output: {AUTOCAST}: dtype torch.float64, the original's torch.float32")
    ]


def test_a_candidate_may_not_lose_digits_under_autocast_that_the_original_keeps(probed: Any) -> None:
    def narrows(inputs: Inputs) -> Tensor:
        x = inputs["x"]
        return doubled({"x": x.bfloat16().float() if torch.is_autocast_enabled("cpu") else x})

    (check, failure), *_ = told(probed(narrows, **DOUBLES))
    assert check == "autocast"
    assert failure.startswith(f"output: {AUTOCAST}: RMS error")


def test_a_candidate_that_fails_under_autocast_alone_is_told(probed: Any) -> None:
    def refuses(inputs: Inputs) -> Tensor:
        if torch.is_autocast_enabled("cpu"):
            raise TypeError("float32 is expected")
        return doubled(inputs)

    assert told(probed(refuses, **DOUBLES)) == [
        ("autocast", f"{AUTOCAST} it fails (runtime_failed: TypeError: float32 is expected); the original does not")
    ]


@pytest.mark.parametrize(
    ("under_autocast", "why"),
    [
        (lambda inputs: inputs["nothing"], "fails (runtime_failed: KeyError: 'nothing')"),
        (lambda inputs: inputs["x"] * 2.5, "is far from float64"),
        (lambda inputs: inputs["x"] * float("nan"), "is far from float64"),
    ],
)
def test_a_candidate_is_not_held_to_autocast_that_the_original_does_not_support(
    probed: Any, under_autocast: Callable[[Inputs], Any], why: str
) -> None:
    def original(inputs: Inputs) -> Any:
        return under_autocast(inputs) if torch.is_autocast_enabled("cpu") else doubled(inputs)

    found = probed(doubled, original=original, reference=doubled)
    assert told(found) == []
    assert found.skipped["autocast"] == f"{AUTOCAST} the original {why}"


def test_more_graph_breaks_than_the_original_has_are_found(probed: Any) -> None:
    ((check, failure),) = told(probed(with_a_break, **DOUBLES))
    assert check == "compile"
    assert failure.startswith("under torch.compile its graph breaks ")
    assert "the original's 0 times: Call to `torch._dynamo.graph_break()`" in failure
    assert told(probed(with_a_break, **{**DOUBLES, "original": with_a_break})) == []


def test_a_candidate_that_is_wrong_when_compiled_alone_is_found(probed: Any) -> None:
    def behaves_otherwise(inputs: Inputs) -> Tensor:
        return inputs["x"] * 2.5 if torch.compiler.is_compiling() else doubled(inputs)

    (check, failure), *_ = told(probed(behaves_otherwise, **DOUBLES))
    assert (check, failure.partition(" error")[0]) == ("compile", "output: under torch.compile: RMS")


def test_a_candidate_that_cannot_be_compiled_is_told(probed: Any) -> None:
    def refuses(inputs: Inputs) -> Tensor:
        return inputs["x"] @ torch.ones(3, 3) if torch.compiler.is_compiling() else doubled(inputs)

    ((check, failure),) = told(probed(refuses, **DOUBLES))
    assert check == "compile"
    assert failure.startswith("under torch.compile it fails (runtime_failed: ")

    found = probed(doubled, **{**DOUBLES, "original": refuses})
    assert told(found) == []
    assert found.skipped["compile"].startswith("under torch.compile the original fails (runtime_failed: ")


def test_compiling_without_end_ends(probed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def unrolls(inputs: Inputs) -> Tensor:
        y = doubled(inputs)
        for _ in range(10**9 if torch.compiler.is_compiling() else 1):
            y = y + 0.0
        return y

    monkeypatch.setattr(support, "COMPILE_LIMIT_S", 1.0)
    assert told(probed(unrolls, **DOUBLES)) == [
        ("compile", "under torch.compile it does not finish within 1 s; the original does not")
    ]


def test_where_kernels_are_interpreted_nothing_is_compiled(probed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    found = probed(with_a_break, **DOUBLES)
    assert told(found) == []
    assert found.skipped["compile"] == "kernels are interpreted here, and dynamo would trace the interpreter"


def test_one_case_of_each_dtype_is_probed_the_smallest_of_several_rows(gate: Any) -> None:
    sizes = [(1, 16), (24, 40), (8, 8), (0, 8)]
    cases = tuple(gate.case(dtype, *size) for dtype in (DType.FLOAT32, DType.FLOAT16) for size in sizes)

    def cost(case: Case, mode: Mode) -> Cost:
        return Cost(bytes_moved=case.axes["M"] * case.axes["N"], flops=1)

    trials = [gate.trial(case, cases=cases, cost=cost) for case in (*cases, gate.case(DType.FLOAT32, 4, 4))]
    assert [trial.case.name for trial in trials if support.smallest_case(trial) == trial.case] == [
        "8x8-fp32",
        "8x8-fp16",
    ]


def test_what_the_target_leaves_out_is_not_tried(probed: Any) -> None:
    def refuses(inputs: Inputs) -> Tensor:
        assert not torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling()
        return doubled(inputs)

    found = probed(refuses, **DOUBLES, unprobed=("autocast", "compile"))
    assert told(found) == []
    left_out = "the target names it in `unprobed`"
    assert {name: found.skipped[name] for name in ("autocast", "compile")} == {
        "autocast": left_out,
        "compile": left_out,
    }


def test_nothing_stays_behind(probed: Any) -> None:
    step = InstructionTranslatorBase.step
    probed(with_a_break, **DOUBLES)
    assert InstructionTranslatorBase.step is step
    assert not counters["graph_break"]
    assert logging.root.manager.disable == logging.NOTSET
    assert torch._dynamo.eval_frame.cached_backends == {}
    assert not torch.is_autocast_enabled("cpu")
