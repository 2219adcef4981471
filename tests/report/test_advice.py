"""What a report recommends, each by a figure or a reason that the run has."""

from __future__ import annotations

import profile_fixtures as profiles
import report_fixtures as run

from warpsmith.contracts.result import FinalOutcome
from warpsmith.contracts.verdict import Interval, Outcome
from warpsmith.report.advice import advice


def test_what_is_left_is_told_of_the_winner_where_one_was_applied_else_of_the_original() -> None:
    applied, kept = advice(run.context()), advice(run.context(FinalOutcome.NO_IMPROVEMENT))

    assert "forward is near its ceiling where most of its time goes: leave it alone." in applied
    assert any(line.startswith("backward has most left at 4096×16384 bf16: 118.4 µs a call") for line in applied)
    assert any(line.startswith("backward has most left at 32768×2048 bf16: 170.4 µs a call") for line in kept)


def test_strategies_that_were_not_tried_are_named_with_the_command_that_tries_them() -> None:
    (line,) = (line for line in advice(run.context()) if "not tried" in line)

    assert "needless initialisation (1.00× to 1.04×)" in line and "settings" not in line
    assert "`warpsmith run rms_norm --fresh --max-variants 9`" in line


def test_a_faster_variant_that_a_guardrail_kept_out_is_told_with_where_its_limit_stands() -> None:
    first, second, third = run.variants()
    assert second.verdict is not None
    over = second.verdict.model_copy(
        update={"goal": Interval(value=1.5, low=1.49, high=1.51), "guardrails": run.GUARDRAILS[:1]}
    )
    kept_out = (first, second.model_copy(update={"verdict": over}), third)

    (line,) = (line for line in advice(run.context(variants=kept_out)) if "kept out" in line)
    assert line.startswith("v2 is at 1.500× and was kept out by peak memory, 32768x2048-bf16 backward.")
    assert not [line for line in advice(run.context()) if "kept out" in line]


def test_what_is_undecided_is_to_be_measured_again() -> None:
    first, second, third = run.variants()
    assert second.verdict is not None
    unsure = second.verdict.model_copy(update={"outcome": Outcome.INCONCLUSIVE})
    context = run.context(variants=(first, second.model_copy(update={"verdict": unsure}), third))

    assert any(
        line.startswith("v2, Eviction policies for streamed and reused data is undecided") for line in advice(context)
    )
    assert not [line for line in advice(run.context()) if "undecided" in line]


def test_the_most_urgent_stands_first() -> None:
    assert advice(run.context(FinalOutcome.REVERTED))[0].startswith("See which test fails on `rms_norm_v1.py`")
    assert advice(run.context(FinalOutcome.NOT_CONFIRMED))[0].startswith("Search again on a GPU that nothing else uses")


def test_calls_at_the_hosts_pace_are_told() -> None:
    told = [line for line in advice(run.context()) if "host's pace" in line]
    without = run.context(profile=profiles.profile(launch_overheads=()))

    assert told == [
        "Calls in a row of 2048×2048 bf16 in forward go at the host's pace: there a faster kernel changes nothing, and "
        "a CUDA graph or fewer launches do."
    ]
    assert not [line for line in advice(without) if "host's pace" in line]


def test_another_gpu_needs_a_run_of_its_own() -> None:
    assert advice(run.context())[-1].startswith("On another GPU the table of settings does nothing")
    assert advice(run.context(FinalOutcome.NO_IMPROVEMENT))[-1].startswith("What holds on NVIDIA H200 need not hold")
