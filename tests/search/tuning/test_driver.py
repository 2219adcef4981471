"""A search finds what an exhaustive one would, for a fraction of its device time, whatever settings do on the way."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from landscapes import (
    KERNEL,
    TUNABLE,
    Arithmetic,
    Landscape,
    Values,
    bench_of,
    case_of,
    exhaustive_best_us,
    exhaustive_ms,
    knob,
)
from searched_kernels import matrix_product, narrow_valley, needle, row_kernel, rugged_product, two_basins
from simulated_gpu import ENVIRONMENT

from warpsmith.contracts.audit import KnobKind
from warpsmith.contracts.base import Contract, Settings
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.measure.worker.protocol import AnyQuestion, Compile, Identify, Time, WorkerError, WorkerFailure
from warpsmith.measure.worker.stored import StoredWorker
from warpsmith.search.tuning.budget import Budget, planned_ms
from warpsmith.search.tuning.driver import tune
from warpsmith.search.tuning.finalists import MOST_FINALISTS
from warpsmith.search.tuning.results import CaseResult, Reading, Tuning
from warpsmith.search.tuning.rungs import FINAL, REPEATED

WARPS, STAGES, PROGRAMS = (f"{KERNEL}.{name}" for name in ("num_warps", "num_stages", "programs_per_sm"))
NARROW = "2048x2048-bf16"


def tuned(landscape: Landscape, budget: Budget | None = None, **hooks: object) -> tuple[Tuning, Arithmetic]:
    worker = Arithmetic(landscape, **hooks)  # type: ignore[arg-type]
    found = tune(bench_of(landscape, worker), TUNABLE, landscape.knobs, Mode.FORWARD, budget or Budget())
    return found, worker


@functools.cache
def search_of(landscape: Callable[[], Landscape]) -> tuple[Landscape, Tuning, Arithmetic]:
    """A search that several tests look at."""
    made = landscape()
    return (made, *tuned(made))


def true_us(landscape: Landscape, case: Case, settings: Settings) -> float:
    return landscape.time_us(case, landscape.values(case, settings))


def result_at(found: Tuning, case: str) -> CaseResult:
    return next(each for each in found.cases if each.case.name == case)


def readings_at(found: Tuning, case: str) -> list[Reading]:
    return [reading for reading in found.readings if reading.case.name == case]


LANDSCAPES = pytest.mark.parametrize(
    "landscape", [row_kernel, matrix_product, rugged_product, two_basins, narrow_valley]
)


@LANDSCAPES
def test_the_best_of_every_case_is_within_two_percent_of_what_an_exhaustive_search_would_find(
    landscape: Callable[[], Landscape],
) -> None:
    made, found, _ = search_of(landscape)
    assert [each.case for each in found.cases] == list(made.cases)
    for each in found.cases:
        assert true_us(made, each.case, each.best[0]) <= 1.02 * exhaustive_best_us(made, each.case)


@LANDSCAPES
def test_a_search_takes_at_most_a_fifth_of_the_device_time_of_an_exhaustive_one(
    landscape: Callable[[], Landscape],
) -> None:
    made, found, _ = search_of(landscape)
    assert found.device_time_ms <= exhaustive_ms(made) / 5


def test_one_place_that_nothing_around_it_points_to_is_beyond_a_pattern_search() -> None:
    made, found, _ = search_of(needle)
    assert all(true_us(made, each.case, each.best[0]) == 100 for each in found.cases)


@LANDSCAPES
def test_the_original_is_in_every_comparison_and_the_last_one_of_a_case_is_the_full_one(
    landscape: Callable[[], Landscape],
) -> None:
    _, found, worker = search_of(landscape)
    assert all(ORIGINAL in [c.name for c in question.contenders] for question in worker.timings)
    for each in found.cases:
        last = [q for q in worker.timings if q.case == each.case][-1]
        assert last.plan == FINAL
        assert len(last.contenders) <= MOST_FINALISTS + 1
        assert each.original_launches == worker.landscape.launches(each.case, {})


@LANDSCAPES
def test_device_time_is_that_of_all_blocks_that_were_asked_for(landscape: Callable[[], Landscape]) -> None:
    _, found, worker = search_of(landscape)
    assert found.device_time_ms == sum(planned_ms(q.plan, len(q.contenders)) for q in worker.timings)
    assert found.stopped is None


def test_the_best_of_each_case_is_measured_long_at_every_case() -> None:
    _, found, _ = search_of(row_kernel)
    bests = [each.best[0] for each in found.cases]
    assert len({str(best) for best in bests}) > 1
    for each in found.cases:
        compiled = [best for best in bests if not (each.case.axes["N"] == 16384 and best[WARPS] < 8)]
        assert all(best in [settings for settings, _ in each.times_ms] for best in compiled)


def test_a_knob_that_changes_no_machine_code_is_inert_and_no_reading_has_it() -> None:
    _, found, worker = search_of(row_kernel)
    assert [each.id for each in found.inert_knobs] == [STAGES]
    assert [each.id for each in found.knobs] == [WARPS, PROGRAMS]
    assert not any(STAGES in reading.settings for reading in found.readings)
    assert not any(STAGES in contender.settings for q in worker.timings for contender in q.contenders)


def test_a_cap_on_registers_that_limit_nothing_is_not_searched() -> None:
    cap = knob("maxnreg", KnobKind.MAXNREG)
    found, _ = tuned(replace(row_kernel(), knobs=(*row_kernel().knobs, cap), registers=16))
    assert [each.id for each in found.knobs] == [WARPS, PROGRAMS]
    assert not any(cap.id in reading.settings for reading in found.readings)


def test_few_settings_are_all_tried_and_each_has_a_reading_with_all_knobs() -> None:
    _, found, _ = search_of(row_kernel)
    readings = readings_at(found, NARROW)
    by_settings = {(r.settings[WARPS], r.settings[PROGRAMS]): r for r in readings if r.settings}
    assert set(by_settings) == {(warps, programs) for warps in (1, 2, 4, 8, 16, 32) for programs in (1, 2, 4, 8, 16)}
    assert all(reading.time_ms is not None for reading in readings)
    assert {reading.final for reading in readings} == {True, False}
    assert by_settings[8, 1].note == "same machine code and grid as original"
    assert by_settings[8, 1].time_ms == result_at(found, NARROW).original_ms


def test_settings_with_the_same_machine_code_and_grid_are_timed_once() -> None:
    made = row_kernel()
    made = replace(made, in_code=frozenset(), programs=lambda case, values: min(300, 132 * values["programs_per_sm"]))
    found, worker = tuned(made)
    timed = {c.settings[PROGRAMS] for q in worker.timings for c in q.contenders if c.settings}
    assert timed == {2, 4}
    notes = {r.settings[PROGRAMS]: r.note for r in readings_at(found, NARROW) if r.settings.get(WARPS) == 8}
    assert notes[16] == "same machine code and grid as num_warps=8 programs_per_sm=4"


def test_where_no_knob_changes_anything_nothing_is_timed_and_it_is_said() -> None:
    made = replace(row_kernel(), knobs=(knob("num_stages", KnobKind.NUM_STAGES),))
    found, worker = tuned(made)
    assert (found.cases, found.device_time_ms, worker.timings) == ((), 0.0, [])
    assert found.notes == ("no knob has values that make a difference",)


def test_settings_that_do_not_compile_or_do_not_run_are_left_out_with_the_reason() -> None:
    made = replace(
        row_kernel(),
        compile_failure=lambda case, values: "too many threads" if values["num_warps"] == 4 else None,
        run_failure=lambda case, values: "illegal address" if values["programs_per_sm"] == 8 else None,
    )
    found, worker = tuned(made)
    readings = readings_at(found, NARROW)
    assert {(r.time_ms, r.note) for r in readings if r.settings.get(WARPS) == 4} == {(None, "too many threads")}
    failed = [r for r in readings if r.settings.get(PROGRAMS) == 8 and r.settings[WARPS] != 4]
    assert {(r.time_ms, r.note) for r in failed} == {(None, "illegal address")}
    assert not any(c.settings.get(WARPS) == 4 for q in worker.timings for c in q.contenders)
    best, _ = result_at(found, NARROW).best
    assert (best[WARPS], best[PROGRAMS]) == (8, 4)


@pytest.mark.parametrize("landscape", [row_kernel, matrix_product])
def test_settings_that_take_a_comparison_down_are_found_and_the_others_are_timed(
    landscape: Callable[[], Landscape],
) -> None:
    made = landscape()
    deadly: Callable[[Case, Values], bool] = lambda case, values: values["num_warps"] == 16  # noqa: E731
    found, _ = tuned(made, dies_of=deadly)
    readings = [r for r in found.readings if r.settings.get(WARPS) == 16 and r.binary]
    assert {(r.time_ms, r.note.rpartition("; ")[2]) for r in readings} == {(None, "died: signal 11")}
    survivors = replace(made, run_failure=lambda case, values: "died" if deadly(case, values) else None)
    for each in found.cases:
        assert true_us(made, each.case, each.best[0]) <= 1.02 * exhaustive_best_us(survivors, each.case)


def test_a_case_whose_original_does_not_compile_or_run_is_left_out_and_the_others_are_searched() -> None:
    def failure(question: AnyQuestion) -> WorkerFailure | None:
        if isinstance(question, Compile) and question.case.name == NARROW:
            return WorkerFailure(status="died", message="out of host memory")
        if isinstance(question, Time) and question.case.name == "8192x8192-bf16":
            return WorkerFailure(status="died", message="signal 9")
        return None

    found, _ = tuned(row_kernel(), question_failure=failure)
    assert [each.case.name for each in found.cases] == ["8192x4096-bf16", "4096x16384-bf16"]
    assert found.notes == (
        f"{NARROW} was left out: died: out of host memory",
        "8192x8192-bf16 was left out: died: signal 9",
    )


@pytest.mark.parametrize("status", ["died", "no_device"])
def test_where_no_case_can_be_timed_it_is_an_error(status: str) -> None:
    failure = WorkerFailure(status=status, message="gone")  # type: ignore[arg-type]
    with pytest.raises(WorkerError, match=f"{status}: gone"):
        tuned(row_kernel(), question_failure=lambda question: failure if isinstance(question, Time) else None)


def first_time_only(wrong: Mapping[str, int], factor: float) -> Callable[[Time, Values], float]:
    """An outlier: these values read wrong, but for when they are measured alone."""

    def outlier(question: Time, values: Values) -> float:
        concerned = all(values[name] == value for name, value in wrong.items())
        return factor if concerned and len(question.contenders) > 2 else 1.0

    return outlier


def test_a_reading_that_is_suddenly_much_better_is_repeated_alone_before_it_counts() -> None:
    wrong = {"num_warps": 1, "programs_per_sm": 1}
    made, honest, _ = search_of(row_kernel)
    found, worker = tuned(row_kernel(), outlier=first_time_only(wrong, 0.3))
    alone = [q for q in worker.timings if q.case.name == NARROW and q.plan == REPEATED]
    assert [c.settings for c in alone[0].contenders] == [{}, {WARPS: 1, PROGRAMS: 1}]
    (reading,) = [r for r in readings_at(found, NARROW) if r.settings == {WARPS: 1, PROGRAMS: 1}]
    assert "alone" in reading.note
    assert reading.time_ms == pytest.approx(true_us(made, reading.case, reading.settings) / 1e3, rel=0.02)
    assert result_at(found, NARROW).best[0] == result_at(honest, NARROW).best[0]


def test_what_is_suddenly_better_in_the_full_comparison_is_repeated_alone_too() -> None:
    slow = {"num_warps": 4, "programs_per_sm": 4}
    outlier = first_time_only(slow, 0.5)
    found, _ = tuned(row_kernel(), outlier=lambda q, values: outlier(q, values) if q.plan == FINAL else 1.0)
    result = result_at(found, NARROW)
    settings = {WARPS: 4, PROGRAMS: 4}
    time_ms = {str(each): time_ms for each, time_ms in result.times_ms}[str(settings)]
    assert time_ms == pytest.approx(true_us(row_kernel(), result.case, settings) / 1e3, rel=0.02)


@pytest.mark.parametrize("limit_ms", [200.0, 600.0, 1200.0])
@pytest.mark.parametrize("landscape", [row_kernel, matrix_product])
def test_a_budget_is_never_passed_and_what_is_there_is_used(
    landscape: Callable[[], Landscape], limit_ms: float
) -> None:
    made = landscape()
    found, worker = tuned(made, Budget(device_time_ms=limit_ms), dies_of=lambda case, values: values["num_warps"] == 2)
    assert sum(planned_ms(q.plan, len(q.contenders)) for q in worker.timings) == found.device_time_ms <= limit_ms
    assert found.stopped == f"the budget of {limit_ms:g} ms of device time was spent"
    assert found.cases
    assert all(true_us(made, each.case, each.best[0]) <= true_us(made, each.case, {}) for each in found.cases)


def test_a_budget_that_allows_no_comparison_finds_nothing_and_says_so() -> None:
    found, _ = tuned(row_kernel(), Budget(device_time_ms=10.0))
    assert found.cases == ()
    assert f"{NARROW} was left out: the budget allows no comparison" in found.notes


def test_when_the_time_is_over_the_cases_explored_so_far_are_still_compared() -> None:
    asked = 0

    def is_over() -> bool:
        nonlocal asked
        asked += 1
        return asked > 4

    found, _ = tuned(row_kernel(), Budget(is_over=is_over))
    assert found.stopped == "the time for the search was over"
    left_out = [note for note in found.notes if note.endswith("there was no time left for it")]
    assert found.cases
    assert len(found.cases) + len(left_out) == 4


@LANDSCAPES
def test_the_same_search_asks_the_same_questions(landscape: Callable[[], Landscape]) -> None:
    _, found, worker = search_of(landscape)
    again, other = tuned(landscape())
    assert [q.identity for q in other.asked] == [q.identity for q in worker.asked]
    assert again == found


class Memory:
    """A store in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, Mapping[str, object]] = {}

    def get(self, identity: str) -> Mapping[str, object] | None:
        return self.kept.get(identity)

    def append(self, **record: object) -> None:
        self.kept[str(record["identity"])] = record

    def take_over(self, record: Mapping[str, object]) -> None:
        raise AssertionError("nothing is replayed here")

    def records(self) -> list[Mapping[str, object]]:
        return list(self.kept.values())


