"""How a pattern search moves, and what each of its ways of moving is needed for."""

from __future__ import annotations

import pytest
from landscapes import TUNABLE, Arithmetic, Landscape, bench_of, exhaustive_best_us
from searched_kernels import narrow_valley, two_basins

from warpsmith.contracts.case import Mode
from warpsmith.search.tuning.budget import Budget
from warpsmith.search.tuning.driver import tune
from warpsmith.search.tuning.exploring import MOST_TIMED
from warpsmith.search.tuning.space import Space


def shares_of_the_best(made: Landscape) -> list[float]:
    """How the true time of what was found compares to the best there is, a case."""
    found = tune(bench_of(made, Arithmetic(made)), TUNABLE, made.knobs, Mode.FORWARD, Budget())
    return [
        made.time_us(each.case, made.values(each.case, each.best[0])) / exhaustive_best_us(made, each.case)
        for each in found.cases
    ]


def test_steps_of_two_knobs_at_once_lead_along_a_narrow_valley(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Space, "spread", lambda space: iter(()))
    assert max(shares_of_the_best(narrow_valley())) < 1.02
    monkeypatch.setattr(Space, "diagonals", lambda space, point: [])
    assert max(shares_of_the_best(narrow_valley())) > 1.02


def test_starts_spread_over_the_space_find_a_valley_that_no_way_from_the_original_leads_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert max(shares_of_the_best(two_basins())) < 1.02
    monkeypatch.setattr(Space, "spread", lambda space: iter(()))
    assert max(shares_of_the_best(two_basins())) > 1.02


def test_a_pattern_search_times_no_more_settings_than_an_exhaustive_one_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every step is a little better, it goes on for long."""
    monkeypatch.setattr("warpsmith.search.tuning.exploring.MOST_TIMED", 60)
    made, worker = narrow_valley(), Arithmetic(narrow_valley())
    found = tune(bench_of(made, worker), TUNABLE, made.knobs, Mode.FORWARD, Budget())
    timed = {str(c.settings) for q in worker.timings if q.case == made.cases[0] for c in q.contenders}
    shared = {str(settings) for settings, _ in found.cases[0].times_ms}
    assert len(timed - shared) <= 60 < MOST_TIMED
    assert found.stopped is None
    assert found.notes[0].startswith("4096x4096x4096-bf16 forward: the search ended at 60 of ")
