"""Which strategies are recommended, in which order, with which prediction."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.contracts.audit import KnobKind, OpportunityKind
from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Recommendation
from warpsmith.diagnose.bottleneck import classify
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.recommend import expected_variants, recommend
from warpsmith.diagnose.roofline import baselines

BACKWARD = "_backward_kernel"


def recommended(evidence: Evidence, goal: Mode = Mode.FULL) -> tuple[Recommendation, ...]:
    rows = baselines(evidence.spec, evidence.timings, (), evidence.device)
    modes = [classify(mode, evidence, rows) for mode in (Mode.FORWARD, Mode.BACKWARD)]
    return recommend(evidence, modes, goal, rows)


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


def test_settings_come_first_then_rewrites_by_what_they_promise(made: Any) -> None:
    assert [(r.strategy, r.lines) for r in recommended(norm(made))] == [
        ("settings", (21, 22)),
        ("needless_initialisation", (30,)),
        ("pipelined_loop", (12,)),
        ("cache_hints", (13,)),
    ]


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
    (settings, initialisation, *_) = recommended(norm(made), Mode.BACKWARD)

    assert settings.predicted_high == pytest.approx(1 / (1 - 0.59 * 0.7))
    assert initialisation.predicted_high == pytest.approx(1 / (1 - 0.27))


def test_no_prediction_passes_the_headroom(made: Any) -> None:
    initialisation = recommended(norm(made, backward=0.88), Mode.BACKWARD)[1]

    assert initialisation.predicted_high == pytest.approx(1 / 0.88)


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
    assert expected_variants(recommended(norm(made)), 8) == 5
    assert expected_variants(recommended(norm(made)), 3) == 3
    assert expected_variants(recommended(norm(made, backward=0.97)), 8) == 1
