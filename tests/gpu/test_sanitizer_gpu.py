from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from warpsmith.contracts.case import Case, DType
from warpsmith.contracts.measurement import SourceRef
from warpsmith.contracts.sanitizing import Sanitization, SanitizerTool
from warpsmith.contracts.target import Target
from warpsmith.measure.counters.sanitizer import find_sanitizer, sanitize
from warpsmith.measure.worker.protocol import Sanitize, TargetRef

pytestmark = pytest.mark.gpu

CASES = (
    Case(axes={"M": 127, "N": 1021}, dtype=DType.FLOAT16),
    Case(axes={"M": 64, "N": 1024}, dtype=DType.FLOAT32),
)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def under(tool: SanitizerTool, root: Path, source: Path) -> Sanitization:
    if find_sanitizer() is None:
        pytest.skip("compute-sanitizer is not installed")
    file = root / "benchmark" / "benchmark_rms_norm.py"
    found = sanitize(
        Sanitize(
            target=TargetRef(path=str(file), root=str(root), sha256=sha256(file)),
            source=SourceRef(path=str(source), sha256=sha256(source)),
            tool=tool,
            cases=CASES,
        )
    )
    if found.unavailable is not None:
        pytest.skip(f"{found.unavailable}; {found.remedy}")
    return found


@pytest.mark.parametrize("tool", SanitizerTool)
def test_an_honest_kernel_is_clean(root: Path, target: Target, tool: SanitizerTool) -> None:
    found = under(tool, root, root / target.source)
    assert found.clean, found
    assert found.version is not None


def test_a_read_of_one_value_beyond_the_end_is_found_with_its_kernel_and_line(root: Path, tmp_path: Path) -> None:
    text = (root / "optimization" / "rms_norm" / "original_rms_norm.py").read_text(encoding="utf-8")
    load = "        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)\n        y ="
    assert text.count(load) == 1
    beyond = load.replace("weight_ptr + cols, mask=mask", "weight_ptr + cols + 1, mask=mask")
    source = tmp_path / "rms_norm_v1.py"
    source.write_text(text.replace(load, beyond), encoding="utf-8")

    found = under(SanitizerTool.MEMCHECK, root, source)

    assert found.errors
    first = found.first
    assert first is not None
    line = text[: text.index(load)].count("\n") + 1
    assert first.kind.startswith("Invalid __global__ read of size")
    assert (first.kernel, first.place, first.case) == (
        "_rms_norm_forward_kernel",
        f"rms_norm_v1.py:{line}",
        CASES[0].name,
    )
