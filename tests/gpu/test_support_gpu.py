from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from warpsmith.contracts.measurement import CaseCheck, Contender, SourceRef
from warpsmith.contracts.target import Target
from warpsmith.measure.correctness.gate import check
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.loading import load_implementation

pytestmark = pytest.mark.gpu

#: Of their dtype the cases that move the fewest bytes, of more than one row.
PROBED = ("127x1021-fp16", "64x8192-bf16")


def gate(candidate: Implementation, original: Implementation, target: Target) -> tuple[CaseCheck, ...]:
    cases = [case for case in target.cases if case.name in PROBED]
    assert len(cases) == len(PROBED)
    device = torch.device("cuda", torch.cuda.current_device())
    return check(candidate, original, target, cases, device=device, seed=3)


def test_the_winner_does_under_autocast_and_torch_compile_what_the_original_does(
    original: Implementation, target: Target, root: Path
) -> None:
    path = root / target.source
    source = SourceRef(path=str(path), sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    winner = load_implementation(target, Contender(name="winner", source=source), str(root))
    found = gate(winner, original, target)

    assert [tuple(map(str, each.failures)) for each in found] == [(), ()]
    assert not {"autocast", "compile"} & {name for each in found for name in each.skipped}


def test_a_graph_break_that_the_original_does_not_have_is_found(
    variant: Callable[..., Implementation], original: Implementation, target: Target
) -> None:
    empty = "    y = torch.empty_like(rows)\n"
    found = gate(variant((empty, f"    torch._dynamo.graph_break()\n{empty}")), original, target)

    for each in found:
        (failure,) = each.failures
        assert failure.check == "compile"
        assert failure.message.startswith("under torch.compile its graph breaks ")


def test_another_dtype_under_autocast_is_found(
    variant: Callable[..., Implementation], original: Implementation, target: Target
) -> None:
    result = "    y: Tensor = RMSNormFunction.apply(x, weight, eps, offset, casting)\n    return y\n"
    widened = result.replace("return y", "return y.float() if torch.is_autocast_enabled() else y")
    found = gate(variant((result, widened)), original, target)

    for each in found:
        (failure,) = each.failures
        assert (failure.check, failure.part) == ("autocast", "output")
        assert "dtype torch.float32" in failure.message
