"""Diffs that `git apply` takes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from warpsmith.report.diff import ChangeSize, change_size, unified_diff


@pytest.mark.parametrize(
    ("original", "variant"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb", "a\nb\n"),
        ("a\nb\n", "a\nc"),
        ("", "new\n"),
    ],
    ids=["a line", "newline added at the end", "newline lost at the end", "from nothing"],
)
def test_git_applies_it(tmp_path: Path, original: str, variant: str) -> None:
    (tmp_path / "kernel.py").write_text(original)
    diff = unified_diff(original, variant, "a/kernel.py", "b/kernel.py")

    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff, text=True, check=True)

    assert (tmp_path / "kernel.py").read_text() == variant


def test_equal_texts_have_no_diff() -> None:
    assert unified_diff("a\n", "a\n", "a/kernel.py", "b/kernel.py") == ""


def test_the_size_of_a_change_is_its_lines_and_what_the_module_did_not_define_before() -> None:
    original = "X = 1\nY: int = 2\n\n\ndef f():\n    return 1\n"
    added = "TABLE: dict[int, int] = {}\n\n\nclass C:\n    z = 1\n\n\nasync def g():\n    w = 1\n"
    variant = f"X = 3\nY: int = 2\n{added}\n\ndef f():\n    return X == 1\n"

    size = change_size(unified_diff(original, variant, "a/k.py", "b/k.py"))

    assert size.names == ("TABLE", "C", "g")
    assert (size.added, size.removed) == (11, 2)
    assert change_size("") == ChangeSize(0, 0, ())
