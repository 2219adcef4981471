"""Golden files, and the hand-built run that the tests of this room render."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
# Test modules are imported by path, so their neighbour is found only if it is told where.
sys.path.insert(0, str(HERE))

Golden = Callable[[str, str], None]


@pytest.fixture
def golden() -> Golden:
    """Compares a text with tests/report/golden/<name>; WARPSMITH_UPDATE_GOLDEN=1 writes it instead."""

    def check(name: str, text: str) -> None:
        path = HERE / "golden" / name
        if os.environ.get("WARPSMITH_UPDATE_GOLDEN") == "1":
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return check
