"""The search: predictions before results, a best that moves only on a clear win, an end that says why."""

from __future__ import annotations

import hashlib
import json

import pytest
from simulated_gpu import described
from simulated_kernel import ZEROING_US, Work, duration_us
from simulated_run import Run
from tampering import verified

from warpsmith.contracts.case import Mode
from warpsmith.contracts.errors import PreflightError, Rejected, Unavailable
from warpsmith.contracts.measurement import Timing
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.variant import Variant, VariantStatus
from warpsmith.contracts.verdict import Outcome
from warpsmith.measure.worker.protocol import AnyQuestion, Time
from warpsmith.stages.judge import LONGER
from warpsmith.workspace.documents import read_document, write_document

SMALL = "2048x2048-bf16"


def recommend_only(run: Run, *strategies: str, predicted_high: float = 1.0) -> None:
    """Rewrites the profile's recommendations."""
    profile = read_document(run.workspace.profile, Profile)
    known = {recommendation.strategy: recommendation for recommendation in profile.recommendations}
    chosen = tuple(known[name].model_copy(update={"predicted_high": predicted_high}) for name in strategies)
    write_document(run.workspace.profile, profile.model_copy(update={"recommendations": chosen}))


def is_zeroed(work: Work) -> bool:
    return "torch.zeros(" in work.text


def told(variants: tuple[Variant, ...]) -> list[tuple[str, int, VariantStatus, Outcome | None]]:
    return [(v.strategy, v.based_on, v.status, v.verdict.outcome if v.verdict else None) for v in variants]


def test_each_variant_builds_on_the_best_and_the_last_best_wins(optimized: Run) -> None:
    assert told(optimized.variants()) == [
        ("settings", 0, VariantStatus.JUDGED, Outcome.ACCEPTED),
        ("needless_initialisation", 1, VariantStatus.JUDGED, Outcome.ACCEPTED),
        ("pipelined_loop", 2, VariantStatus.JUDGED, Outcome.ACCEPTED),
        ("cache_hints", 3, VariantStatus.INAPPLICABLE, None),
        ("stream_once_stores", 3, VariantStatus.INAPPLICABLE, None),
    ]
    result = json.loads(optimized.workspace.search_result.read_text())
    assert (result["winner"], result["variants"]) == (3, [1, 2, 3, 4, 5])
    assert result["winner_sha256"] == optimized.variants()[2].source_sha256
    assert result["stop_reason"] == "every strategy that the profile recommends was tried"


def test_what_searches_settings_too_is_expected_to_bring_what_the_best_has_not_won_by_them(profiled: Run) -> None:
    recommend_only(profiled, "pipelined_loop", "settings", predicted_high=1.3)
    profiled.optimize()
    pipelined, *_ = profiled.variants()
    assert (pipelined.strategy, pipelined.predicted_high) == ("pipelined_loop", pytest.approx(1.3 * 1.3))
    assert pipelined.basis[-1].startswith("times up to 1.30× by settings, which are searched with it")


def test_what_searches_settings_too_is_expected_to_bring_no_more_where_the_best_has_them(optimized: Run) -> None:
    assert not any("by settings" in line for variant in optimized.variants() for line in variant.basis)


def test_a_variant_has_the_line_endings_of_the_original(profiled: Run) -> None:
    original = profiled.workspace.original
    original.write_bytes(original.read_bytes().replace(b"\n", b"\r\n"))
    profile = read_document(profiled.workspace.profile, Profile)
    profiled.production.write_bytes(original.read_bytes())
    crlf = hashlib.sha256(original.read_bytes()).hexdigest()
    write_document(profiled.workspace.profile, profile.model_copy(update={"source_sha256": crlf}))
    recommend_only(profiled, "needless_initialisation")
    profiled.optimize()

    source = profiled.workspace.variant(1).read_bytes()
    assert b"torch.zeros(" not in source
    assert source.count(b"\r\n") == source.count(b"\n") > 0


