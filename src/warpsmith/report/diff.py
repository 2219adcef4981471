"""The difference between two sources, in the form that patch and git understand, and what is read off it. Pure."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

_NO_NEWLINE = "\\ No newline at end of file\n"
#: A name that a line at the outermost level of a module defines.
_DEFINES = re.compile(r"(?:(?:async )?def|class) (\w+)|([A-Za-z_]\w*)(?:\s*:[^=]+)?\s*=(?!=)")


@dataclass(frozen=True)
class DiffLine:
    """A line of a unified diff and what it is: head, hunk, added, removed or context."""

    kind: str
    text: str


@dataclass(frozen=True)
class ChangeSize:
    """How much there is to read: lines added and removed, and names that the module did not have."""

    added: int
    removed: int
    names: tuple[str, ...]


def unified_diff(original: str, variant: str, original_name: str, variant_name: str) -> str:
    """A unified diff with three lines of context that `patch` can apply. Empty where the texts are equal."""
    lines = difflib.unified_diff(
        original.splitlines(keepends=True), variant.splitlines(keepends=True), original_name, variant_name
    )
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in lines)


def diff_lines(diff: str) -> tuple[DiffLine, ...]:
    """The lines by kind. The two name lines stand before the first hunk, so a removed "-- x" is not one."""
    lines: list[DiffLine] = []
    in_hunk = False
    for text in diff.splitlines():
        in_hunk = in_hunk or text.startswith("@@")
        lines.append(DiffLine(_kind(text) if in_hunk else "head", text))
    return tuple(lines)


def change_size(diff: str) -> ChangeSize:
    """Names are those of functions, classes and values at the outermost level of the module."""
    lines = diff_lines(diff)
    added, removed = ([line.text[1:] for line in lines if line.kind == kind] for kind in ("added", "removed"))
    gone = set(_defined(removed))
    return ChangeSize(len(added), len(removed), tuple(name for name in _defined(added) if name not in gone))


def _defined(lines: list[str]) -> dict[str, None]:
    found = (match for line in lines if (match := _DEFINES.match(line)))
    return dict.fromkeys(match[1] or match[2] for match in found)


def _kind(text: str) -> str:
    if text.startswith("@@"):
        return "hunk"
    return {"+": "added", "-": "removed"}.get(text[:1], "context")
