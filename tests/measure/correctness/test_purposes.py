"""The checks that a report can name are those that the gate makes."""

from __future__ import annotations

from warpsmith.contracts.examination import FIRST_CALL, PURPOSES
from warpsmith.contracts.sanitizing import SanitizerTool
from warpsmith.measure.correctness.gate import CHECKS


def test_every_check_has_its_words_in_the_order_of_the_gate() -> None:
    assert list(PURPOSES) == [FIRST_CALL, *CHECKS, *(tool.value for tool in SanitizerTool)]
