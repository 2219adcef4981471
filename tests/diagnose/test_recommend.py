"""Which strategies are recommended, in which order, with which prediction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from warpsmith.contracts.audit import KnobKind, KnobOrigin, OpportunityKind
from warpsmith.contracts.case import Mode
from warpsmith.contracts.launch import SettingsProbe
from warpsmith.contracts.profile import Bottleneck, Recommendation
from warpsmith.diagnose.bottleneck import classify
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.expected import expected_variants
from warpsmith.diagnose.pricing import prices
from warpsmith.diagnose.recommend import goal_passes, recommend, speedup_at_ceiling
from warpsmith.diagnose.roofline import baselines

BACKWARD = "_backward_kernel"


def recommended(evidence: Evidence, goal: Mode = Mode.FULL) -> tuple[Recommendation, ...]:
    rows = baselines(evidence.spec, evidence.timings, (), evidence.device)
    modes = [classify(mode, evidence, rows) for mode in (Mode.FORWARD, Mode.BACKWARD)]
    return recommend(evidence, modes, goal, rows, prices(evidence, modes, rows))


def norm(made: Any, *, forward: float = 0.96, backward: float = 0.41, audit: Any = None) -> Evidence:
    case = made.case(8192, 4096)
    shares = {Mode.FORWARD: forward, Mode.BACKWARD: backward}
    timings = [made.timing_at(case, mode, share) for mode, share in shares.items()]
    evidence: Evidence = made.evidence(made.spec(case), *timings, audit=audit or whole_audit(made))
    return evidence


def whole_audit(made: Any) -> Any:
    knobs = [made.knob("_forward_kernel", KnobKind.NUM_WARPS, line=5), made.knob(BACKWARD, KnobKind.NUM_WARPS, line=21)]
    knobs += [
        made.knob(BACKWARD, KnobKind.PROGRAMS_PER_SM, line=22),
        made.knob(BACKWARD, KnobKind.MAXNREG, tunable=False),
    ]
    return made.audit(
        made.opportunity(OpportunityKind.STREAM_ONCE, "_forward_kernel", 3),
        made.opportunity(OpportunityKind.STREAM_ONCE, BACKWARD, 13),
        made.opportunity(OpportunityKind.UNPIPELINED_LOOP, BACKWARD, 12),
        made.opportunity(OpportunityKind.NEEDLESS_INITIALISATION, "backward", 30),
        knobs=tuple(knobs),
    )


def test_settings_come_first_then_the_surest_gain_then_the_largest(made: Any) -> None:
    """Only of the zeroed output is some gain sure; the loop may bring more than the hints."""
    found = recommended(norm(made))

    assert [(r.strategy, r.lines) for r in found] == [
        ("settings", (21, 22)),
        ("needless_initialisation", (30,)),
        ("pipelined_loop", (12,)),
        ("cache_hints", (13,)),
    ]
    assert found[1].predicted_low > 1 == found[2].predicted_low == found[3].predicted_low
    assert found[2].predicted_high > found[3].predicted_high


@pytest.mark.parametrize(("block", "expected"), [(256, ["settings", "two_dimensional_tiles"]), (2048, ["settings"])])
def test_several_rows_a_program_are_recommended_only_where_some_block_is_short(
    made: Any, block: int, expected: list[str]
) -> None:
    evidence = norm(made, audit=made.audit(made.opportunity(OpportunityKind.ROW_A_PROGRAM, BACKWARD)))
    launch = made.launch(BACKWARD, 8192).model_copy(update={"constexprs": {"BLOCK_SIZE": block}})
    launched = {case.name: {Mode.BACKWARD: (launch,)} for case in evidence.spec.tuning_cases}

    assert [r.strategy for r in recommended(replace(evidence, launches=launched))] == expected


@pytest.mark.parametrize(("memory_pct", "expected"), [(20.0, ["settings", "cheap_functions"]), (90.0, ["settings"])])
def test_arithmetic_in_fewer_instructions_is_recommended_only_where_something_waits_for_it(
    made: Any, memory_pct: float, expected: list[str]
) -> None:
    evidence = norm(made, audit=made.audit(made.opportunity(OpportunityKind.COSTLY_FUNCTION, BACKWARD)))
    case = evidence.spec.tuning_cases[0]
    counters = (made.counters(case, made.throughput(20.0, memory_pct), mode=Mode.BACKWARD),)

    assert [r.strategy for r in recommended(replace(evidence, counters=counters))] == expected


def test_a_zeroing_that_was_not_seen_comes_last(made: Any) -> None:
    evidence = norm(made)
    durations = (made.durations(evidence.spec.tuning_cases[0], Mode.BACKWARD, _backward_kernel=100.0),)

    found = recommended(replace(evidence, durations=durations))

    assert (found[-1].strategy, found[-1].predicted_high) == ("needless_initialisation", 1.0)


def test_a_pass_near_its_peak_is_left_alone_and_settings_say_why(made: Any) -> None:
    settings = recommended(norm(made))[0]

    assert "2 knobs can be changed there (num_warps, programs_per_sm)" in settings.why
    assert settings.why.endswith("forward is left alone: it is at 96% of its ceiling")


def test_the_prediction_is_amdahls_law_over_the_passes_of_the_goal(made: Any) -> None:
    """Backward: 1.5 times the bytes at 41% against 96%; of its 59% headroom settings take 20 to 70%."""
    settings = recommended(norm(made))[0]
    part = (1.5 / 0.41) / (1.5 / 0.41 + 1 / 0.96)

    assert settings.predicted_low == pytest.approx(1 / (1 - part * 0.59 * 0.2))
    assert settings.predicted_high == pytest.approx(1 / (1 - part * 0.59 * 0.7))


def test_a_goal_of_one_pass_is_predicted_for_that_pass_alone(made: Any) -> None:
    settings, _, loop, _ = recommended(norm(made), Mode.BACKWARD)

    assert settings.predicted_high == pytest.approx(1 / (1 - 0.59 * 0.7))
    assert loop.predicted_high == pytest.approx(1 / (1 - 0.15))


def test_settings_are_worth_what_the_opportunities_that_are_settings_are(made: Any) -> None:
    """132 programs of which an SM holds six, 8 warps each: five sixths of the headroom, and 5% for the warps."""
    audit = made.audit(
        made.opportunity(OpportunityKind.ONE_PROGRAM_PER_SM, "backward", 22),
        made.opportunity(OpportunityKind.STEPPED_WARPS, "backward", 21),
        knobs=(made.knob(BACKWARD, KnobKind.PROGRAMS_PER_SM, line=22),),
    )

    (settings,) = recommended(norm(made, audit=audit), Mode.BACKWARD)

    assert settings.predicted_low == pytest.approx(1 / (1 - 0.59 * 5 / 12))
    assert settings.predicted_high == pytest.approx(1 / (1 - 0.59 * (5 / 6 + 0.05)))


def test_the_prediction_is_the_mean_over_the_cases_as_the_goal_is_judged(made: Any) -> None:
    cases = made.case(8192, 4096, weight=3.0), made.case(8192, 8192)
    timings = [made.timing_at(c, Mode.BACKWARD, s) for c, s in zip(cases, (0.5, 0.8), strict=True)]
    audit = made.audit(knobs=(made.knob(BACKWARD, KnobKind.NUM_WARPS),))
    evidence = made.evidence(made.spec(*cases, modes=(Mode.BACKWARD,)), *timings, audit=audit)
    rows = baselines(evidence.spec, timings, (), evidence.device)
    modes = [classify(Mode.BACKWARD, evidence, rows)]

    (settings,) = recommend(evidence, modes, Mode.BACKWARD, rows, prices(evidence, modes, rows))

    high = {Bottleneck.LATENCY_BOUND: 0.7, Bottleneck.GRID_TOO_SMALL: 0.7}[modes[0].bottleneck]
    assert settings.predicted_high == pytest.approx(((1 / (1 - 0.5 * high)) ** 3 / (1 - 0.2 * high)) ** 0.25)


def test_at_the_ceiling_only_the_open_passes_of_the_goal_are_faster(made: Any) -> None:
    evidence = norm(made, forward=0.96, backward=0.40)
    rows = baselines(evidence.spec, evidence.timings, (), evidence.device)
    modes = [classify(mode, evidence, rows) for mode in (Mode.FORWARD, Mode.BACKWARD)]

    def at_ceiling(goal: Mode) -> float:
        return speedup_at_ceiling(goal_passes(evidence, modes, goal, rows, ()))

    assert at_ceiling(Mode.BACKWARD) == pytest.approx(2.5, rel=0.01)
    assert at_ceiling(Mode.FORWARD) == 1.0
    assert 1.0 < at_ceiling(Mode.FULL) < at_ceiling(Mode.BACKWARD)


def test_no_prediction_passes_the_headroom(made: Any) -> None:
    evidence = norm(made, backward=0.88)
    durations = (made.durations(evidence.spec.tuning_cases[0], Mode.BACKWARD, FILL=50.0, _backward_kernel=50.0),)

    found = recommended(replace(evidence, durations=durations), Mode.BACKWARD)

    assert max(r.predicted_high for r in found) == pytest.approx(1 / 0.88)


def test_with_every_pass_at_its_peak_only_settings_remain_and_promise_nothing(made: Any) -> None:
    (settings,) = recommended(norm(made, backward=0.97))

    assert (settings.predicted_low, settings.predicted_high, settings.lines) == (1.0, 1.0, ())
    assert settings.why == (
        "forward is left alone: it is at 96% of its ceiling; backward is left alone: it is at 97% of its ceiling"
    )


def test_without_a_knob_settings_promise_nothing_and_say_so(made: Any) -> None:
    settings = recommended(norm(made, audit=made.audit()))[0]

    assert settings.predicted_high == 1.0
    assert settings.why.startswith("backward has no knob that can be changed")


def test_expected_variants_are_the_promising_ones_and_another_sweep(made: Any) -> None:
    assert expected_variants(recommended(norm(made)), 8) == (
        5,
        "settings, needless initialisation, pipelined loop and cache hints may bring something, and after a rewrite "
        "other settings may be the best",
    )
    count, why = expected_variants(recommended(norm(made)), 3)
    assert count == 3
    assert why.endswith("; that is 5, of which the request allows 3")
    assert expected_variants(recommended(norm(made, backward=0.97)), 8) == (
        1,
        "nothing is predicted to bring anything: one sweep of the settings to make sure",
    )


def test_settings_alone_need_no_second_sweep(made: Any) -> None:
    audit = made.audit(knobs=(made.knob(BACKWARD, KnobKind.NUM_WARPS),))

    assert expected_variants(recommended(norm(made, audit=audit)), 8) == (1, "settings may bring something")


def probe(knob: str, *alike: tuple[int, ...], mode: Mode = Mode.BACKWARD) -> SettingsProbe:
    return SettingsProbe(knob=knob, case="8192x4096-bf16", mode=mode, alike=alike)


def test_a_knob_that_compiling_showed_to_be_inert_is_named_and_not_recommended(made: Any) -> None:
    plain = norm(made)
    probes = (probe(f"{BACKWARD}.num_warps", (4, 8)), probe(f"{BACKWARD}.programs_per_sm", (1,), (2,)))

    before, after = recommended(plain), recommended(replace(plain, probes=probes))

    assert "2 knobs can be changed there (num_warps, programs_per_sm)" in before[0].why
    assert "1 knob can be changed there (programs_per_sm), num_warps changes nothing" in after[0].why
    assert [(r.strategy, r.predicted_high) for r in after] == [(r.strategy, r.predicted_high) for r in before]


def test_a_knob_that_is_inert_in_another_pass_alone_counts(made: Any) -> None:
    probes = (probe(f"{BACKWARD}.num_warps", (4, 8), mode=Mode.FORWARD),)

    assert "2 knobs can be changed there" in recommended(replace(norm(made), probes=probes))[0].why


def test_a_pass_whose_knobs_autotune_sets_says_so_and_names_no_line(made: Any) -> None:
    case = made.case(8192, 4096)
    knob = made.knob("_forward_kernel", KnobKind.NUM_WARPS, tunable=False)
    audit = made.audit(knobs=(knob.model_copy(update={"origin": KnobOrigin.AUTOTUNE}),))
    evidence = made.evidence(
        made.spec(case, modes=(Mode.FORWARD,)), made.timing_at(case, Mode.FORWARD, 0.5), audit=audit
    )
    rows = baselines(evidence.spec, evidence.timings, (), evidence.device)
    modes = [classify(Mode.FORWARD, evidence, rows)]

    (settings,) = recommend(evidence, modes, Mode.FORWARD, rows, prices(evidence, modes, rows))

    assert (settings.why, settings.lines) == (
        "forward has no knob that can be changed: autotune sets them (line 20)",
        (),
    )


def test_tiles_that_can_be_changed_bring_at_most_what_settings_won_elsewhere(made: Any) -> None:
    case = made.case(8192, 4096)

    def high(kind: KnobKind, compute_pct: float = 90.0) -> float:
        audit = made.audit(
            made.opportunity(OpportunityKind.STEPPED_WARPS, "_forward_kernel"),
            knobs=(made.knob("_forward_kernel", kind),),
            loops=("_forward_kernel",),
        )
        evidence = made.evidence(
            made.spec(case, modes=(Mode.FORWARD,)),
            made.timing_at(case, Mode.FORWARD, 0.5),
            audit=audit,
            launches={case.name: {Mode.FORWARD: (made.launch(blocks=132),)}},
            counters=(made.counters(case, made.throughput(compute_pct, 30.0)),),
        )
        rows = baselines(evidence.spec, evidence.timings, (), evidence.device)
        modes = [classify(Mode.FORWARD, evidence, rows)]
        return recommend(evidence, modes, Mode.FORWARD, rows, prices(evidence, modes, rows))[0].predicted_high

    by_warps = pytest.approx(1 / (1 - 0.05 * 0.5))
    assert high(KnobKind.NUM_WARPS) == by_warps
    assert high(KnobKind.BLOCK_TILING) == pytest.approx(1 / (1 - 0.4 * 0.5))
    assert high(KnobKind.BLOCK_TILING, compute_pct=20.0) == by_warps  # latency, which other tiles may not shorten
