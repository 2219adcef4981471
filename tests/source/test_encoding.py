"""Text goes to the bytes that it came from, whatever the source declares; what cannot be read says where."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.contracts.errors import ExitCode, PreflightError
from warpsmith.source.encoding import decoded, encoded


@pytest.mark.parametrize(
    "content",
    [
        b"",
        "x = 'größe 模型'\n".encode(),
        codecs.BOM_UTF8 + b"x = 1\n",
        b"# -*- coding: latin-1 -*-\nx = '\xe4'\n",
        b"#!/usr/bin/env python\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n",
        "# coding: euc-jp\nx = '日本'\n".encode("euc-jp"),
    ],
    ids=["empty", "utf-8", "mark", "latin-1", "second line", "euc-jp"],
)
def test_text_goes_back_to_the_bytes_that_it_came_from(content: bytes) -> None:
    text = decoded(content, "kernel.py")

    assert "\ufeff" not in text
    assert encoded(text, content) == content


def test_a_source_reads_as_python_reads_it() -> None:
    assert decoded(b"# coding: latin-1\r\nx = '\xe4'\r", "kernel.py") == "# coding: latin-1\nx = 'ä'\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"x = 1\ny = '\xe4'\n",
            r"^pkg/kernel\.py, line 2: expected utf-8, found the byte 0xe4 \(invalid continuation",
        ),
        (b"a\nb\nc\nd = '\xff'\n", r"^pkg/kernel\.py, line 4: expected utf-8, found the byte 0xff"),
        (b"# coding: ascii\nx = '\xe4'\n", r"^pkg/kernel\.py, line 2: expected ascii, found the byte 0xe4"),
        (b"# coding: klingon\n", r"^pkg/kernel\.py, line 1: unknown encoding.* expected the name of a text encoding"),
        (b"# coding: rot13\n", r"^pkg/kernel\.py, line 1: 'rot13' is not a text encoding"),
        (b"# coding: undefined\n", r"^pkg/kernel\.py, line 1: .*undefined"),
        (codecs.BOM_UTF8 + b"# coding: latin-1\n", r"^pkg/kernel\.py, line 1: encoding problem"),
    ],
)
def test_what_cannot_be_read_names_file_and_line(content: bytes, message: str) -> None:
    with pytest.raises(PreflightError, match=message) as caught:
        decoded(content, "pkg/kernel.py")

    assert caught.value.exit_code is ExitCode.PREFLIGHT


def test_a_character_that_the_sources_encoding_lacks_is_told() -> None:
    with pytest.raises(PreflightError, match=r"line 2: the source's encoding, \S+, has no '模型'"):
        encoded("x = 1\ny = '模型'\n", b"# coding: latin-1\n")


@settings(deadline=None, derandomize=True)
@given(content=st.binary(max_size=40) | st.binary(max_size=30).map(lambda tail: b"# coding: " + tail))
def test_any_bytes_are_text_or_our_error(content: bytes) -> None:
    try:
        text = decoded(content, "kernel.py")
    except PreflightError as error:
        assert error.message.startswith("kernel.py, line ")
    else:
        assert "\r" not in text
