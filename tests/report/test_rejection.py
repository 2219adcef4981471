"""What is told of a rejection: the check and what it is for, the place, both values, the rest, and the command."""

from __future__ import annotations

from collections.abc import Callable

import measured_fixtures as measured
import report_fixtures as run

from warpsmith.contracts.examination import LISTED, PURPOSES, CheckResult, Examination, Fault, SourceFinding
from warpsmith.contracts.measurement import CaseCheck, CheckFailure, Correctness, Element, OutputError
from warpsmith.contracts.sanitizing import Sanitization, SanitizerTool
from warpsmith.contracts.variant import Variant, VariantStatus
from warpsmith.report.pages import render_comparison, render_variant_notes
from warpsmith.report.rejection import check_page, in_short, purposes_page, rejection_of, skipped_told

Golden = Callable[[str, str], None]

COMMAND = "warpsmith check rms_norm optimization/rms_norm/rms_norm_v4.py --case 8192x4096-bf16 --seed 0"
WORST = Element(index=(17, 4032), expected="0.131", found="0")
INACCURATE = CheckFailure(
    check="values",
    part="gradient of x",
    message=f"RMS error 0.3, at most 0.02 allowed (the original's 0.01); worst at {WORST}",
    worst=WORST,
)
VARYING = CheckFailure(check="repeats", part="output", message="varies between two calls | on the same inputs")
ERROR = OutputError(
    output="gradient of x",
    rms=0.3,
    p9999=0.9,
    max=1.2,
    original_rms=0.01,
    original_p9999=0.03,
    original_max=0.05,
    scale=1.0,
    floor=0.002,
    elements=33_554_432,
)
UNSUPPORTED = {"autocast": "the original does not run under it"}


def checked(*failures: tuple[CheckFailure, ...]) -> Correctness:
    """The first cases with these failures each, then all others without."""
    rest = [()] * (len(measured.CASES) - len(failures))
    cases = (measured.CASES[1], measured.CASES[0], *measured.CASES[2:])
    return Correctness(
        source_sha256=measured.WINNER_SHA,
        checks=tuple(
            CaseCheck(case=case, errors=(ERROR,) if found else (), failures=found, skipped=UNSUPPORTED)
            for case, found in zip(cases, [*failures, *rest], strict=True)
        ),
    )


def incorrect() -> Examination:
    return Examination(correctness=checked((INACCURATE,), (VARYING,)), command=COMMAND)


def not_admitted() -> Examination:
    return Examination(
        findings=(
            SourceFinding(message="imports os; allowed are torch, triton", line=3, text="import os"),
            SourceFinding(
                message="rms_norm is gone (line of the original)", line=40, text="def rms_norm(", of_original=True
            ),
        ),
        command="warpsmith check rms_norm optimization/rms_norm/rms_norm_v4.py --seed 0",
    )


def died() -> Examination:
    words = "the worker ended with status -11 while answering 'check'; its last words:\nFatal Python error: ```"
    return Examination(faults=(Fault(status="died", message=words, case="8192x4096-bf16"),), command=COMMAND)


def variant(status: VariantStatus, found: Examination) -> Variant:
    update = {"number": 4, "status": status, "detail": "in the log", "examination": found}
    return run.proposed().model_copy(update=update)


def test_the_report_of_a_wrong_result_has_every_fact_of_the_first_failure() -> None:
    facts, every = dict(rejection_of(incorrect()).facts), len(measured.CASES)

    assert facts == {
        "check": f"values: {PURPOSES['values']}",
        "case": "8192x4096-bf16",
        "result": "gradient of x",
        "what is wrong": "RMS error 0.3, at most 0.02 allowed (the original's 0.01)",
        "worst element": "[17, 4032], expected 0.131, found 0",
        "errors": (
            "RMS 0.3 (the original's 0.01), 99.99th percentile 0.9 (the original's 0.03), "
            "largest 1.2 (the original's 0.05), of values of RMS 1"
        ),
        "all cases": f"{every - 2} of {every} passed",
        "not checked": f"autocast: the original does not run under it (at {every} of {every} cases)",
    }


def test_errors_at_the_case_are_not_told_of_a_failure_on_other_inputs() -> None:
    found = incorrect()
    assert found.correctness is not None
    checks = tuple(
        check.model_copy(
            update={"failures": tuple(each.model_copy(update={"check": "layouts"}) for each in check.failures)}
        )
        for check in found.correctness.checks
    )
    correctness = found.correctness.model_copy(update={"checks": checks})
    elsewhere = dict(rejection_of(found.model_copy(update={"correctness": correctness})).facts)

    assert elsewhere["check"] == f"layouts: {PURPOSES['layouts']}"
    assert "worst element" in elsewhere and "errors" not in elsewhere