def test_the_comparison_lists_every_variant_and_marks_how_each_ended(optimized: Run) -> None:
    page = optimized.workspace.comparison.read_text()
    for variant in optimized.variants():
        assert f"v{variant.number}" in page
        assert variant.title in page
    assert "inapplicable" in page
    assert "every strategy that the profile recommends was tried" in page


def test_every_variant_leaves_its_source_record_notes_and_results(optimized: Run) -> None:
    workspace = optimized.workspace
    for number in (1, 2, 3):
        assert workspace.variant(number).is_file()
        assert workspace.variant_notes(number).is_file()
        assert workspace.results_csv(number).is_file() and workspace.samples_csv(number).is_file()
    searched = [line.partition(",")[0] for line in workspace.sweep_csv.read_text().splitlines()]
    assert list(dict.fromkeys(searched))[:2] == ["variant", "v1"]
    assert not workspace.variant(4).exists() and workspace.variant_notes(4).is_file()


def test_the_prediction_is_on_disk_before_anything_of_the_variant_is_measured(profiled: Run) -> None:
    profiled.ask_for(autonomous=True, max_variants=1)
    seen: list[tuple[VariantStatus, str]] = []

    def watch(question: AnyQuestion) -> None:
        names = [c.name for c in question.contenders] if isinstance(question, Time) else []
        if question.kind == "compile" or "v1" in names:
            (variant,) = profiled.variants()
            seen.append((variant.status, variant.hypothesis))

    profiled.gpu.watch = watch
    profiled.optimize()
    (finished,) = profiled.variants()
    assert len(seen) > 3
    assert set(seen) == {(VariantStatus.PROPOSED, finished.hypothesis)}
    assert f"{finished.predicted_low:.2f} to {finished.predicted_high:.2f} ×" in finished.learnings[-2]


def test_the_best_does_not_move_for_a_gain_that_noise_could_be(profiled: Run) -> None:
    """The second variant is 0.05% better than the first: accepted against the original, no better than the best."""
    recommend_only(profiled, "settings", "needless_initialisation")
    costs = described(profiled.root).costs

    def all_but_eaten_up(work: Work) -> float:
        if is_zeroed(work) or work.mode is Mode.FORWARD:
            return 1.0
        duration = duration_us(work, costs[work.case.name])
        return 0.9995 * (duration + ZEROING_US) / duration

    profiled.gpu.slowdown = all_but_eaten_up
    result = profiled.optimize()

    second = profiled.variants()[1]
    assert second.accepted and second.verdict is not None and second.verdict.over_best is not None
    assert 1.0 < second.verdict.over_best.value < 1.001
    assert result.winner == 1


def test_a_noise_floor_that_raises_the_bar_is_told(profiled: Run) -> None:
    recommend_only(profiled, "needless_initialisation")
    profiled.optimize()
    assert not any("a win must exceed" in line for line in profiled.told.lines)

    profiled.configure("guardrails: {minimum_effect: 0.00001}")
    floor = profiled.optimize().noise_floor

    assert floor is not None
    assert f"noise floor {floor:.2%}: a win must exceed {2 * floor:.2%}" in profiled.told.lines


@pytest.mark.parametrize(
    ("longer_rounds", "reason"),
    [
        (3, "how far noise reaches is not known: only 3 rounds fitted the time cap at "),
        (8, "every strategy that the profile recommends was tried"),
    ],
)
def test_a_noise_floor_of_too_few_rounds_is_measured_longer_and_else_ends_the_search(
    profiled: Run, longer_rounds: int, reason: str
) -> None:
    recommend_only(profiled, "needless_initialisation")
    measured = profiled.gpu._time

    def capped(question: Time) -> Timing:
        rounds = longer_rounds if question.plan == LONGER else 1
        timing = measured(question)
        kept = tuple(block for block in timing.blocks if block.round < rounds)
        return timing.model_copy(update={"blocks": kept, "capped": True})

    profiled.gpu._time = capped
    result = profiled.optimize()

    assert result.stop_reason.startswith(reason)
    assert (result.noise_floor is None, result.variants) == ((True, ()) if longer_rounds == 3 else (False, (1,)))


