"""What others are told of a winner: the message of its commit, and the body of a pull request. Pure."""

from __future__ import annotations

import textwrap

from warpsmith.contracts.aim import Objective
from warpsmith.contracts.case import Mode
from warpsmith.report import quantities, report_view
from warpsmith.report.context import ReportContext
from warpsmith.report.templates import render

#: As git's own pages advise for a message.
_COLUMNS = 72

_IN = {Mode.FORWARD: "forward", Mode.BACKWARD: "backward", Mode.FULL: "forward then backward"}


def subject(context: ReportContext) -> str:
    """In one line: the kernel, what the goal came to, on which GPU."""
    kernel, confirmation = context.request.kernel, context.result.confirmation
    if confirmation is None or confirmation.goal is None:
        return f"{kernel}: v{context.result.winner}"
    gain = quantities.ratio(confirmation.goal.value)
    what = "less peak memory" if confirmation.objective is Objective.MEMORY else "as fast"
    return f"{kernel}: {gain} {what} in {_IN[confirmation.goal_mode]} on {context.profile.device.name}"


def commit_message(context: ReportContext) -> str:
    """What changed, how much it brings where, on which GPU, how to reproduce."""
    goal = context.result.confirmation.goal_mode if context.result.confirmation else context.request.goal
    cases = [case for case in context.speedups if case.mode is goal]
    width = max((len(case.case) for case in cases), default=0)
    lines = [subject(context), "", *_paragraph(f"{_what(context)}:")]
    for variant, changes in context.winning_changes:
        lines += [line for change in changes for line in _item(f"{quantities.words(variant.strategy)}: {change}")]
    if cases:
        where = f"Speed-up over the original in {_IN[goal]}, with 95% intervals ({_origin(context)}):"
        lines += ["", *_paragraph(where)]
    for case in cases:
        told = f"  {quantities.case_label(case.case):{width}}  {quantities.ratio_interval(case.speedup)}"
        lines.append(told + ("  held-out" if case.role.value == "held_out" else ""))
    for text in (*report_view.limits(context), *_tests(context)):
        lines += ["", *_paragraph(text)]
    lines += ["", "To reproduce, in the commit before this one, on such a GPU:", ""]
    lines += [f"  {command}" for command in context.reproduce_commands]
    return "\n".join(lines) + "\n"


def pull_request(context: ReportContext) -> str:
    """pull-request.md: the same with all tables, for whoever reviews the change."""
    return render(
        "pull-request.md.j2", {**report_view.values(context), "what": _what(context), "tests": _tests(context)}
    )


def _what(context: ReportContext) -> str:
    return f"Only {context.profile.source} changes: it is v{context.result.winner} of a search by warpsmith"


def _origin(context: ReportContext) -> str:
    return quantities.origin_told(context.profile.origin, context.profile.device)


def _tests(context: ReportContext) -> tuple[str, ...]:
    """What the kernel's own tests said, and which of them are flaky."""
    tests = context.result.tests
    if tests is None:
        return ()
    counts = ", ".join(f"{count} {outcome}" for outcome, count in tests.counts.items())
    flaky = tuple(f"Flaky: {test.told}." for test in context.result.failed_tests)
    return (f"The kernel's own tests pass with it ({counts}): {tests.command}", *flaky)


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, _COLUMNS, break_long_words=False, break_on_hyphens=False)


def _item(text: str) -> list[str]:
    options = {"initial_indent": "- ", "subsequent_indent": "  "}
    return textwrap.wrap(text, _COLUMNS, **options, break_long_words=False, break_on_hyphens=False)  # type: ignore[arg-type]