def test_notes_of_a_wrong_variant_are_as_they_were(golden: Golden) -> None:
    golden("variant-notes-incorrect.md", render_variant_notes(variant(VariantStatus.INCORRECT, incorrect()), None))


def test_notes_of_a_variant_that_is_not_admitted_are_as_they_were(golden: Golden) -> None:
    page = render_variant_notes(variant(VariantStatus.NOT_ADMITTED, not_admitted()), None)
    golden("variant-notes-not-admitted.md", page)


def test_notes_of_a_variant_whose_worker_died_are_as_they_were(golden: Golden) -> None:
    golden("variant-notes-failed.md", render_variant_notes(variant(VariantStatus.FAILED, died()), None))


def test_what_failed_after_the_gate_is_not_said_to_be_wrong() -> None:
    fault = Fault(status="timeout", message="no answer within 300 s")
    found = Examination(correctness=checked(), faults=(fault,), command="warpsmith bench rms_norm --with v4.py")

    assert found.went_wrong_later
    told = rejection_of(found)
    assert told.head == "No answer: timeout: no answer within 300 s"
    count = len(measured.CASES)
    assert told.facts == [("checks", f"passed at all {count} cases: it went wrong while it was measured")]


def test_a_fault_at_an_unknown_case_says_so_and_counts_no_case() -> None:
    found = Examination(faults=(Fault(status="out_of_memory", message="out of memory"),))
    assert rejection_of(found).facts == [("case", "not known: the command below goes through them one by one")]


def test_many_failures_are_counted_beyond_the_first_few() -> None:
    told = rejection_of(Examination(correctness=checked(*[(VARYING, VARYING)] * len(measured.CASES))))

    assert len(told.others) == 7
    assert told.others[-1] == f"and {2 * len(measured.CASES) - 7} more"


def test_in_short_has_check_case_sentence_and_command() -> None:
    assert in_short(incorrect()) == (
        f"wrong at 2 of {len(measured.CASES)} cases: 8192x4096-bf16, values: {INACCURATE}; and 1 more; "
        f"to see it again: {COMMAND}"
    )
    assert in_short(not_admitted()).startswith(
        "not admitted: line 3: imports os; allowed are torch, triton; and 1 more;"
    )
    assert in_short(died()).startswith("8192x4096-bf16, died: the worker ended with status -11 while answering 'check'")


def test_a_comparison_has_it_in_short() -> None:
    page = render_comparison([variant(VariantStatus.INCORRECT, incorrect())], run.search(winner=None, numbers=()))

    line = next(line for line in page.splitlines() if line.startswith("- **v4"))
    assert line == f"- **v4, {run.proposed().title}**: {in_short(incorrect())}"


def test_a_check_that_could_not_be_made_is_told_with_its_reason_and_how_often() -> None:
    only = Examination(correctness=Correctness(source_sha256=measured.WINNER_SHA, checks=checked().checks[:1]))
    assert skipped_told(only) == ["autocast: the original does not run under it"]


def result(found: Examination, **changes: object) -> CheckResult:
    made = CheckResult(
        kernel="rms_norm",
        source=measured.SOURCE,
        source_sha256=measured.ORIGINAL_SHA,
        file="mine.py",
        file_sha256=measured.WINNER_SHA,
        seed=0,
        on=measured.GPU,
        cases=("8192x4096-bf16",),
        left_out={},
        passed=found.passed,
        examination=found,
    )
    return made.model_copy(update=changes)


def test_of_many_reasons_some_are_told_and_the_rest_counted() -> None:
    many = tuple(SourceFinding(message=f"uses name{n}", line=n, text=f"name{n}()") for n in range(1, 41))
    told = check_page(result(Examination(findings=many))).splitlines()
    assert [line for line in told if line.startswith("- ")][-2:] == ["- line 12: uses name12", "- and 28 more"]
    assert sum("name" in line and "()" in line for line in told) == 12


def test_the_answer_of_a_check_is_as_it_was(golden: Golden) -> None:
    golden("check-rejected.md", check_page(result(incorrect())))
    left_out = {"8192x8192-bf16": "not in float32", "8192x4096-fp16": "not in float32"}
    asked = (
        Sanitization(tool=SanitizerTool.MEMCHECK, errors=0),
        Sanitization(tool=SanitizerTool.RACECHECK, unavailable="it is not installed"),
    )
    correctness = checked().model_copy(update={"sanitizations": asked})
    passed = result(Examination(correctness=correctness), left_out=left_out, notes=("no pass on a GPU",))
    golden("check-passed.md", check_page(passed))


def test_the_command_is_left_to_who_prints_it_unbroken() -> None:
    assert COMMAND not in check_page(result(incorrect()))


def test_every_check_has_a_line_in_the_list() -> None:
    assert len(purposes_page().splitlines()) == 2 + len(LISTED)
