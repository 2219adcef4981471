"""Whatever a file holds, it is compared with what it should be, and what differs can be written down."""

from __future__ import annotations

import pytest

from warpsmith.contracts.base import Document
from warpsmith.stages.differences import compare_documents, compare_tables


class Counted(Document):
    count: int | float
    name: str = ""


def differences(found: str, expected: Counted) -> list[str]:
    compared = compare_documents("a.json", found.encode(), expected.model_dump_json().encode(), Counted)
    return [each.model_dump_json() and str(each) for each in compared.differences]


def test_brackets_without_end_are_no_json() -> None:
    (told,) = differences("[" * 100_000, Counted(count=1))
    assert told.startswith("a.json: is no JSON: maximum recursion depth exceeded")


@pytest.mark.parametrize("expected", [1, 1.5])
def test_a_number_that_no_float_holds_differs(expected: float) -> None:
    (told,) = differences('{"count": 1' + "0" * 400 + "}", Counted(count=expected))
    assert told.startswith("a.json: count is 1000")
    assert told.endswith(f"the samples give {expected}")


def test_half_a_surrogate_pair_differs_and_can_be_told() -> None:
    assert differences('{"count": 1, "name": "\\ud800"}', Counted(count=1)) == [
        'a.json: name is "\\ud800", the samples give ""'
    ]
    assert differences('{"schema_version": 1, "count": 1, "name": "", "\\ud800": 2}', Counted(count=1)) == [
        "a.json: \\ud800 is 2, the samples give not there"
    ]


def test_a_cell_without_end_is_no_csv_and_a_long_one_is_cut_short() -> None:
    found = compare_tables("a.csv", b"x\n" + b"a" * 200_000, b"x\n1\n")
    assert [str(each) for each in found.differences] == ["a.csv: is no CSV: field larger than field limit (131072)"]
    (long,) = compare_tables("a.csv", b"x\n" + b"1" * 5000, b"x\n1\n").differences
    assert len(long.found) < 200
