"""What a report derives from its parts."""

from __future__ import annotations

import math
from pathlib import Path

import measured_fixtures as measured
import pytest
import report_fixtures as run

from warpsmith.contracts.case import Mode
from warpsmith.contracts.result import FinalOutcome
from warpsmith.report.aim_view import predictions_told
from warpsmith.report.report_view import limits, three_way_tables
from warpsmith.verdict.predictions import check_predictions


def test_the_winner_is_found_among_the_variants() -> None:
    context = run.context()

    assert context.winner == run.variants()[0]
    assert context.unsuccessful == run.variants()[1:]
    assert run.context(FinalOutcome.NO_IMPROVEMENT).winner is None


def test_share_of_the_ceiling_is_the_least_time_over_the_fresh_one() -> None:
    (case, *_) = measured.TUNING
    only = tuple(c for c in run.case_speedups() if c.case == case.name)
    confirmation = run.accepted().model_copy(update={"cases": only})
    result = run.context().result.model_copy(update={"confirmation": confirmation})

    # 3 · 2048² · 2 bytes at 3275.4 GB/s, between the ceilings at 16 and 256 MiB, are 7.683 µs; measured 14.2 and 11.9.
    assert run.context(result=result).share_before_and_after(Mode.BACKWARD) == pytest.approx(
        (7.683 / 14.2, 7.683 / 11.9), rel=1e-3
    )


def test_there_is_no_share_where_nothing_was_measured_afresh() -> None:
    assert run.context(FinalOutcome.NO_IMPROVEMENT).share_before_and_after(Mode.FULL) is None


def test_a_gpu_that_others_computed_on_is_among_the_limits() -> None:
    alone, shared = limits(run.context()), limits(run.context(shared_with=(17, 23)))
    assert shared == (*alone, "Other processes computed on the GPU during the run (17, 23): figures may be off.")


def test_links_are_relative_to_the_reports_folder() -> None:
    context = run.context(folder=Path("repo/optimization/rms_norm"))

    assert context.relative(Path("repo/optimization/rms_norm/plots/speed.png")) == "plots/speed.png"
    assert context.relative(Path("repo/src/kernel.py")) == "../../src/kernel.py"


def test_another_method_is_told_below_the_three_way_table() -> None:
    tables = three_way_tables(run.context())

    assert [table.providers for table in tables] == [("original", "optimized", "liger", "torch", "torch_compile")] * 3
    assert tables[0].footnotes == ("torch_compile was timed by CUDA events, in a comparison of its own.",)


def test_predictions_are_counted_over_what_was_measured() -> None:
    found = check_predictions(run.variants())

    assert [(c.number, c.place) for c in found.checks] == [(1, "within"), (2, "below")]
    middles = math.sqrt(1.10 * 1.45), math.sqrt(1.31 * 1.36)
    assert found.measured_over_middle == pytest.approx(math.sqrt(1.307 / middles[0] * 1.299 / middles[1]), abs=1e-6)
    assert predictions_told(found) == (
        "Of 2 measured variants, 1 came out within the prediction, 0 above and 1 below; measured over the middle of "
        "the range, geometric mean: 1.004."
    )
    assert predictions_told(check_predictions(run.variants()[2:])) is None


def test_a_winner_is_told_with_what_it_builds_on_but_for_tables_that_were_replaced() -> None:
    first = run.variants()[0]
    swept = {"8192x4096-bf16": {"k.num_warps": 8}}
    chain = (
        first.model_copy(update={"number": 1, "based_on": 0, "chosen_settings": swept, "changes": ("a table",)}),
        first.model_copy(update={"number": 2, "based_on": 1, "chosen_settings": {}, "changes": ("allocated empty",)}),
        first.model_copy(update={"number": 3, "based_on": 2, "chosen_settings": swept, "changes": ("a new table",)}),
        first.model_copy(update={"number": 4, "based_on": 3, "chosen_settings": {}, "changes": ("not in it",)}),
    )
    result = run.context().result.model_copy(update={"winner": 3})

    told = run.context(result=result, variants=chain).winning_changes
    assert [(variant.number, changes) for variant, changes in told] == [
        (2, ("allocated empty",)),
        (3, ("a new table",)),
    ]
