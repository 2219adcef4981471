"""However a kernel's source is damaged, it is read, refused or admitted with reasons, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from mutations import EXAMPLES, damaged_bytes

from warpsmith.contracts.audit import SourceAudit
from warpsmith.contracts.errors import PreflightError
from warpsmith.source.admit import admit
from warpsmith.source.encoding import decoded
from warpsmith.source.scan import scan
from warpsmith.source.syntax import equal_syntax_tree

EXAMPLE = Path(__file__).resolve().parents[2] / "optimization" / "rms_norm"
ORIGINAL = (EXAMPLE / "original_rms_norm.py").read_bytes()
WINNER = (EXAMPLE / "rms_norm_v2.py").read_bytes()


@settings(
    max_examples=EXAMPLES // 2,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(content=damaged_bytes(ORIGINAL) | damaged_bytes(WINNER))
@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
def test_a_damaged_source_is_read_or_refused_with_its_line(content: bytes) -> None:
    try:
        text = decoded(content, "kernel.py")
        assert isinstance(scan(text), SourceAudit)
        equal_syntax_tree(text, ORIGINAL.decode())
    except PreflightError as error:
        assert "line " in error.message
        return
    assert isinstance(admit(ORIGINAL.decode(), text), tuple)


@pytest.mark.parametrize(
    "source",
    [
        "x = " + "(" * 5000 + ")" * 5000,
        "x = " + "-" * 20_000 + "1",
        "x = " + "+".join(["1"] * 20_000),
        "x" + ".y" * 20_000,
        "\n".join("  " * depth + "if x:" for depth in range(200)),
        "x = 1\0",
    ],
    ids=["parentheses", "signs", "sum", "attributes", "blocks", "nul"],
)
def test_a_source_that_python_cannot_walk_is_refused(source: str) -> None:
    for read in (scan, lambda text: equal_syntax_tree(text, ""), lambda text: admit(text, "")):
        try:
            read(source)
        except PreflightError as error:
            assert error.message.startswith("line ")


def test_a_number_that_python_reads_and_does_not_write_is_refused() -> None:
    launched = f"k[(0x{'f' * 5000},)](x, num_warps=0x{'f' * 5000})"
    source = f"import triton\n\n\n@triton.jit\ndef k(p):\n    pass\n\n\ndef f(x):\n    {launched}\n"

    with pytest.raises(PreflightError, match="the source cannot be read: Exceeds the limit"):
        scan(source)


def test_a_candidate_that_python_cannot_walk_is_not_admitted() -> None:
    assert admit("x = 1\n", "x = " + "(" * 1000 + "1" + ")" * 1000) != ()
