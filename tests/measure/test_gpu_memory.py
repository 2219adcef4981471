"""A worker goes on only where a source leaves it the GPU's memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from warpsmith.contracts.base import Contract
from warpsmith.measure import gpu_memory
from warpsmith.measure.gpu_memory import leaving_memory

TOTAL_BYTES = 1000


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, ...]]:
    """Why the process retires after a question, where torch holds so much before and after its cache is emptied."""

    def ask(held_bytes: int, after_bytes: int, error: Exception | None = None) -> tuple[str, ...]:
        held, reasons = [held_bytes], []
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (0, TOTAL_BYTES))
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: held[-1])
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: held.append(after_bytes))
        monkeypatch.setattr(gpu_memory, "retire", reasons.append)

        def handler(_: object) -> Contract:
            if error is not None:
                raise error
            return Contract()

        answered = leaving_memory({"check": handler})["check"]
        if error is None:
            answered(None)
        else:
            with pytest.raises(type(error)):
                answered(None)
        return tuple(reasons)

    return ask


def test_a_worker_retires_where_memory_is_held_that_no_emptied_cache_sets_free(
    asked: Callable[..., tuple[str, ...]],
) -> None:
    told = ("90% of the GPU's memory is still held",)
    assert asked(900, 900) == told
    assert asked(900, 900, torch.OutOfMemoryError("CUDA out of memory")) == told


def test_a_worker_that_has_its_memory_back_goes_on(asked: Callable[..., tuple[str, ...]]) -> None:
    assert asked(900, 100) == ()
    assert asked(100, 100) == ()


def test_a_broken_context_is_not_asked_for_its_memory(asked: Callable[..., tuple[str, ...]]) -> None:
    assert asked(900, 900, RuntimeError("CUDA error: an illegal memory access was encountered")) == ()
