"""Diffs that `git apply` takes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from warpsmith.report.diff import unified_diff


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
