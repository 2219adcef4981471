"""Puts two changes of one text together, line by line, as a three-way merge does. Must not know what the text means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from warpsmith.source.refusal import NotApplicable


@dataclass(frozen=True)
class _Edit:
    """Lines of the base from `start` up to `end` that become `lines`; equal ends are an insertion."""

    start: int
    end: int
    lines: tuple[str, ...]

    def meets(self, other: _Edit) -> bool:
        """Whether both change a line, or put something in the same place."""
        if self.start == self.end or other.start == other.end:
            return self.start <= other.end and other.start <= self.end
        return self.start < other.end and other.start < self.end


def merged(base: str, ours: str, theirs: str) -> str:
    """`ours` with what `theirs` changed in `base`. What both changed alike is there once.

    Raises NotApplicable where both changed the same lines, each in another way.
    """
    lines = base.splitlines(keepends=True)
    of_ours, of_theirs = _edits(lines, ours), _edits(lines, theirs)
    for edit in of_theirs:
        met = next((own for own in of_ours if own != edit and own.meets(edit)), None)
        if met is not None:
            told = lines[met.start].strip() if met.start < len(lines) else "the end"
            raise NotApplicable(f"line {met.start + 1} is changed by both, at {told!r}")
    result: list[str] = []
    at = 0
    for edit in sorted({*of_ours, *of_theirs}, key=lambda each: (each.start, each.end)):
        result += [*lines[at : edit.start], *edit.lines]
        at = edit.end
    return "".join([*result, *lines[at:]])


def _edits(base: Sequence[str], text: str) -> list[_Edit]:
    changed = text.splitlines(keepends=True)
    codes = SequenceMatcher(None, base, changed, autojunk=False).get_opcodes()
    return [_Edit(a, b, tuple(changed[c:d])) for tag, a, b, c, d in codes if tag != "equal"]
