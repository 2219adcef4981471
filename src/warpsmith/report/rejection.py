"""The one report of a rejection: which check, where, expected and found, what else was seen, and how to see it again.

Owns what is told of an examination that was not passed, the same in a terminal, in notes and in a comparison.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from warpsmith.contracts.examination import LISTED, PURPOSES, CheckResult, Examination, Fault, SourceFinding
from warpsmith.contracts.measurement import CaseCheck, CheckFailure, OutputError
from warpsmith.report.templates import render

#: Failures beside the first that are told in a line each; the rest are counted.
SHOWN_FAILURES = 6
#: Reasons of admission that are told; the rest are counted.
SHOWN_FINDINGS = 12


@dataclass(frozen=True)
class Rejection:
    """What templates/rejection.md.j2 shows of an examination. `facts` are of the first failure: title -> text.

    `lines` are those of the source that `findings` speak of, `last_words` what a fault tells after its first line.
    """

    head: str
    findings: tuple[str, ...]
    lines: str
    facts: list[tuple[str, str]]
    others: tuple[str, ...]
    last_words: str
    command: str | None


def rejection_of(found: Examination) -> Rejection:
    """Of an examination that was not passed."""
    failures = [*(found.correctness.failures if found.correctness else ()), *map(_told_fault, found.faults)]
    others = [" ".join(told.split()) for told in failures[1:]]
    more = len(others) - SHOWN_FAILURES
    shown, hidden = found.findings[:SHOWN_FINDINGS], len(found.findings) - SHOWN_FINDINGS
    own = [each for each in shown if each.line and each.text and not each.of_original]
    return Rejection(
        head=_head(found),
        findings=(*map(_placed, shown), *((f"and {hidden} more",) if hidden > 0 else ())),
        lines="\n".join(f"{each.line:>5}  {each.text}" for each in own),
        facts=_facts(found),
        others=(*others[:SHOWN_FAILURES], *((f"and {more} more",) if more > 0 else ())),
        last_words="" if found.first_failure else _last_words(found),
        command=found.command,
    )


def in_short(found: Examination) -> str:
    """One line: how it ended, and the command."""
    again = "" if found.command is None else f"; to see it again: {found.command}"
    if found.findings:
        more = len(found.findings) - 1
        return f"not admitted: {_placed(found.findings[0])}{f'; and {more} more' if more else ''}{again}"
    if found.first_failure is None:
        return f"{_told_fault(found.faults[0])}{again}"
    assert found.correctness is not None
    return f"wrong at {len(found.failed)} of {_asked(found)} cases: {found.correctness.failures_told}{again}"


def check_page(result: CheckResult) -> str:
    """The answer of `warpsmith check` as Markdown, but for the command, which a page would break into lines."""
    found = result.examination.model_copy(update={"command": None})
    values = {
        "result": result,
        "count": len(found.checks),
        "rejection": None if result.passed else rejection_of(found),
        "skipped": skipped_told(found),
        "sanitized": _sanitized_told(found),
        "left_out": _grouped(result.left_out),
    }
    return render("check.md.j2", values)


def skipped_told(found: Examination) -> list[str]:
    """The checks that could not be made, each with its reason and at how many cases."""
    count = len(found.checks)
    reasons: Counter[tuple[str, str]] = Counter()
    for check in found.checks:
        reasons.update(check.skipped.items())
    return [
        f"{name}: {why}" + (f" (at {times} of {count} cases)" if count > 1 else "")
        for (name, why), times in reasons.items()
    ]


def purposes_page() -> str:
    """Admission and the checks in their order, and what each is for."""
    rows = [f"| {name} | {purpose} |" for name, purpose in LISTED.items()]
    return "\n".join(["| check | what it makes sure of |", "|---|---|", *rows])


def _head(found: Examination) -> str:
    if found.findings:
        count = len(found.findings)
        return f"Not admitted, for {count} {'reason' if count == 1 else 'reasons'} in the source; nothing was run"
    if found.first_failure is None:
        return f"No answer: {_told_fault(found.faults[0])}"
    return f"Rejected by the check `{found.first_failure[1].check}`, at {len(found.failed)} of {_asked(found)} cases"


def _facts(found: Examination) -> list[tuple[str, str]]:
    if found.findings:
        return []
    facts: list[tuple[str, str]] = []
    if found.first_failure is not None:
        facts += _facts_of(*found.first_failure)
    elif found.went_wrong_later:
        return [("checks", f"passed at all {len(found.checks)} cases: it went wrong while it was measured")]
    else:
        facts.append(("case", found.first_case or "not known: the command below goes through them one by one"))
    if asked := _asked(found):
        facts.append(("all cases", f"{len(found.checks) - len(found.failed)} of {asked} passed"))
    return [*facts, *(("not checked", told) for told in skipped_told(found))]


def _asked(found: Examination) -> int:
    """How many cases are known to have been asked about."""
    return len(found.checks) + sum(fault.case is not None for fault in found.faults)


def _facts_of(check: CaseCheck, failure: CheckFailure) -> list[tuple[str, str]]:
    facts = [
        ("check", f"{failure.check}: {PURPOSES.get(failure.check, 'a check of another version')}"),
        ("case", check.case.name),
    ]
    if failure.part is not None:
        facts.append(("result", failure.part))
    facts.append(("what is wrong", _without_worst(failure)))
    if failure.worst is not None:
        index = list(failure.worst.index)
        facts.append(("worst element", f"{index}, expected {failure.worst.expected}, found {failure.worst.found}"))
    if failure.check == "values":  # another check's result lies on inputs of its own, of which these errors are not
        facts += [("errors", _errors_told(each)) for each in check.errors if each.output == failure.part and each.rms]
    return facts


def _without_worst(failure: CheckFailure) -> str:
    """The sentence without the element that has a line of its own."""
    if failure.worst is None:
        return failure.message
    return re.sub(rf"[;,] \w+ at {re.escape(str(failure.worst))}", "", failure.message)


def _errors_told(error: OutputError) -> str:
    """Both sides' distance to float64."""
    pairs = (
        ("RMS", error.rms, error.original_rms),
        ("99.99th percentile", error.p9999, error.original_p9999),
        ("largest", error.max, error.original_max),
    )
    told = ", ".join(f"{name} {found:.3g} (the original's {theirs:.3g})" for name, found, theirs in pairs)
    return f"{told}, of values of RMS {error.scale:.3g}"


def _told_fault(fault: Fault) -> str:
    return fault.in_a_line if fault.case is None else f"{fault.case}, {fault.in_a_line}"


def _sanitized_told(found: Examination) -> list[str]:
    """What compute-sanitizer's tools said; why one says nothing stands among what was skipped."""
    asked = found.correctness.sanitizations if found.correctness else ()
    return [str(each) for each in asked if each.unavailable is None]


def _last_words(found: Examination) -> str:
    return found.faults[0].message.partition("\n")[2].strip() if found.faults else ""


def _placed(finding: SourceFinding) -> str:
    return finding.message if finding.line is None else f"line {finding.line}: {finding.message}"


def _grouped(left_out: dict[str, str]) -> list[str]:
    """Reasons, each with the cases it holds for."""
    return [
        f"{', '.join(name for name, why in left_out.items() if why == reason)}: {reason}"
        for reason in dict.fromkeys(left_out.values())
    ]
