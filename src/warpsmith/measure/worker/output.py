"""What a worker prints, in a log that stays small: of each answer's output the beginning and the end."""

from __future__ import annotations

import contextlib
from typing import IO

#: Chosen: of what is printed while one question is answered, so much is kept of its beginning, and of its end.
KEPT_BYTES = 1 << 20


class CappedLog:
    """Appends to a file. What is beyond the beginning is held back until `flush`, and is then left out but for its end.

    A disk that is full costs the log, not the answer.
    """

    def __init__(self, file: IO[bytes], kept_bytes: int = KEPT_BYTES) -> None:
        self._file, self._kept_bytes = file, kept_bytes
        self._room, self._end, self._beyond_bytes = kept_bytes, bytearray(), 0

    def write(self, printed: bytes) -> None:
        self._append(printed[: self._room])
        beyond = printed[self._room :]
        self._room -= len(printed) - len(beyond)
        self._beyond_bytes += len(beyond)
        self._end += beyond
        if len(self._end) > 2 * self._kept_bytes:
            del self._end[: -self._kept_bytes]

    def flush(self) -> None:
        """Writes what was held back, and begins anew."""
        end = bytes(self._end[-self._kept_bytes :])
        if left_out := self._beyond_bytes - len(end):
            self._append(f"\n[{left_out} bytes of output left out]\n".encode())
        self._append(end)
        self._room, self._end, self._beyond_bytes = self._kept_bytes, bytearray(), 0

    def close(self) -> None:
        self.flush()
        self._file.close()

    def _append(self, printed: bytes) -> None:
        if printed:
            with contextlib.suppress(OSError):
                self._file.write(printed)
