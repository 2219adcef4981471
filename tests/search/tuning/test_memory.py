"""A search chooses nothing that a guardrail of memory would refuse in the end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from landscapes import KERNEL, TUNABLE, Arithmetic, Landscape, Values, bench_of
from searched_kernels import row_kernel

from warpsmith.contracts.case import Case, Mode
from warpsmith.measure.worker.protocol import AnyQuestion, MeasureMemory, WorkerError, WorkerFailure
from warpsmith.search.tuning.budget import Budget
from warpsmith.search.tuning.driver import tune
from warpsmith.search.tuning.results import Tuning
from warpsmith.verdict.thresholds import Thresholds

PROGRAMS = f"{KERNEL}.programs_per_sm"
MANY_ROWS, WIDEST = "8192x4096-bf16", "4096x16384-bf16"


def partial_sums(case: Case, values: Values) -> int:
    """Inputs, and a row of float32 for each program."""
    rows, width = case.axes["M"], case.axes["N"]
    return 2 * rows * width + 4 * 132 * width * values["programs_per_sm"]


def hungry() -> Landscape:
    """Rows of which more programs are always better, by far more than the bars of a search."""
    made = row_kernel()

    def time_us(case: Case, values: Values) -> float:
        return case.axes["M"] * case.axes["N"] / 4e5 / values["programs_per_sm"] ** 0.5

    return replace(made, time_us=time_us, peak_bytes=partial_sums)


def tuned(landscape: Landscape, memory: float = 0.05, **hooks: object) -> tuple[Tuning, Arithmetic]:
    worker = Arithmetic(landscape, **hooks)  # type: ignore[arg-type]
    bench = replace(bench_of(landscape, worker), thresholds=Thresholds(memory=memory))
    return tune(bench, TUNABLE, landscape.knobs, Mode.FORWARD, Budget()), worker


def best_programs(found: Tuning) -> dict[str, int]:
    return {each.case.name: each.best[0].get(PROGRAMS, 1) for each in found.cases}


def test_a_case_takes_as_many_programs_as_the_hungriest_case_leaves_room_for() -> None:
    landscape = hungry()
    found, worker = tuned(landscape)
    most = 1.05 * max(partial_sums(case, landscape.original(case)) for case in landscape.cases)
    fitting = {
        case.name: max(n for n in (1, 2, 4, 8, 16) if partial_sums(case, {"programs_per_sm": n}) <= most)
        for case in landscape.cases
    }
    assert best_programs(found) == fitting
    assert (fitting[WIDEST], fitting[MANY_ROWS]) == (1, 16)
    timed = {(q.case.name, c.settings.get(PROGRAMS, 1)) for q in worker.timings for c in q.contenders}
    assert timed == {(name, n) for name, top in fitting.items() for n in (1, 2, 4, 8, 16) if n <= top}


def test_what_was_not_tried_stands_in_the_account_and_in_the_notes_with_the_reason() -> None:
    found, _ = tuned(hungry())
    refused = [r for r in found.readings if r.case.name == WIDEST and r.settings.get(PROGRAMS) == 2]
    reason = "not compiled: a call needs 151.5 MB of 142.9 MB that the original needs at most, and 5% more"
    assert refused and all((r.time_ms, r.note) == (None, reason) for r in refused)
    (note,) = [each for each in found.notes if each.startswith(f"{WIDEST}: not tried")]
    assert "programs_per_sm=2 (151.5 MB), programs_per_sm=4 (168.8 MB)" in note


def test_a_looser_guardrail_lets_more_be_tried() -> None:
    found, _ = tuned(hungry(), memory=0.10)
    assert best_programs(found)[WIDEST] == 2


def test_where_no_knob_changes_what_is_allocated_nothing_is_weighed() -> None:
    landscape = hungry()
    without = replace(landscape, knobs=tuple(knob for knob in landscape.knobs if knob.id != PROGRAMS))
    _, worker = tuned(without)
    assert not [question for question in worker.asked if isinstance(question, MeasureMemory)]


def failing(*contenders: int) -> object:
    """Questions of memory with so many contenders fail."""

    def failure(question: AnyQuestion) -> WorkerFailure | None:
        if isinstance(question, MeasureMemory) and len(question.contenders) in contenders:
            return WorkerFailure(status="died", message="signal 11")
        return None

    return failure


def test_what_takes_the_weighing_down_is_told_and_left_to_the_judgement() -> None:
    found, _ = tuned(hungry(), question_failure=failing(5))
    assert best_programs(found)[WIDEST] == 16
    told = [note for note in found.notes if "the memory of more programs is not known" in note]
    assert len(told) == 4 and told[0].endswith("died: signal 11")


def test_an_original_that_cannot_be_weighed_ends_the_search() -> None:
    with pytest.raises(WorkerError, match="signal 11"):
        tuned(hungry(), question_failure=failing(5, 1))
