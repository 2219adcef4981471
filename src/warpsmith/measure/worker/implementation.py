"""One implementation under measurement, ready to be called in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warpsmith.contracts.target import Inputs


@dataclass(frozen=True)
class Implementation:
    """A contender that has been loaded.

    `call` maps inputs to outputs (a tensor or tuple of tensors). `activate` makes this contender's
    settings current in its module; call it before every capture and every eager call, because
    several contenders may share one module. `source_path` is None for a baseline provider.
    """

    name: str
    call: Callable[[Inputs], Any]
    activate: Callable[[], None]
    source_path: str | None
