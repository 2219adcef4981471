"""What a run is after, from the request to the report: objective, regime, weights, a figure to reach."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated_gpu import DEVICE
from simulated_run import Run

from warpsmith.contracts.aim import CaseWeight, Objective, TargetMetric, parse_conditions
from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import SearchResult
from warpsmith.contracts.variant import VariantStatus
from warpsmith.contracts.verdict import Outcome
from warpsmith.measure.worker.protocol import MeasureMemory, Time
from warpsmith.search.bench import Bench
from warpsmith.stages.history import prior_notes
from warpsmith.stages.judge import Judgement, judge
from warpsmith.stages.rules import Rules, Standing
from warpsmith.stages.runs import Options, begin
from warpsmith.verdict.thresholds import Thresholds
from warpsmith.workspace.documents import read_document

MARK = "# candidate\n"
RULES = Rules(Mode.FULL, Thresholds(), noise_floor=0.0005)
NARROW = "8192x2048-bf16"


@pytest.fixture
def bench(profiled: Run) -> Bench:
    session = profiled.session()
    return session.bench(session.describe(), DEVICE)


def judged(run: Run, bench: Bench, rules: Rules, *, best: str | None = None) -> Judgement:
    original = run.workspace.original.read_text()
    text = original + MARK
    named = None if best is None else "v1"
    of_best = None if best is None else bench.keep("v1", original + best)
    return judge(bench, Standing("v2", bench.keep("v2", text), text, named, of_best), rules, original)


def test_a_candidate_that_only_saves_memory_wins_by_that_objective_alone(profiled: Run, bench: Bench) -> None:
    profiled.gpu.peak_bytes = lambda text: 1 << 19 if MARK in text else 1 << 20
    by_memory = judged(profiled, bench, replace(RULES, objective=Objective.MEMORY)).verdict
    by_either = judged(profiled, bench, replace(RULES, objective=Objective.BALANCED)).verdict
    by_speed = judged(profiled, bench, RULES).verdict

    assert by_memory is not None and by_either is not None and by_speed is not None
    assert (by_memory.outcome, by_either.outcome) == (Outcome.ACCEPTED, Outcome.ACCEPTED)
    assert by_memory.goal is not None and by_memory.goal.value == 2.0
    assert by_speed.outcome is not Outcome.ACCEPTED


def test_a_candidate_that_saves_no_memory_is_given_up_before_the_rest_is_timed(profiled: Run, bench: Bench) -> None:
    profiled.gpu.slowdown = lambda work: 0.8 if MARK in work.text else 1.0
    found = judged(profiled, bench, replace(RULES, objective=Objective.MEMORY), best="# best\n")

    assert found.verdict is not None and found.verdict.outcome is Outcome.REJECTED
    assert found.verdict.reasons == ("no less peak memory than the best so far, v1 over the tuning cases: 1.000×",)
    assert {timing.mode for timing in found.timings} == {Mode.FULL}
    weighed = [question for question in profiled.gpu.asked if isinstance(question, MeasureMemory)]
    assert [c.name for c in weighed[-1].contenders] == ["original", "v1", "v2"]


def test_only_the_regime_makes_the_goal_and_the_rest_is_timed_as_a_guard(profiled: Run, bench: Bench) -> None:
    profiled.gpu.slowdown = lambda work: 0.8 if MARK in work.text and work.case.axes["N"] <= 4096 else 1.0
    counted = {case.name: case.weight for case in bench.spec.tuning_cases if case.axes["N"] <= 4096}
    found = judged(profiled, bench, replace(RULES, weights=counted))

    assert found.verdict is not None and found.verdict.goal is not None
    assert found.verdict.goal.value == pytest.approx(1.25, rel=0.01)
    assert {c.case for c in found.verdict.cases} == {case.name for case in bench.spec.cases}


def test_a_search_in_a_regime_sweeps_only_there_and_its_profile_is_of_it(run: Run) -> None:
    run.ask_for(autonomous=True, regime=["N<=4096"], max_variants=1)
    profile = run.profile()
    before = len(run.gpu.asked)
    result = run.optimize()

    headroom = {each.case for mode in profile.modes for each in mode.headrooms}
    assert headroom == {"2048x2048-bf16", "8192x4096-bf16"}
    tuned = {b.case for b in profile.baselines if b.role is Role.TUNING}
    assert "8192x8192-bf16" in tuned
    assert "Regime: N<=4096." in run.workspace.profile_page.read_text()
    asked = [q for q in run.gpu.asked[before:] if isinstance(q, Time)]
    swept = {q.case.name for q in asked if any(c.settings for c in q.contenders)}
    assert swept == {"2048x2048-bf16", "8192x4096-bf16"}
    assert "8192x8192-bf16" in {q.case.name for q in asked}
    assert result.winner == 1
    assert "- Regime: N<=4096. Only the tuning cases" in run.workspace.comparison.read_text()


def test_a_search_goes_by_the_weights_that_were_asked_for(run: Run) -> None:
    run.ask_for(autonomous=True, regime=["N<=4096"], weights=["N=4096: 3"], max_variants=1)
    run.profile()
    before = len(run.gpu.asked)
    run.optimize()

    asked = [q for q in run.gpu.asked[before:] if isinstance(q, Time)]
    searched = {q.case.name: q.case.weight for q in asked if any(c.settings for c in q.contenders)}
    assert searched == {"2048x2048-bf16": 1.0, "8192x4096-bf16": 3.0}


def test_the_profile_asks_the_same_whatever_the_aim(run: Run, profiled: Run) -> None:
    run.ask_for(autonomous=True, objective="memory", weights=["N=4096: 3"], target_metric="speedup > 9")
    run.profile()
    plain = Run.of(profiled.root)
    plain.workspace.measurements.unlink()
    plain.workspace.profile.unlink()
    plain.profile()

    def contents(asked: Run) -> list[str]:
        return [str(question).replace(str(asked.root), "") for question in asked.gpu.asked]

    assert contents(run) == contents(plain)
    weights = {h.case: h.weight for m in read_document(run.workspace.profile, Profile).modes for h in m.headrooms}
    assert weights["8192x4096-bf16"] == 3.0


def test_a_target_that_a_variant_meets_ends_the_search_and_every_page_tells_it(profiled: Run) -> None:
    profiled.ask_for(autonomous=True, target_metric="speedup > 1.2")
    result = profiled.optimize()
    profiled.finalize()

    assert result.stop_reason == "target met: speedup > 1.2; measured 1.336 ×"
    assert result.target is not None and result.target.met
    assert len(profiled.variants()) == 1
    assert "- Target met: speedup > 1.2; measured 1.336 ×." in profiled.workspace.comparison.read_text()
    assert "- Target met: speedup > 1.2; measured 1.3" in profiled.workspace.report_page.read_text()


def test_a_target_that_nothing_meets_is_told_with_what_was_measured(profiled: Run) -> None:
    profiled.ask_for(autonomous=True, target_metric="backward < 1 us at N=4096", max_variants=1)
    result = profiled.optimize()

    assert result.target is not None and not result.target.met and result.target.case == "8192x4096-bf16"
    assert "- Target not met: backward < 1 us at N=4096; measured " in profiled.workspace.comparison.read_text()


def test_a_target_that_the_original_meets_is_no_search_at_all(profiled: Run) -> None:
    profiled.ask_for(autonomous=True, target_metric="forward < 1 s")
    result = profiled.optimize()

    assert (result.winner, result.variants) == (None, ())
    assert result.stop_reason.startswith("target met: forward < 1 s; measured ")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"regime": ["K<=4096"]}, "--regime K<=4096: K is no axis of rms_norm; known: M, N, dtype"),
        ({"regime": ["N<=16"]}, "no tuning case of rms_norm meets N<=16; they have M 2048, 8192; N 2048, 4096, 8192; "),
        ({"weights": ["K=1: 2"]}, "--weight K=1: K is no axis"),
        ({"weights": ["8192x1-bf16=2"]}, "--weight 8192x1-bf16=2: none of the cases that count"),
        ({"weights": [f"{NARROW}=2"]}, "none of the cases that count is meant"),
        ({"target_metric": "full < 1 ms at K=1"}, "--target-metric K=1: K is no axis"),
        ({"target_metric": "full < 1 ms at N=5"}, "no case of rms_norm meets N=5; they have M 2048, 8192"),
        ({"target_metric": "peak memory < 1 GB at dtype=fp16"}, "peak memory is weighed at tuning cases only"),
    ],
)
def test_an_aim_that_does_not_fit_the_target_is_refused_before_anything_is_measured(
    run: Run, fields: dict[str, object], told: str
) -> None:
    run.ask_for(autonomous=True, **fields)
    with pytest.raises(UsageError) as refused:
        run.profile()

    assert told in refused.value.message
    assert refused.value.next_command is not None and "--regime 'M<=8192'" in refused.value.next_command
    assert run.gpu.asked == []


def test_an_aim_may_be_mended_until_there_is_a_profile(run: Run, profiled: Run) -> None:
    options = Options(regime=parse_conditions("N<=4096"), weights=(CaseWeight.parse("N=4096: 2"),))

    assert begin(run.workspace, "rms_norm", options).aim.regime == parse_conditions("N<=4096")
    with pytest.raises(UsageError, match="another regime, weights"):
        begin(profiled.workspace, "rms_norm", options)


def test_what_nothing_could_come_of_is_not_kept_when_a_run_begins_nor_when_its_aim_is_mended(run: Run) -> None:
    def expect_fit(request: Request, again: str) -> None:
        raise UsageError(f"{request.aim.regime}", next_command=again)

    before = run.workspace.request.read_bytes()
    bad = Options(regime=parse_conditions("Q<=4096"))
    with pytest.raises(UsageError) as refused:
        begin(run.workspace, "rms_norm", bad, expect_fit=expect_fit)
    assert refused.value.next_command == "warpsmith run rms_norm"
    assert run.workspace.request.read_bytes() == before

    run.workspace.request.unlink()
    with pytest.raises(UsageError):
        begin(run.workspace, "rms_norm", bad, expect_fit=expect_fit)
    assert not run.workspace.request.is_file()


@pytest.mark.parametrize(
    ("fields", "told", "again"),
    [
        (
            {"goal": Mode.FORWARD, "target_metric": "backward < 1 ms"},
            "the goal is forward, of which backward is no part",
            "warpsmith run rms_norm --goal backward --target-metric 'backward < 1 ms'",
        ),
        (
            {"objective": Objective.MEMORY, "target_speedup": 2.0},
            "--target-speedup is of time, and --objective memory weighs none",
            "warpsmith run rms_norm --objective memory --target-metric 'peak memory < 100 MiB'   (for example)",
        ),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_is_measured(
    run: Run, fields: dict[str, object], told: str, again: str
) -> None:
    run.ask_for(autonomous=True, **fields)
    with pytest.raises(UsageError, match=told) as refused:
        run.profile()
    assert refused.value.next_command == again
    assert run.gpu.asked == []


def test_the_command_that_begins_such_a_run_anew_has_its_aim(profiled: Run) -> None:
    profiled.ask_for(
        autonomous=True,
        objective=Objective.BALANCED,
        weights=(CaseWeight.parse("N=4096: 2"),),
        target_metric=TargetMetric.parse("speedup > 9"),
        max_variants=1,
    )
    profiled.optimize()
    profiled.finalize()

    asked = "--objective balanced --weight 'N=4096: 2' --target-metric 'speedup > 9'"
    assert asked in profiled.workspace.report_page.read_text()


def test_every_note_tells_what_the_notes_before_taught_and_what_it_rests_on(optimized: Run) -> None:
    first, second, *_ = prior_notes(optimized.workspace)
    page = optimized.workspace.variant_notes(2).read_text()

    assert first.taught == ()
    (lesson,) = second.taught
    assert lesson.startswith("v1, settings: accepted, 1.336×, ") and lesson in page
    assert any("backward: least work over device time" in line for line in first.evidence)
    assert any(line.startswith("line ") for line in first.basis)
    assert second.basis[-1] == "times 1.336×, which v1 was measured at"
    assert all(line in page for line in (*second.evidence, *second.basis))


def test_how_good_the_predictions_were_stands_in_the_result(optimized: Run) -> None:
    predictions = read_document(optimized.workspace.search_result, SearchResult).predictions

    assert predictions is not None
    measured = [v.number for v in optimized.variants() if v.status is VariantStatus.JUDGED]
    assert [check.number for check in predictions.checks] == measured
    assert "## How good the predictions were" in optimized.workspace.comparison.read_text()


def test_a_sweep_leaves_plots_that_its_notes_and_the_comparison_link_to(optimized: Run) -> None:
    swept = [variant for variant in optimized.variants() if variant.plots]

    assert swept and swept[0].number == 1
    for variant in swept:
        for path in variant.plots:
            assert (optimized.workspace.directory / path).is_file()
            assert f"]({path})" in optimized.workspace.variant_notes(variant.number).read_text()
            assert f"]({path})" in optimized.workspace.comparison.read_text()
