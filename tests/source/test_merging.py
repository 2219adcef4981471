"""Two changes of one text are put together where they do not meet, and refused where they do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.source.merging import merged
from warpsmith.source.refusal import NotApplicable

BASE = "a\nb\nc\nd\n"


@pytest.mark.parametrize(
    ("ours", "theirs", "result"),
    [
        ("A\nb\nc\nd\n", "a\nb\nc\nD\n", "A\nb\nc\nD\n"),
        ("A\nb\nc\nd\n", "a\nB\nc\nd\n", "A\nB\nc\nd\n"),  # beside each other
        ("a\nb\nd\n", "a\nb\nc\nd\ne\n", "a\nb\nd\ne\n"),
        ("a\nx\nb\nc\nd\n", "a\nb\nc\ny\nd\n", "a\nx\nb\nc\ny\nd\n"),
        ("A\nb\nc\nd\n", "A\nb\nc\nd\n", "A\nb\nc\nd\n"),  # alike
        ("A\nb\nC\nd\n", "A\nb\nc\nD\n", "A\nb\nC\nD\n"),  # one alike, two beside each other
        ("A\nb\nc\nd\n", "a2\nb\nc\nd\n", None),
        ("a\nx\nb\nc\nd\n", "a\ny\nb\nc\nd\n", None),  # in one place, in which order?
        ("a\nb\nc\nd\nx", "a\nb\nc\nd\ny", None),
    ],
)
def test_what_does_not_meet_is_put_together(ours: str, theirs: str, result: str | None) -> None:
    if result is None:
        with pytest.raises(NotApplicable, match=r"line \d is changed by both"):
            merged(BASE, ours, theirs)
    else:
        assert merged(BASE, ours, theirs) == merged(BASE, theirs, ours) == result


def test_a_change_is_taken_out_by_merging_its_way_back() -> None:
    first, both = "A\nb\nc\nd\n", "A\nb\nc\nD\n"
    assert merged(first, both, BASE) == "a\nb\nc\nD\n"


TEXTS = st.lists(st.sampled_from(["a\n", "b\n", "c\n"]), max_size=8).map("".join)


@given(TEXTS, TEXTS)
def test_a_change_beside_none_is_itself(base: str, changed: str) -> None:
    assert merged(base, base, changed) == merged(base, changed, base) == merged(base, changed, changed) == changed
