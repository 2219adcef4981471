"""Replays of a captured call, where the graph stands in for one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from warpsmith.measure.correctness.replay import CapturedCall


class WrittenOverItsInput(torch.autograd.Function):
    """Its gradient is a view of the input, made by the pass forward, that the pass backward has written over."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.rows = x.view(2, -1)
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        ctx.rows.data.copy_(dy.view(2, -1) * 2.0)
        return ctx.rows.view(-1)


def test_a_gradient_that_is_a_view_of_its_input_is_poisoned_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    x = torch.ones(6, requires_grad=True)
    (gradient,) = torch.autograd.grad(WrittenOverItsInput.apply(x), x, torch.ones(6))
    seen: list[bool] = []
    graph = SimpleNamespace(replay=lambda: seen.append(bool(gradient.isnan().all())))
    trial = SimpleNamespace(restore=lambda: None, device=torch.device("cpu"))

    CapturedCall(cast(Any, graph), {"gradient of x": gradient}).replay(cast(Any, trial))

    assert seen == [True]
