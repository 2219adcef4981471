"""However ncu's output is damaged, it is launches and missing metrics, and never an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import EXAMPLES, damaged_bytes

from warpsmith.contracts.measurement import CounterRow
from warpsmith.measure.counters.raw_csv import parse_raw_csv

RECORDED = Path(__file__).resolve().parents[3] / "benchmark" / "data" / "ncu"


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.csv")), ids=lambda path: str(path.stem))
@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_damaged_output_is_launches_or_none(data: st.DataObject, path: Path) -> None:
    content = data.draw(damaged_bytes(path.read_bytes()))

    rows, missing = parse_raw_csv(content.decode("utf-8", errors="replace"))

    assert all(isinstance(row, CounterRow) for row in rows)
    assert isinstance(missing, tuple)


def test_a_cell_longer_than_python_reads_is_no_launch() -> None:
    header = '"ID","Kernel Name","Grid Size","Block Size"\n'
    assert parse_raw_csv(header + '"0","' + "x" * 200_000 + '","1","1"\n', ())[0] == ()
