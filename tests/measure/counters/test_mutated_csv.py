"""However ncu's output is damaged, it is launches and missing metrics, and never an error nor another figure."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import EXAMPLES, damaged_bytes

from warpsmith.contracts.counters import CounterRow
from warpsmith.measure.counters.raw_csv import UNREADABLE, parse_raw_csv

RECORDED = Path(__file__).resolve().parents[3] / "benchmark" / "data" / "ncu"
MESSAGES = [
    "==PROF== Disconnected from process 595\n",
    "==WARNING== Backing up device memory in system memory. Kernel replay might be slow.\n",
    '==PROF== Profiling "rms_fwd" - 0: 0%....50%....100% - 9 passes\n',
    '==PROF== Profiling "void f<(int)4, T2>(T3)" - 12: 0%....50%....100% - 1 pass',
    "....50%",
]

recorded = pytest.mark.parametrize("path", sorted(RECORDED.glob("*.csv")), ids=lambda path: str(path.stem))
bounded = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@recorded
@bounded
@given(data=st.data())
def test_damaged_output_is_launches_or_none(data: st.DataObject, path: Path) -> None:
    content = data.draw(damaged_bytes(path.read_bytes()))

    rows, missing = parse_raw_csv(content.decode("utf-8", errors="replace"))

    assert all(isinstance(row, CounterRow) for row in rows)
    assert isinstance(missing, tuple)


@recorded
@bounded
@given(data=st.data())
def test_messages_anywhere_change_nothing(data: st.DataObject, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    place = data.draw(st.integers(text.index('"ID"'), len(text)))
    message = data.draw(st.sampled_from(MESSAGES))

    assert parse_raw_csv(text[:place] + message + text[place:]) == parse_raw_csv(text)


@recorded
@bounded
@given(data=st.data())
def test_what_is_left_of_output_that_was_cut_or_written_over_has_no_other_figure(
    data: st.DataObject, path: Path
) -> None:
    text = path.read_text(encoding="utf-8")
    (whole,), _ = parse_raw_csv(text)
    place = data.draw(st.integers(text.index('"ID"'), len(text)))
    put_in = data.draw(st.sampled_from([None, "\0", "\ufeff", "\ufffd", "\r", "\n", '"', "{", "x", '","', '"\n"']))

    rows, _ = parse_raw_csv(text[:place] if put_in is None else text[:place] + put_in + text[place:])

    for row in rows:
        assert row.kernel in (whole.kernel, UNREADABLE) or put_in is not None
        assert row.metrics.items() <= whole.metrics.items()


@recorded
def test_a_launch_that_was_cut_anywhere_is_still_a_launch(path: Path) -> None:
    text = path.read_text(encoding="utf-8").rstrip("\n")
    begin = text.rindex('"0","')

    for end in range(begin + len('"0",'), len(text), 97):
        assert [row.metrics for row in parse_raw_csv(text[:end])[0]] == [{}]


def test_a_cell_longer_than_python_reads_is_a_launch_without_figures() -> None:
    header = '"ID","Kernel Name","Grid Size","Block Size"\n'
    unread = CounterRow(kernel=UNREADABLE, grid="", block="", metrics={})
    assert parse_raw_csv(header + '"0","' + "x" * 200_000 + '","1","1"\n', ())[0] == (unread,)
