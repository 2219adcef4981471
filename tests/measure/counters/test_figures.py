from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.measure.counters.figures import decimal_mark, number, scale

#: How locales write the same: decimal mark and what stands between groups of three digits.
LOCALES = [(".", ","), (",", "."), (",", "\u00a0"), (",", "\u202f"), (".", "'"), (".", "\u2019"), (".", ""), (",", "")]


def written(value: float, digits: int, locale: tuple[str, str]) -> str:
    mark, gap = locale
    return f"{value:,.{digits}f}".replace(",", "<").replace(".", mark).replace("<", gap)


@pytest.mark.parametrize("locale", LOCALES)
@given(hundredths=st.integers(0, 10**15))
def test_a_number_is_read_as_the_locale_of_its_table_writes_it(locale: tuple[str, str], hundredths: int) -> None:
    cell = written(hundredths / 100, 2, locale)
    mark = decimal_mark([cell, written(12.34, 2, locale)])

    assert mark == locale[0]
    assert number(cell, mark) == pytest.approx(hundredths / 100)


@pytest.mark.parametrize("locale", LOCALES)
@given(value=st.integers(0, 10**15), digits=st.integers(0, 6))
def test_a_number_alone_is_read_right_or_not_at_all(locale: tuple[str, str], value: int, digits: int) -> None:
    found = number(written(value / 1000, digits, locale), None)

    assert found is None or found == pytest.approx(float(f"{value / 1000:.{digits}f}"))


@pytest.mark.parametrize(
    ("cells", "mark"),
    [
        (["1,993", "36.44"], "."),
        (["1.993", "36,44"], ","),
        (["1,234,567"], "."),
        (["1.234.567"], ","),
        (["1,234.5"], "."),
        (["0,123"], ","),  # no group begins with a nought
        (["1234.567"], "."),  # nor has four digits
        (["4.125e-05"], "."),
        (["1,993", "12", "no data", ""], None),
        (["36.44", "36,44"], None),
        ([], None),
    ],
)
def test_the_decimal_mark_is_that_of_the_cells_that_can_be_read_in_one_way_only(
    cells: list[str], mark: str | None
) -> None:
    assert decimal_mark(cells) == mark


@pytest.mark.parametrize(
    ("cell", "mark", "value"),
    [
        ("1,993", ".", 1993.0),
        ("1,993", ",", 1.993),
        ("1,993", None, None),
        ("36.44", None, 36.44),
        (" 12 ", None, 12.0),
        ("-3", None, -3.0),
        ("1.5e+09", None, 1.5e9),
        ("2,722,022,988,505.75", None, 2722022988505.75),
    ],
)
def test_what_could_be_two_numbers_is_read_by_the_mark_alone(cell: str, mark: str | None, value: float | None) -> None:
    assert number(cell, mark) == value


@pytest.mark.parametrize(
    "cell",
    [
        *["", "no data", "n/a", "nan", "(!) nan", "inf", "-", "1_000", "0x10", "٣", "1e999"],
        *["1,23,456", "12,34", "1.2.3", "1,2345,678", "1,234.567.8", "1.234,5e3", "12 (1; 2; 3)"],
    ],
)
def test_what_is_no_number_is_none(cell: str) -> None:
    assert number(cell, ".") is None


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        *[("", 1.0), ("%", 1.0), ("inst", 1.0), ("cycle", 1.0), ("SM", 1.0), ("branches", 1.0), ("sectors", 1.0)],
        *[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)],
        *[("nsecond", 1.0), ("usecond", 1e3), ("msecond", 1e6), ("second", 1e9)],
        *[("byte", 1.0), ("Kbyte", 1e3), ("Mbyte", 1e6), ("Gbyte", 1e9), ("Tbyte", 1e12)],
        *[("byte/s", 1.0), ("Gbyte/s", 1e9), ("Tbyte/second", 1e12), ("byte/us", 1e6), ("byte/ns", 1e9)],
        *[("hz", 1.0), ("Ghz", 1e9), ("cycle/nsecond", 1e9), ("inst/cycle", 1.0), ("sector/cycle", 1.0)],
        *[("byte/block", 1.0), ("Kbyte/block", 1e3), ("register/thread", 1.0), ("byte/sector", 1.0), ("%/byte", 1.0)],
    ],
)
def test_a_figure_is_brought_into_base_units(unit: str, factor: float) -> None:
    found = scale(unit)

    assert found is not None
    assert math.isclose(found, factor)


@pytest.mark.parametrize("unit", ["KiB", "bit", "furlong", "Kfurlong", "byte/furlong", "byte/Kbyte", "Byte/s/s", "K"])
def test_a_unit_that_is_not_known_has_no_factor(unit: str) -> None:
    assert scale(unit) is None
