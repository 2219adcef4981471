"""Comments in which an author says that speed was left for later."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.syntax import Source

#: In parts, because this repository's own code is searched for such marks.
_MARKS = ("TO" + "DO", "FIX" + "ME", "X" * 3, "HACK")
_TAG = re.compile(rf"[(\[]?\b({'|'.join(_MARKS)})\b")
_ABOUT_SPEED = re.compile(
    r"\b(perf|slow|optimi[sz]|fast|speed|vectori|(auto)?tun(e|ing)|cach|occupan|warps?\b|num_warps|block.?size|"
    r"memory|bandwidth|latenc|throughput)",
    re.IGNORECASE,
)
#: Chosen: what fits on two lines of a page.
_LONGEST_QUOTE = 200


def performance_notes(source: Source) -> Iterator[Opportunity]:
    """In source order. A comment goes on over the lines of comment that follow it directly."""
    for line, text in _notes(source.text):
        if _ABOUT_SPEED.search(text):
            around = [f for f in source.functions if f.lineno <= line <= (f.end_lineno or f.lineno)]
            quoted = text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 3]}..."
            yield Opportunity(
                kind=OpportunityKind.PERFORMANCE_TODO,
                function=max(around, key=lambda f: f.lineno).name if around else "<module>",
                line=line,
                what=f'a comment says: "{quoted}"',
                why="whoever wrote the code left this for later",
            )


def _notes(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of every tagged comment, from its tag to the end of its last line."""
    comments = _comments(text)
    for line, (column, words, alone) in comments.items():
        tagged = _TAG.search(words)
        if tagged is None:
            continue
        told, following = [words[tagged.start() :].strip()], line + 1
        while alone and following in comments:
            next_column, further, next_alone = comments[following]
            if next_column != column or not next_alone or not further or _TAG.search(further):
                break
            told.append(further)
            following += 1
        yield line, " ".join(told)


def _comments(text: str) -> dict[int, tuple[int, str, bool]]:
    """(column, words, alone on its line) of the comment in each line that has one."""
    found: dict[int, tuple[int, str, bool]] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                line, column = token.start
                alone = not token.line[:column].strip()
                found[line] = (column, token.string.lstrip("# ").strip(), alone)
    except (tokenize.TokenError, SyntaxError):  # what ast reads and tokenize does not, such as form feeds
        return found
    return found
