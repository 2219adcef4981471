"""Between a source file's bytes and its text, as Python reads it (PEP 263): UTF-8, else what it declares.

Text has "\n" for every line ending; line endings are put back by whoever writes the file. Changes nothing.
"""

from __future__ import annotations

import io
import tokenize

from warpsmith.contracts.errors import PreflightError


def decoded(content: bytes, name: str) -> str:
    """The text of a source, without a byte order mark.

    Raises PreflightError naming the file and line where it is not in the encoding that it declares, or in none.
    """
    try:
        text = content.decode(_encoding(content))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found = f"the byte {content[error.start]:#04x} ({error.reason})"
        raise _unreadable(f"{name}, line {line}: expected {error.encoding}, found {found}") from error
    except (SyntaxError, LookupError, UnicodeError) as error:
        raise _unreadable(f"{name}, line 1: {error}; expected the name of a text encoding") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def encoded(text: str, original: bytes) -> bytes:
    """`text` in the encoding of the original, with its byte order mark where it has one.

    Raises PreflightError where that encoding lacks a character of the text.
    """
    try:
        return text.encode(_encoding(original))
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        missing = error.object[error.start : error.end]
        raise _unreadable(f"line {line}: the source's encoding, {error.encoding}, has no {missing!r}") from error


def _encoding(content: bytes) -> str:
    """Raises UnicodeDecodeError, SyntaxError, LookupError."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    except SyntaxError:
        content.decode("utf-8")  # its first lines may be no UTF-8 and declare nothing: that error has a place
        raise
    "".encode(encoding)  # a codec between bytes and bytes, such as rot13, has a name too
    return encoding


def _unreadable(message: str) -> PreflightError:
    return PreflightError(message, next_command="save the file as UTF-8")
