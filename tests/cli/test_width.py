"""Text for people is as wide as their terminal; what is no terminal is taken for one of a hundred columns."""

from __future__ import annotations

import io
import os

import pytest

from warpsmith.cli.width import columns, first_of, say, wrapped


def test_what_is_no_terminal_has_a_hundred_columns() -> None:
    assert columns(io.StringIO()) == 100


@pytest.mark.parametrize(("shown", "found"), [(72, 72), (0, 100), (3, 20)])
def test_a_terminal_has_its_own_columns_unless_it_does_not_say(
    monkeypatch: pytest.MonkeyPatch, shown: int, found: int
) -> None:
    monkeypatch.setattr("os.get_terminal_size", lambda fd: os.terminal_size((shown, 24)))
    with open(os.devnull) as stream:
        assert columns(stream) == found


def test_each_line_is_wrapped_by_itself_and_goes_on_indented() -> None:
    assert wrapped("  one two three\n\n    four", 9) == ["  one two", "    three", "", "    four"]


def test_a_word_that_is_wider_stays_whole() -> None:
    assert wrapped("see /a/very/long/path.py here", 12) == ["see", "  /a/very/long/path.py", "  here"]


def test_a_long_line_is_said_on_several() -> None:
    stream = io.StringIO()
    say(["word " * 30, "end"], stream)

    assert [len(line) for line in stream.getvalue().splitlines()] == [99, 51, 3]


def test_of_many_names_the_first_are_told_and_where_the_others_are() -> None:
    assert first_of(["a", "b"], 2, "elsewhere") == ["a", "b"]
    assert first_of(["a", "b", "c", "d"], 2, "elsewhere") == ["a", "b", "and 2 more; elsewhere"]
