"""Short readings of all, longer ones of those close to the best, and how a pattern search goes from case to case."""

from __future__ import annotations

from dataclasses import replace

from landscapes import KERNEL, TUNABLE, Arithmetic, Landscape, Values, bench_of, case_of, knob
from searched_kernels import matrix_product, row_kernel

from warpsmith.contracts.audit import KnobKind
from warpsmith.contracts.base import Settings
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import TimingPlan
from warpsmith.search.tuning.budget import Budget, Spending
from warpsmith.search.tuning.catalogue import Searched, compile_into, originals
from warpsmith.search.tuning.driver import tune
from warpsmith.search.tuning.finalists import shared
from warpsmith.search.tuning.halving import Score, Standings
from warpsmith.search.tuning.rungs import FINAL, RUNGS, Stopwatch
from warpsmith.search.tuning.space import key_of, label

WARPS, PROGRAMS = f"{KERNEL}.num_warps", f"{KERNEL}.programs_per_sm"


def searched(landscape: Landscape) -> Arithmetic:
    worker = Arithmetic(landscape)
    tune(bench_of(landscape, worker), TUNABLE, landscape.knobs, Mode.FORWARD, Budget())
    return worker


def contenders_of(worker: Arithmetic, plan: TimingPlan) -> list[Settings]:
    return [c.settings for q in worker.timings if q.plan == plan for c in q.contenders if c.settings]


def test_only_what_is_close_to_the_best_is_measured_longer_and_ever_fewer_are() -> None:
    made = replace(row_kernel(), cases=(case_of(M=2048, N=2048),), time_us=spread_out)
    worker = searched(made)
    times = {
        plan.rounds: [spread_out(made.cases[0], made.values(made.cases[0], s)) for s in contenders_of(worker, plan)]
        for plan in (*(rung.plan for rung in RUNGS), FINAL)
    }
    first, second, third, last = times.values()
    assert len(first) == 29  # all but the original's own
    assert max(second) <= 1.5 * 100 * 1.02 < max(first)
    assert max(third) <= 1.1 * 100 * 1.02 < max(second)
    assert len(first) > len(second) > len(third) >= len(last)
    assert min(last) == 100


def spread_out(case: Case, values: Values) -> float:
    """From 100 to 200 µs, a third of it close to the best."""
    number = (1, 2, 4, 8, 16, 32).index(values["num_warps"]) * 5 + (1, 2, 4, 8, 16).index(values["programs_per_sm"])
    return 100 + 100 * (((number * 7) % 30) / 29) ** 2


def test_a_flat_space_is_not_measured_long_as_a_whole() -> None:
    made = replace(row_kernel(), cases=(case_of(M=2048, N=2048),), time_us=lambda case, values: 100.0)
    worker = searched(made)
    assert [len(contenders_of(worker, rung.plan)) for rung in RUNGS] == [29, 12, 8]


def test_the_heaviest_case_comes_first_and_its_winner_is_a_start_of_the_next() -> None:
    made = matrix_product()
    worker = searched(made)
    first, *others = dict.fromkeys(question.case.name for question in worker.timings)
    heaviest = max(made.cases, key=lambda case: case.axes["M"] * case.axes["N"] * case.axes["K"])
    assert first == heaviest.name
    assert len(others) == 2
    tried = [c.settings for q in worker.timings if q.case == heaviest and q.plan != FINAL for c in q.contenders]
    best_us = min(made.time_us(heaviest, made.values(heaviest, settings)) for settings in tried)
    for name in others:
        start = next(q for q in worker.timings if q.case.name == name)
        assert any(
            made.time_us(heaviest, made.values(heaviest, c.settings)) <= 1.01 * best_us for c in start.contenders
        )


def test_stages_that_matter_only_beside_small_tiles_are_not_inert() -> None:
    made = matrix_product()
    stages = next(each for each in made.knobs if each.kind is KnobKind.NUM_STAGES)

    class OneTileAtATime(Arithmetic):
        """Where a tile is as long as the axis there is no loop, and stages change nothing."""

        def _compiled(self, case: Case, settings: Settings):  # type: ignore[no-untyped-def]
            looping = self.landscape.values(case, settings)["BLOCK_SIZE_K"] < 32
            same = settings if looping else {k: v for k, v in settings.items() if k != stages.id}
            return super()._compiled(case, same).model_copy(update={"settings": settings})

    worker = OneTileAtATime(replace(made, cases=made.cases[:1]))
    found = tune(bench_of(worker.landscape, worker), TUNABLE, made.knobs, Mode.FORWARD, Budget(device_time_ms=300))
    assert found.inert_knobs == ()


def standings_of(landscape: Landscape, ratios: dict[str, dict[int, float]]) -> dict[str, Standings]:
    """Standings where warps were read with these shares of the original's time, by case."""
    bench = bench_of(landscape, Arithmetic(landscape))
    of = Searched(bench, TUNABLE, Mode.FORWARD)
    catalogues, _ = originals(of)
    compile_into(of, [(each, [{WARPS: w} for w in (1, 2, 4, 16, 32)]) for each in catalogues.values()], "")
    found = {}
    for name, catalogue in catalogues.items():
        standings = Standings(Stopwatch(of, catalogue.case, Spending(Budget())), catalogue)
        standings.scores = {key_of({WARPS: warps}): Score(ratio, 0) for warps, ratio in ratios[name].items()}
        found[name] = standings
    return found


def test_what_is_compared_at_all_cases_covers_them_with_few_settings() -> None:
    made = replace(row_kernel(), knobs=(knob("num_warps", KnobKind.NUM_WARPS),))
    names = [case.name for case in made.cases]
    ratios = {key: {16: 0.8, 4: 0.795} for key in names} | {names[3]: {32: 0.5, 16: 0.9}, names[2]: {1: 1.2}}
    chosen = shared(standings_of(made, ratios), dict.fromkeys(names, 1.0))
    assert [label(dict(key)) for key in chosen] == ["num_warps=32", "num_warps=4"]
