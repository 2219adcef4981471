"""The difference between two sources, in the form that patch and git understand."""

from __future__ import annotations

import difflib

_NO_NEWLINE = "\\ No newline at end of file\n"


def unified_diff(original: str, variant: str, original_name: str, variant_name: str) -> str:
    """A unified diff with three lines of context that `patch` can apply. Empty where the texts are equal."""
    lines = difflib.unified_diff(
        original.splitlines(keepends=True), variant.splitlines(keepends=True), original_name, variant_name
    )
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in lines)
