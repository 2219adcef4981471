"""The real RMSNorm target, and sources made from its kernel by replacing text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from warpsmith.contracts.measurement import Contender, SourceRef
from warpsmith.contracts.target import Target
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.loading import load_implementation, load_target

ROOT = Path(__file__).resolve().parents[2]
#: The kernel as it was before it was made faster: what is replaced in it does not change with the production file.
ORIGINAL = ROOT / "optimization" / "rms_norm" / "original_rms_norm.py"


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def target() -> Target:
    return load_target(str(ROOT / "benchmark" / "benchmark_rms_norm.py"))


def source_ref(path: Path) -> SourceRef:
    return SourceRef(path=str(path), sha256=hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.fixture(scope="session")
def original(target: Target) -> Implementation:
    contender = Contender(name="original", source=source_ref(ORIGINAL))
    return load_implementation(target, contender, str(ROOT))


@pytest.fixture
def variant(target: Target, tmp_path: Path) -> Callable[..., Implementation]:
    """The kernel's source with each (old, new) replaced; every old text must be there exactly once."""

    def make(*replacements: tuple[str, str]) -> Implementation:
        text = ORIGINAL.read_text(encoding="utf-8")
        for old, new in replacements:
            assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
            text = text.replace(old, new)
        path = tmp_path / "rms_norm_v1.py"
        path.write_text(text, encoding="utf-8")
        return load_implementation(target, Contender(name="candidate", source=source_ref(path)), str(ROOT))

    return make
