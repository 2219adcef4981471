"""A worker whose GPU memory a source will not let go of answers no more: the next source would be short of it.

Torch's allocator alone is asked.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from typing import Any

import torch

from warpsmith.contracts.base import Contract
from warpsmith.measure.worker.failures import is_sticky
from warpsmith.measure.worker.serve import retire

#: Chosen: of a GPU's memory, what a worker may hold between questions. The caches of a timer take far less.
MOST_HELD = 0.5

Handler = Callable[[Any], Contract]


def leaving_memory(handlers: Mapping[str, Handler]) -> dict[str, Handler]:
    """The same handlers; after each the process retires if most of the GPU's memory is still held."""
    return {kind: _leaving_memory(handler) for kind, handler in handlers.items()}


def _leaving_memory(handler: Handler) -> Handler:
    def answered(question: Any) -> Contract:
        try:
            answer = handler(question)
        except Exception as error:
            if not is_sticky(error):  # after which the context answers nothing
                _retire_if_held()
            raise
        _retire_if_held()
        return answer

    return answered


def _retire_if_held() -> None:
    if not torch.cuda.is_initialized() or _held() <= MOST_HELD:
        return
    gc.collect()
    torch.cuda.empty_cache()
    if (held := _held()) > MOST_HELD:
        retire(f"{held:.0%} of the GPU's memory is still held")


def _held() -> float:
    """The part of the current GPU's memory that torch holds in this process."""
    _, total_bytes = torch.cuda.mem_get_info()
    return torch.cuda.memory_reserved() / total_bytes
