"""What compute-sanitizer finds is a failure of the gate, unless it finds as much in the original."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from simulated_gpu import CASES
from simulated_run import Run

from warpsmith.contracts.measurement import CaseCheck, Correctness, SourceRef
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.sanitizing import Sanitization, SanitizerError, SanitizerTool
from warpsmith.measure.worker.protocol import Sanitize
from warpsmith.search.bench import Bench
from warpsmith.stages.sanitizing import Sanitizer, small_cases
from warpsmith.workspace.documents import read_document

#: The smallest three, and the only one in fp16.
SMALL = ["2048x2048-bf16", "8192x2048-bf16", "64x8192-bf16", "8192x4096-fp16"]
MARK = "# reads beyond its end\n"
ERROR = SanitizerError(kind="Invalid __global__ read of size 4 bytes", kernel="_kernel", case="64x8192-bf16")
FOUND = "memcheck: compute-sanitizer counts 3 errors, the first: Invalid __global__ read of size 4 bytes at _kernel"


@pytest.fixture
def bench(profiled: Run) -> Bench:
    session = profiled.session()
    return session.bench(session.describe(), read_document(profiled.workspace.profile, Profile).device)


def marked(bench: Bench, run: Run) -> SourceRef:
    return bench.keep("marked", run.workspace.original.read_text() + MARK)


def after(bench: Bench, source: SourceRef, *tools: SanitizerTool) -> Correctness:
    """The gate's answer after the tools, where the gate found nothing."""
    checks = tuple(CaseCheck(case=case, errors=(), failures=()) for case in bench.spec.cases)
    correctness = Correctness(source_sha256=source.sha256, checks=checks)
    return Sanitizer.of(bench).examine(source, correctness, tools or (SanitizerTool.MEMCHECK,))


def found_in(text: str, tool: SanitizerTool) -> Sanitization | None:
    is_found = MARK in text and tool is SanitizerTool.MEMCHECK
    return Sanitization(tool=tool, errors=3, first=ERROR) if is_found else None


def skipped(correctness: Correctness) -> dict[str, dict[str, str]]:
    return {check.case.name: check.skipped for check in correctness.checks if check.skipped}


def asked(run: Run) -> Sequence[tuple[str, SanitizerTool]]:
    return [(q.source.sha256, q.tool) for q in run.gpu.asked if isinstance(q, Sanitize)]


def test_small_cases_of_every_dtype_are_looked_at(bench: Bench, profiled: Run) -> None:
    assert len(CASES) > len(SMALL)
    assert {case.name for case in small_cases(bench.spec)} == set(SMALL)
    after(bench, bench.original)
    (question,) = [q for q in profiled.gpu.asked if isinstance(q, Sanitize)]
    assert question.cases == small_cases(bench.spec)


def test_a_clean_source_passes_and_the_original_is_not_asked_about(bench: Bench, profiled: Run) -> None:
    source = marked(bench, profiled)
    correctness = after(bench, source, *SanitizerTool)
    assert (correctness.passed, skipped(correctness)) == (True, {})
    assert asked(profiled) == [(source.sha256, tool) for tool in SanitizerTool]


def test_an_error_fails_the_case_that_it_was_told_at(bench: Bench, profiled: Run) -> None:
    profiled.gpu.sanitizer_says = found_in
    assert after(bench, marked(bench, profiled)).failures == (f"64x8192-bf16, {FOUND}",)


def test_a_source_is_not_held_to_what_the_original_does_too(bench: Bench, profiled: Run) -> None:
    profiled.gpu.sanitizer_says = lambda text, tool: found_in(text + MARK, tool)
    correctness = after(bench, marked(bench, profiled))
    assert correctness.passed
    assert skipped(correctness) == {
        name: {"memcheck": f"it finds {ERROR} in the original too"} for name in CASES if name in SMALL
    }


def test_a_tool_that_is_not_there_is_no_failure_and_is_told(bench: Bench, profiled: Run) -> None:
    profiled.gpu.sanitizer_says = lambda text, tool: Sanitization(tool=tool, unavailable="not installed")
    correctness = after(bench, bench.original)
    assert correctness.passed
    assert skipped(correctness) == {name: {"memcheck": "not installed"} for name in CASES if name in SMALL}
    assert "memcheck: not installed" in profiled.told.lines


def test_a_worker_that_dies_under_the_tool_says_nothing_against_the_source(bench: Bench, profiled: Run) -> None:
    profiled.gpu.worker_failure = lambda question: "signal 9" if isinstance(question, Sanitize) else None
    correctness = after(bench, bench.original)
    assert correctness.passed
    assert set(skipped(correctness)) == set(SMALL)
