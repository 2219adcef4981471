"""Ways in which a file can be damaged: by a kill, a power cut, a careless editor, another program."""

from __future__ import annotations

import codecs
import json
from typing import Any

from hypothesis import strategies as st

#: Bounded and the same on every run, so that a failure is found again.
EXAMPLES = 120

_INSERTED = st.sampled_from(
    [b"\0" * 7, codecs.BOM_UTF8, b"\xff", b"\r", b"\n", b'"', b"{", b"}", b"\xed\xa0\x80", b"\x1a"]
)
_SCALARS = st.sampled_from([None, True, -1, 0, 10**40, 1e308, -0.0, "", "\ud800", "x" * 300, "../..", [], {}, [[]]])


@st.composite
def damaged_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """Cut short, flipped, with bytes put in, with a line repeated, or with something else altogether."""
    place = draw(st.integers(0, len(content)), label="place")
    kind = draw(st.sampled_from(["cut", "flip", "insert", "tail", "repeat", "replace"]), label="kind")
    if kind == "cut":
        return content[:place]
    if kind == "flip" and place < len(content):
        return content[:place] + bytes([content[place] ^ (1 << draw(st.integers(0, 7)))]) + content[place + 1 :]
    if kind == "insert":
        return content[:place] + draw(_INSERTED) + content[place:]
    if kind == "tail":
        return content + draw(st.binary(max_size=12))
    if kind == "repeat":
        lines = content.splitlines(keepends=True)
        index = draw(st.integers(0, max(0, len(lines) - 1)))
        return b"".join([*lines[: index + 1], *lines[index:]])
    return draw(st.binary(max_size=60))


@st.composite
def damaged_json(draw: st.DrawFn, content: bytes) -> bytes:
    """Still JSON, with one value replaced, nested without end, renamed or removed."""
    document: Any = json.loads(content)
    place = document
    while True:
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))), label="key")
        if not isinstance(place[key], dict | list) or not place[key] or draw(st.booleans(), label="here"):
            break
        place = place[key]
    kind = draw(st.sampled_from(["replace", "remove", "nest", "number"]), label="kind")
    if kind == "remove":
        del place[key]
        return json.dumps(document).encode()
    place[key] = draw(_SCALARS, label="value") if kind == "replace" else "<here>"
    deep = {"nest": "[" * 20_000 + "]" * 20_000, "number": "9" * 6000}.get(kind, "")
    return json.dumps(document).replace('"<here>"', deep).encode()


def damaged_document(content: bytes) -> st.SearchStrategy[bytes]:
    return damaged_bytes(content) | damaged_json(content)
