"""Text for people, as wide as where it is shown. Loaded before all else, so it imports only what starts at once."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

#: Chosen: what is no terminal is read in one that is about as wide.
USUAL_COLUMNS = 100
LEAST_COLUMNS = 20


def columns(stream: TextIO) -> int:
    """Those of the terminal that the stream is; the usual ones where it is none."""
    try:
        found = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return USUAL_COLUMNS
    return max(LEAST_COLUMNS, found) if found else USUAL_COLUMNS


def wrapped(text: str, width: int) -> list[str]:
    """Each line of the text on as many as it takes, those after its first indented. A longer word stays whole."""
    lines = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())] + "  "
        lines += textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return lines


def say(lines: str | Iterable[str], stream: TextIO) -> None:
    """Prints a line or lines, wrapped."""
    for line in [lines] if isinstance(lines, str) else lines:
        for each in wrapped(line, columns(stream)):
            print(each, file=stream)


def first_of(names: Sequence[str], most: int, where: str) -> list[str]:
    """The names, or `most` of them and where the others are told."""
    if len(names) <= most:
        return list(names)
    return [*names[:most], f"and {len(names) - most} more; {where}"]
