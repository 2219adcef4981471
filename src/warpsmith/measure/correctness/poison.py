"""Makes memory that was never written show: what torch.empty gives is NaN, and the largest value for integers.

Owns two of torch's switches for the duration of a block, and nothing else.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.utils.deterministic


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """Fills uninitialised memory inside the block, and has torch use deterministic algorithms where it has them."""
    enabled = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    switches: Any = torch.utils.deterministic  # a module whose attribute is a property
    fill = switches.fill_uninitialized_memory
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*deterministic.*", category=UserWarning)
        torch.use_deterministic_algorithms(True, warn_only=True)
        switches.fill_uninitialized_memory = True
        try:
            yield
        finally:
            switches.fill_uninitialized_memory = fill
            torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