class Identified(Arithmetic):
    """A worker that also says what it is."""

    def ask(self, question: AnyQuestion) -> Contract:
        return ENVIRONMENT if isinstance(question, Identify) else super().ask(question)


@pytest.mark.parametrize("landscape", [row_kernel, two_basins])
@pytest.mark.parametrize("after", [3, 30])
def test_a_search_that_was_cut_off_is_taken_up_with_no_measurement_repeated(
    landscape: Callable[[], Landscape], after: int
) -> None:
    made, whole, undisturbed = search_of(landscape)
    store, asked = Memory(), list[str]()
    for interrupt_after in (after, None):
        worker = Identified(made, interrupt_after=interrupt_after)
        bench = bench_of(made, worker)
        stored = StoredWorker(store, worker, Identify(target=bench.target))
        bench = replace(bench, worker=stored)
        if interrupt_after is not None:
            with pytest.raises(KeyboardInterrupt):
                tune(bench, TUNABLE, made.knobs, Mode.FORWARD, Budget())
            kept = set(store.kept)
        else:
            assert tune(bench, TUNABLE, made.knobs, Mode.FORWARD, Budget()) == whole
        asked += [q.identity for q in worker.asked]
        if interrupt_after is None:
            assert kept.isdisjoint(q.identity for q in worker.asked)
    assert set(asked) == {q.identity for q in undisturbed.asked}


def test_a_person_is_told_what_is_tried_how_much_is_done_and_the_best_so_far() -> None:
    made, told = row_kernel(), list[tuple[str, int | None, int | None]]()
    bench = replace(
        bench_of(made, Arithmetic(made)), report=lambda text, done=None, total=None: told.append((text, done, total))
    )
    tune(bench, TUNABLE, made.knobs, Mode.FORWARD, Budget())
    assert any(t == f"{NARROW} forward: best num_warps=4 programs_per_sm=8, 1.35× the original" for t, _, _ in told)
    assert all(done <= total for _, done, total in told if done is not None and total is not None)


def test_two_functions_with_a_knob_of_one_name_are_told_apart() -> None:
    other = knob("num_warps", KnobKind.NUM_WARPS).model_copy(update={"id": "other.num_warps"})
    made = replace(row_kernel(), knobs=(*row_kernel().knobs, other), cases=(case_of(M=2048, N=2048),))
    _, worker = tuned(made)
    for question in worker.timings:
        names = [contender.name for contender in question.contenders]
        assert len(set(names)) == len(names)
