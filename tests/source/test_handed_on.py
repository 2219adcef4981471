"""Tensors that a later launch of the same call reads again: no stream that is used once, and a pattern."""

from __future__ import annotations

import pytest

from warpsmith.contracts.audit import OpportunityKind, Pattern, PatternKind
from warpsmith.source.scan import scan

HEAD = """\
import triton
import triton.language as tl


@triton.jit
def _first(x_ptr, part_ptr, n_cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n_cols + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(part_ptr + at, x * 2)


@triton.jit
def _second(part_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n_cols + tl.arange(0, BLOCK)
    part = tl.load(part_ptr + at)
    tl.store(y_ptr + at, part + 1)


"""
FIRST, SECOND = "_first[(8,)](x, part, 8, BLOCK=8)", "_second[(8,)](part, y, 8, BLOCK=8)"
ONE_CALL = f"def host(x, part, y):\n    {FIRST}\n    {SECOND}\n"


ONCE = (OpportunityKind.STREAM_ONCE, OpportunityKind.STORED_ONCE)


def once(source: str) -> list[int]:
    """For either kernel: how many of its load and its store are of data that is read or written once."""
    found = [o.function for o in scan(source).opportunities if o.kind in ONCE]
    return [found.count(name) for name in ("_first", "_second")]


def intermediate(source: str) -> list[Pattern]:
    return [p for p in scan(source).patterns if p.kind is PatternKind.INTERMEDIATE]


def test_what_the_next_launch_loads_is_not_written_once() -> None:
    """Line 8 loads x, which nobody reads again; its store is the intermediate."""
    assert once(HEAD + ONE_CALL) == [1, 2]


def test_an_intermediate_is_told_with_the_lines_of_both_launches() -> None:
    (said,) = intermediate(HEAD + ONE_CALL)

    assert (said.function, said.lines) == ("host", (20, 21))
    assert said.what == "part goes through memory from _first to _second"


def test_a_tensor_that_two_launches_load_is_not_read_once_by_the_first() -> None:
    source = HEAD + "def host(x, a, b):\n    _first[(8,)](x, a, 8, BLOCK=8)\n    _second[(8,)](x, b, 8, BLOCK=8)\n"

    assert once(source) == [1, 2]
    assert intermediate(source) == []


@pytest.mark.parametrize(
    "host",
    [
        f"def one(x, part):\n    {FIRST}\n\n\ndef other(part, y):\n    {SECOND}\n",
        f"def host(x, part, y, a):\n    if a:\n        {FIRST}\n    else:\n        {SECOND}\n",
        f"def host(x, part, y, a):\n    if a:\n        {FIRST}\n        return\n    {SECOND}\n",
        f"def host(x, part, y):\n    {SECOND}\n    {FIRST}\n",
    ],
    ids=["in two functions", "in two arms", "after a return", "read before it is written"],
)
def test_launches_of_which_none_reads_what_the_other_stored_are_streams(host: str) -> None:
    assert once(HEAD + host) == [2, 2]
    assert intermediate(HEAD + host) == []


def test_a_loop_around_both_makes_either_the_later_one() -> None:
    source = HEAD + f"def host(x, part, y):\n    for _ in range(3):\n        {SECOND}\n        {FIRST}\n"

    assert len(intermediate(source)) == 1
    assert once(source)[0] == 1