def test_a_slower_variant_is_recorded_and_left_behind(profiled: Run) -> None:
    recommend_only(profiled, "settings", "needless_initialisation")
    profiled.gpu.slowdown = lambda work: 1.0 if is_zeroed(work) else 1.2
    result = profiled.optimize()

    assert told(profiled.variants()) == [
        ("settings", 0, VariantStatus.JUDGED, Outcome.ACCEPTED),
        ("needless_initialisation", 1, VariantStatus.JUDGED, Outcome.REJECTED),
    ]
    assert result.winner == 1


def test_a_mixed_sweep_keeps_the_original_where_it_was_slower_and_is_judged_again(profiled: Run) -> None:
    profiled.ask_for(autonomous=True, max_variants=1)
    slower = {Mode.FORWARD: 1.0, Mode.BACKWARD: 2.0, Mode.FULL: 1.5}
    profiled.gpu.slowdown = lambda work: (
        slower[work.mode] if work.case.name == "8192x2048-bf16" and work.programs_per_sm > 1 else 1.0
    )
    result = profiled.optimize()

    (variant,) = profiled.variants()
    assert variant.changes[-1] == "bands removed where a case was slower"
    assert variant.accepted and variant.verdict is not None
    assert not any(case.regressed for case in variant.verdict.cases)
    source = profiled.workspace.variant(1).read_text()
    assert "((2048, 4096), (2048, 8192)" not in source and "((4097, 8192), (2048, 8192)" in source
    assert result.winner_sha256 == variant.source_sha256


def test_the_settings_are_swept_again_once_the_source_that_won_has_changed(profiled: Run) -> None:
    recommend_only(profiled, "settings", "needless_initialisation")
    profiled.optimize()
    assert [v.strategy for v in profiled.variants()] == ["settings", "needless_initialisation", "settings"]
    assert profiled.variants()[2].based_on == 2


def test_nothing_faster_is_a_complete_result(profiled: Run) -> None:
    recommend_only(profiled, "needless_initialisation")
    profiled.gpu.slowdown = lambda work: 1.0 if is_zeroed(work) else 1.2
    result = profiled.optimize()

    assert (result.winner, result.winner_sha256) == (None, None)
    assert profiled.workspace.comparison.is_file()


def test_a_wrong_variant_tells_the_command_that_shows_it_again_and_its_run_verifies(run: Run) -> None:
    original = run.production.read_text()
    run.gpu.wrong_result = lambda work: "dx is off" if work.case.name == SMALL and work.text != original else None
    run.ask_for(autonomous=True, max_variants=1)
    run.profile()
    run.optimize()
    (variant,) = run.variants()
    command = f"warpsmith check rms_norm optimization/rms_norm/rms_norm_v1.py --case {SMALL} --seed 0"

    assert variant.examination is not None
    assert (variant.status, variant.examination.command) == (VariantStatus.INCORRECT, command)
    assert [check.case.name for check in variant.examination.failed] == [SMALL]
    assert f"To see it again:\n\n```sh\n{command}\n```" in run.workspace.variant_notes(1).read_text()
    assert f"{SMALL}, values: dx is off; to see it again: {command}" in run.workspace.comparison.read_text()
    assert verified(run).differences == ()


def test_the_record_of_a_variant_that_came_through_the_gate_says_nothing_of_it(optimized: Run) -> None:
    records = [json.loads(path.read_text()) for path in optimized.workspace.variant_records()]
    assert [record for record in records if "examination" in record] == []


def test_a_variant_whose_measuring_breaks_down_does_not_end_the_search(profiled: Run) -> None:
    recommend_only(profiled, "settings", "needless_initialisation")
    profiled.gpu.worker_failure = lambda question: (
        "killed"
        if isinstance(question, Time) and any("tunable" in c.source.path for c in question.contenders)
        else None
    )
    profiled.optimize()
    assert told(profiled.variants())[:2] == [
        ("settings", 0, VariantStatus.FAILED, None),
        ("needless_initialisation", 0, VariantStatus.JUDGED, Outcome.ACCEPTED),
    ]


