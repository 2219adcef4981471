"""Follows the `.loc` directives of PTX to the line of the file in which the kernel stands.

Where the compiler inlined a function, the caller is told in one of two forms: up to Triton 3.7 in the comment behind
the directive, by file name (`standard.py:293:36 @[ kernel.py:20:41 ]`), from 3.8 on in the directive itself
(`inlined_at 1 20 41`). Owns both. Must not know instructions.
"""

from __future__ import annotations

import re
from pathlib import PurePath

_LOCATION = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*?\binlined_at\s+(\d+)\s+(\d+)\s+(\d+))?(?:.*?//(.*))?")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', flags=re.MULTILINE)
#: Of a function that can be launched, up to its first location, which is where it is defined.
_ENTRY = re.compile(r"^[^\n/]*\.entry\b.*?^\s*\.loc\s+(\d+)\s", flags=re.MULTILINE | re.DOTALL)

_Location = tuple[int, int, int]


def is_location(text: str) -> bool:
    return text.lstrip().startswith(".loc\t") or text.lstrip().startswith(".loc ")


class Lines:
    """Where an instruction comes from, as the directives are met in order.

    The kernel's file is known by the location of its definition, not by its path: a kernel that Triton's cache brings
    may have been compiled from a copy that lay elsewhere.
    """

    def __init__(self, ptx: str) -> None:
        entry = _ENTRY.search(ptx)
        self._file = int(entry.group(1)) if entry is not None else None
        names = {int(number): PurePath(path).name for number, path in _FILE.findall(ptx)}
        self._name = names.get(self._file) if self._file is not None else None
        self._is_only_one = list(names.values()).count(str(self._name)) == 1
        self._callers: dict[_Location, _Location] = {}
        #: the line of the kernel's file, None where the instruction comes from elsewhere or from no line at all
        self.current: int | None = None

    def move(self, directive: str) -> None:
        """On to the instructions behind a directive."""
        found = _LOCATION.match(directive)
        if found is None:
            return
        file, line, column, *caller = (int(number) for number in found.groups()[:6] if number is not None)
        if caller:
            self._callers[file, line, column] = (caller[0], caller[1], caller[2])
        if file == self._file:
            self.current = line or None
        else:
            self.current = self._by_callers((file, line, column)) or self._by_comment(found.group(7) or "")

    def _by_callers(self, at: _Location) -> int | None:
        """The first line of the kernel's file on the way out. A place with several callers is that of the latest."""
        seen: set[_Location] = set()
        while at[0] != self._file:
            if at in seen or at not in self._callers:
                return None
            seen.add(at)
            at = self._callers[at]
        return at[1] or None

    def _by_comment(self, comment: str) -> int | None:
        """The same by file names. The outermost is the kernel's; of others, one whose name no other file has."""
        _, *callers = (place.strip(" ]").rsplit(":", maxsplit=2) for place in comment.split("@["))
        for name, line, *_ in callers if self._is_only_one else callers[-1:]:
            if name == self._name and line.isdecimal():
                return int(line) or None
        return None
