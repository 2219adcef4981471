"""One candidate, from admission to verdict: the first step that fails ends it, and no failure is a pass."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from simulated_gpu import DEVICE
from simulated_run import Run

from warpsmith.contracts.base import Contract
from warpsmith.contracts.case import Case, Mode, Role
from warpsmith.contracts.examination import Examination, Fault
from warpsmith.contracts.measurement import Contender, Timing, TimingPlan
from warpsmith.contracts.sanitizing import Sanitization, SanitizerError, SanitizerTool
from warpsmith.contracts.variant import VariantStatus
from warpsmith.contracts.verdict import Outcome
from warpsmith.measure.worker.protocol import (
    AnyQuestion,
    MeasureCompilation,
    MeasureMemory,
    Sanitize,
    Time,
    WorkerFailure,
)
from warpsmith.search.bench import Bench
from warpsmith.stages.judge import LONGER, Judgement, judge
from warpsmith.stages.rules import Rules, Standing
from warpsmith.verdict.thresholds import Thresholds

RULES = Rules(Mode.FULL, Thresholds(), noise_floor=0.0005)
MARK = "# candidate\n"


@pytest.fixture
def bench(profiled: Run) -> Bench:
    session = profiled.session()
    return session.bench(session.describe(), DEVICE)


def judged(run: Run, bench: Bench, change: str = MARK, *, best: str | None = None, rules: Rules = RULES) -> Judgement:
    original = run.workspace.original.read_text()
    text = original + change
    standing = Standing(
        name="v2",
        source=bench.keep("v2", text),
        text=text,
        best_name=None if best is None else "v1",
        best_source=None if best is None else bench.keep("v1", original + best),
    )
    return judge(bench, standing, rules, original)


def kinds(run: Run) -> list[str]:
    return [question.kind for question in run.gpu.asked]


def test_a_faster_candidate_is_accepted_and_measured_everywhere(profiled: Run, bench: Bench) -> None:
    profiled.gpu.slowdown = lambda work: 0.8 if MARK in work.text else 1.0
    found = judged(profiled, bench)

    assert found.status is VariantStatus.JUDGED
    assert found.verdict is not None and found.verdict.outcome is Outcome.ACCEPTED
    assert found.verdict.goal is not None and found.verdict.goal.value == pytest.approx(1.25, rel=0.01)
    assert {(t.case.name, t.mode) for t in found.timings} == {(c.name, m) for c in bench.spec.cases for m in Mode}
    assert {m.mode for m in found.memories} == set(Mode)


def test_a_candidate_that_is_not_admitted_is_not_even_compiled(profiled: Run, bench: Bench) -> None:
    profiled.gpu.asked.clear()
    found = judged(profiled, bench, "import os\n")

    assert (found.status, found.verdict) == (VariantStatus.NOT_ADMITTED, None)
    assert found.detail is not None and "imports os" in found.detail
    assert found.examination is not None
    assert [finding.text for finding in found.examination.findings] == ["import os"]
    assert profiled.gpu.asked == []


def test_a_candidate_that_does_not_compile_is_not_checked(profiled: Run, bench: Bench) -> None:
    profiled.gpu.compile_failure = lambda work: "out of shared memory" if MARK in work.text else None
    profiled.gpu.asked.clear()
    found = judged(profiled, bench)

    assert (found.status, found.detail) == (
        VariantStatus.COMPILE_FAILED,
        "2048x2048-bf16, forward: out of shared memory",
    )
    fault = Fault(status="compile_failed", message="forward: out of shared memory", case="2048x2048-bf16")
    assert found.examination == Examination(faults=(fault,))
    assert kinds(profiled) == ["compile"]


def test_a_wrong_result_at_one_held_out_case_is_enough_and_nothing_is_timed(profiled: Run, bench: Bench) -> None:
    profiled.gpu.wrong_result = lambda work: "dx is off" if work.case.name == "64x8192-bf16" else None
    profiled.gpu.asked.clear()
    found = judged(profiled, bench)

    assert (found.status, found.detail, found.verdict) == (
        VariantStatus.INCORRECT,
        "wrong result: 64x8192-bf16, values: dx is off",
        None,
    )
    assert found.examination is not None and found.examination.first_case == "64x8192-bf16"
    assert len(found.examination.checks) == len(bench.spec.cases)
    assert "time" not in kinds(profiled)


@pytest.mark.parametrize(("kind", "came_through"), [("check", False), ("time", True)])
def test_a_worker_that_dies_ends_the_judgement_and_it_is_known_whether_the_gate_was_passed(
    profiled: Run, bench: Bench, kind: str, came_through: bool
) -> None:
    profiled.gpu.worker_failure = lambda question: "signal 11" if question.kind == kind else None
    found = judged(profiled, bench)

    assert (found.status, found.detail) == (VariantStatus.FAILED, "died: signal 11")
    assert found.examination is not None
    assert found.examination.faults == (Fault(status="died", message="signal 11"),)
    assert found.examination.went_wrong_later is came_through


def test_a_candidate_slower_than_the_original_is_rejected_on_the_tuning_cases_alone(
    profiled: Run, bench: Bench
) -> None:
    profiled.gpu.slowdown = lambda work: 1.05 if MARK in work.text else 1.0
    found = judged(profiled, bench)

    assert found.verdict is not None and found.verdict.outcome is Outcome.REJECTED
    assert found.verdict.reasons[0].startswith("slower than the original over the tuning cases: 0.952")
    assert [(t.case.role, t.mode) for t in found.timings] == [(Role.TUNING, Mode.FULL)] * len(bench.spec.tuning_cases)
    assert found.memories == ()


def test_a_candidate_slower_than_the_best_so_far_is_rejected_though_it_beats_the_original(
    profiled: Run, bench: Bench
) -> None:
    speeds = {"# best\n": 0.7, MARK: 0.8}
    profiled.gpu.slowdown = lambda work: next((s for mark, s in speeds.items() if mark in work.text), 1.0)
    found = judged(profiled, bench, best="# best\n")

    assert found.verdict is not None and found.verdict.outcome is Outcome.REJECTED
    assert found.verdict.reasons[0].startswith("slower than the best so far, v1 over the tuning cases: 0.875")
    assert found.verdict.over_best is not None and found.verdict.over_best.value == pytest.approx(0.875, rel=0.01)


def test_a_candidate_that_crashes_while_it_is_timed_is_rejected_with_the_reason(profiled: Run, bench: Bench) -> None:
    profiled.gpu.run_failure = lambda work: "illegal address" if MARK in work.text and work.width == 8192 else None
    found = judged(profiled, bench)

    assert found.verdict is not None and found.verdict.outcome is Outcome.REJECTED
    assert "v2 fails at 8192x8192-bf16, full: illegal address" in found.verdict.reasons


def test_a_worker_that_dies_makes_a_failed_candidate_and_no_verdict(profiled: Run, bench: Bench) -> None:
    profiled.gpu.worker_failure = lambda question: "signal 11" if question.kind == "check" else None
    found = judged(profiled, bench)
    assert (found.status, found.detail, found.verdict) == (VariantStatus.FAILED, "died: signal 11", None)


def test_a_regression_at_one_case_of_a_faster_candidate_is_mixed_and_names_the_case(
    profiled: Run, bench: Bench
) -> None:
    profiled.gpu.slowdown = lambda work: (
        1.0 if MARK not in work.text else 1.1 if work.case.name == "8192x2048-bf16" else 0.8
    )
    found = judged(profiled, bench)

    assert found.verdict is not None and found.verdict.outcome is Outcome.MIXED
    assert found.verdict.reasons[0].startswith("held-out case 8192x2048-bf16 regressed in full")


def test_an_inconclusive_candidate_is_measured_longer_exactly_once(profiled: Run, bench: Bench) -> None:
    profiled.gpu.slowdown = lambda work: 1 / 1.01 if MARK in work.text else 1.0
    rules = Rules(Mode.FULL, Thresholds(minimum_effect=0.0101), noise_floor=None)
    profiled.gpu.asked.clear()
    found = judged(profiled, bench, rules=rules)

    longer = [q for q in profiled.gpu.asked if isinstance(q, Time) and q.plan == LONGER]
    assert [(q.case, q.mode) for q in longer] == [(case, Mode.FULL) for case in bench.spec.tuning_cases]
    assert found.verdict is not None and found.verdict.outcome is Outcome.INCONCLUSIVE
    assert "kept as inconclusive after a longer run" in found.verdict.reasons[0]


def test_memory_is_one_question_a_case_and_the_original_is_compiled_cold_once_a_run(
    profiled: Run, bench: Bench
) -> None:
    profiled.gpu.slowdown = lambda work: 0.8 if MARK in work.text else 1.0
    for change in (MARK, MARK + "# another\n"):
        profiled.gpu.asked.clear()
        judged(profiled, bench, change)
        memories = [q for q in profiled.gpu.asked if isinstance(q, MeasureMemory)]
        assert [(q.case, q.modes) for q in memories] == [(case, bench.spec.modes) for case in bench.spec.tuning_cases]

    (compilation,) = [q for q in profiled.gpu.asked if isinstance(q, MeasureCompilation)]
    assert compilation.source == bench.keep("v2", profiled.workspace.original.read_text() + change)
    assert (compilation.case.name, compilation.cases) == ("8192x8192-bf16", bench.spec.cases)
    assert compilation.passes == (Mode.FORWARD, Mode.BACKWARD)


def test_what_has_a_process_of_its_own_is_asked_all_at_once(
    profiled: Run, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiled.gpu.slowdown = lambda work: 0.8 if MARK in work.text else 1.0
    batches: list[list[str]] = []
    ask_all = bench.worker.ask_all

    def watched(questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
        batches.append([question.kind for question in questions])
        return ask_all(questions)

    monkeypatch.setattr(bench.worker, "ask_all", watched)
    judged(profiled, bench)
    assert ["compilation"] * 2 + ["memory"] * len(bench.spec.tuning_cases) in batches


def test_a_faster_candidate_that_takes_twice_as_long_to_compile_is_rejected(profiled: Run, bench: Bench) -> None:
    profiled.gpu.slowdown = lambda work: 0.8 if MARK in work.text else 1.0
    profiled.gpu.cold_s = lambda text: 1.0 if MARK in text else 0.5
    found = judged(profiled, bench)

    assert found.verdict is not None and found.verdict.outcome is Outcome.REJECTED
    assert found.verdict.reasons[0] == (
        "cold compile time (least of 3), 8192x8192-bf16: 0.5 s to 1 s; allowed is at most 50% or 0.2 s more"
    )


def test_a_candidate_that_is_no_faster_costs_no_memory_or_compilation_questions(profiled: Run, bench: Bench) -> None:
    profiled.gpu.asked.clear()
    found = judged(profiled, bench)
    assert found.verdict is not None and found.verdict.outcome is Outcome.REJECTED
    assert set(kinds(profiled)) == {"compile", "check", "time"}


def test_a_candidate_whose_memory_cannot_be_measured_fails(profiled: Run, bench: Bench) -> None:
    profiled.gpu.slowdown = lambda work: 0.8 if MARK in work.text else 1.0
    profiled.gpu.worker_failure = lambda question: "signal 9" if question.kind == "memory" else None
    found = judged(profiled, bench)
    assert (found.status, found.detail, found.verdict) == (VariantStatus.FAILED, "died: signal 9", None)


def test_a_candidate_that_an_answer_does_not_have_is_rejected(profiled: Run, bench: Bench) -> None:
    measured = profiled.gpu._time

    def without(question: Time) -> Timing:
        timing = measured(question)
        return timing.model_copy(update={"blocks": tuple(b for b in timing.blocks if b.contender == "original")})

    profiled.gpu._time = without
    found = judged(profiled, bench)

    assert found.verdict is not None and found.verdict.outcome is Outcome.REJECTED
    assert all("it was not timed, and nothing says why" in reason for reason in found.verdict.reasons)


def test_slower_over_too_few_rounds_is_measured_longer_and_then_left_undecided(
    profiled: Run, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiled.gpu.slowdown = lambda work: 2.0 if MARK in work.text else 1.0
    plans = []

    def capped(self: Bench, contenders: Sequence[Contender], case: Case, mode: Mode, plan: TimingPlan | None) -> Timing:
        plans.append(plan)
        return whole(self, contenders, case, mode, TimingPlan(rounds=5)).model_copy(update={"capped": True})

    whole = Bench.time
    monkeypatch.setattr(Bench, "time", capped)
    found = judged(profiled, bench)

    assert LONGER in plans
    assert found.verdict is not None and found.verdict.outcome is Outcome.INCONCLUSIVE
    then = "kept as inconclusive after a longer run"
    comparisons = len(bench.spec.cases) * len(Mode)
    assert found.verdict.reasons == (
        *(
            f"only 5 rounds fitted the time cap at {case.name}, full, of at least 8: {then}"
            for case in bench.spec.tuning_cases
        ),
        f"and {comparisons - 3} more comparisons of too few rounds",
    )


def test_a_winner_that_reads_beyond_its_memory_is_no_winner(profiled: Run, bench: Bench) -> None:
    def found_in(text: str, tool: SanitizerTool) -> Sanitization | None:
        error = SanitizerError(kind="Invalid __global__ read of size 4 bytes", case="64x8192-bf16")
        return Sanitization(tool=tool, errors=2, first=error) if MARK in text else None

    profiled.gpu.slowdown = lambda work: 0.8 if MARK in work.text else 1.0
    profiled.gpu.sanitizer_says = found_in
    found = judged(profiled, bench)

    assert (found.status, found.verdict) == (VariantStatus.INCORRECT, None)
    assert found.detail == (
        "wrong result: 64x8192-bf16, memcheck: compute-sanitizer counts 2 errors, the first: "
        "Invalid __global__ read of size 4 bytes"
    )


def test_only_a_winner_is_watched_and_only_by_memcheck(profiled: Run, bench: Bench) -> None:
    judged(profiled, bench)
    assert "sanitize" not in kinds(profiled)
    profiled.gpu.slowdown = lambda work: 0.8 if MARK in work.text else 1.0
    judged(profiled, bench, f"{MARK}# faster\n")
    assert [q.tool for q in profiled.gpu.asked if isinstance(q, Sanitize)] == [SanitizerTool.MEMCHECK]