@pytest.mark.parametrize(
    ("request_fields", "reason", "variants"),
    [
        ({"max_variants": 1}, "variant budget used: 1 of 1", 1),
        ({"target_speedup": 1.2}, "target reached: 1.336×, asked for 1.200×", 1),
        ({"time_budget_s": 1e-9}, "time budget used: 0 s of 0 s", 0),
    ],
)
def test_the_search_ends_where_the_request_says(
    profiled: Run, request_fields: dict[str, float], reason: str, variants: int
) -> None:
    profiled.ask_for(autonomous=True, **request_fields)
    assert profiled.optimize().stop_reason == reason
    assert len(profiled.variants()) == variants


def test_two_variants_in_a_row_without_a_gain_end_the_search_when_nothing_untried_promises_more(
    profiled: Run,
) -> None:
    recommend_only(profiled, "needless_initialisation", "settings", "pipelined_loop")
    profiled.gpu.slowdown = lambda work: 3.0 if "_tuned_settings" in work.text or not is_zeroed(work) else 1.0
    result = profiled.optimize()
    assert result.stop_reason == "2 measured variants in a row were under 1% better than the best so far"
    assert [v.strategy for v in profiled.variants()] == ["needless_initialisation", "settings"]


def test_optimizing_again_measures_nothing_and_ends_the_same_to_the_byte(optimized: Run) -> None:
    names = ("comparison.json", "comparison.md", "rms_norm_v3.json", "rms_norm_v3.py")
    before = [(optimized.workspace.directory / name).read_bytes() for name in names]
    optimized.optimize()

    assert optimized.gpu.asked == []
    assert [(optimized.workspace.directory / name).read_bytes() for name in names] == before


def test_a_search_that_was_killed_measures_only_what_is_missing(profiled: Run, optimized: Run) -> None:
    profiled.ask_for(autonomous=True, max_variants=1)

    def killed(question: AnyQuestion) -> None:
        if question.kind == "check":
            raise KeyboardInterrupt

    profiled.gpu.watch = killed
    with pytest.raises(KeyboardInterrupt):
        profiled.optimize()
    before = {question.identity for question in profiled.gpu.asked}
    profiled.gpu.asked.clear()
    profiled.gpu.watch = lambda question: None
    profiled.optimize()

    assert before and not before & {question.identity for question in profiled.gpu.asked}
    assert profiled.variants() == optimized.variants()[:1]


def test_without_a_profile_there_is_nothing_to_build_on(run: Run) -> None:
    with pytest.raises(PreflightError, match="stage 2 builds on the profile") as caught:
        run.optimize()
    assert caught.value.next_command == "warpsmith profile rms_norm"
    assert run.gpu.asked == []


def test_a_run_that_was_profiled_on_another_gpu_does_not_go_on(profiled: Run) -> None:
    profile = read_document(profiled.workspace.profile, Profile)
    environment = profile.device.environment.model_copy(update={"gpu_name": "Simulated A100", "gpu_uuid": "GPU-9"})
    device = profile.device.model_copy(update={"environment": environment})
    write_document(profiled.workspace.profile, profile.model_copy(update={"device": device}))
    with pytest.raises(
        Unavailable, match="was profiled with gpu_name Simulated A100, now Simulated H200: what"
    ) as caught:
        profiled.optimize()
    assert caught.value.next_command == "warpsmith run rms_norm --fresh"


def test_a_production_file_that_has_changed_ends_the_search_before_it_begins(profiled: Run) -> None:
    with profiled.production.open("a") as file:
        file.write("# edited\n")
    with pytest.raises(Rejected, match="has changed since it was profiled"):
        profiled.optimize()
    assert profiled.gpu.asked == []


def test_a_form_feed_in_a_source_is_no_end_of_a_line(run: Run) -> None:
    text = run.production.read_text(encoding="utf-8")
    run.production.write_bytes(f"# sections \x0c and \u2028 are marked so: \u00b5\n{text}".encode())
    run.profile()
    recommend_only(run, "settings", "needless_initialisation")
    assert [v.status for v in (run.optimize(), run.variants())[1]][:2] == [VariantStatus.JUDGED, VariantStatus.JUDGED]
