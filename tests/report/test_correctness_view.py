"""Errors by output at the worst case, and what could not be checked."""

from __future__ import annotations

from measured_fixtures import CASES, WINNER_SHA

from warpsmith.contracts.measurement import CaseCheck, Correctness, OutputError
from warpsmith.report.correctness_view import OutputLine, output_lines, skipped_lines


def error(output: str, rms: float, original_rms: float, scale: float = 2.0) -> OutputError:
    return OutputError(
        output=output, rms=rms, p9999=rms, max=rms, original_rms=original_rms, original_p9999=original_rms,
        original_max=original_rms, scale=scale, floor=1e-9, elements=100,
    )  # fmt: skip


def checked(*of_cases: tuple[OutputError, ...], skipped: tuple[dict[str, str], ...] = ()) -> Correctness:
    left_out = (*skipped, *({} for _ in of_cases))
    checks = tuple(
        CaseCheck(case=case, errors=errors, failures=(), skipped=why)
        for case, errors, why in zip(CASES, of_cases, left_out, strict=False)
    )
    return Correctness(source_sha256=WINNER_SHA, checks=checks)


def test_an_output_is_shown_where_the_winner_is_worst_beside_the_original() -> None:
    correctness = checked(
        (error("output", 4e-3, 4e-3), error("gradient of x", 1e-3, 2e-3)),
        (error("output", 3e-4, 1e-4), error("gradient of x", 1e-3, 4e-3)),
    )

    assert output_lines(correctness) == (
        OutputLine("output", CASES[1].name, "5.00e-05", "1.50e-04", "3×"),
        OutputLine("gradient of x", CASES[0].name, "1.00e-03", "5.00e-04", "0.5×"),
    )


def test_an_exact_original_has_no_ratio() -> None:
    (line,) = output_lines(checked((error("output", 0.0, 0.0),)))

    assert (line.original, line.optimized, line.ratio) == ("0.00e+00", "0.00e+00", None)


def test_checks_that_could_not_be_made_are_a_line_each_with_the_first_reason() -> None:
    correctness = checked(
        (), (), (), skipped=({"extremes": "an input has 9 elements"}, {"extremes": "an input has 8 elements"}, {})
    )

    assert skipped_lines(correctness) == (
        "Not checked at 2 of 3 cases: extremes (an input has 9 elements; at some for 1 other reason).",
    )


def test_nothing_is_told_where_nothing_was_checked() -> None:
    assert (output_lines(None), skipped_lines(None)) == ((), ())
