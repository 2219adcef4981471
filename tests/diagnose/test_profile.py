"""A profile is assembled whole from one run's records."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.counters import CounterRow, Counters
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.launch import SettingsProbe
from warpsmith.contracts.profile import Bottleneck, EvidenceTier, Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.track_record import StrategyRecord, TrackRecord
from warpsmith.diagnose import learned
from warpsmith.diagnose.profile import assemble

REQUEST = Request(kernel="norm", run_id="r1", created_at="2026-11-29T00:00:00Z", goal=Mode.BACKWARD)
ORIGIN = Origin(kind=OriginKind.MEASURED, gpu="NVIDIA H200", date="2026-11-29")


def profiled(made: Any, **changes: Any) -> Profile:
    case = made.case(8192, 4096)
    timings = [made.timing_at(case, Mode.FORWARD, 0.96), made.timing_at(case, Mode.BACKWARD, 0.41)]
    return assemble(made.evidence(made.spec(case), *timings, **changes), REQUEST, ORIGIN)


def test_a_profile_has_a_diagnosis_of_every_mode_and_survives_json(made: Any) -> None:
    profile = profiled(made)

    assert (profile.kernel, profile.run_id, profile.goal, profile.source) == ("norm", "r1", Mode.BACKWARD, "norm.py")
    assert [(m.mode, m.bottleneck) for m in profile.modes] == [
        (Mode.FORWARD, Bottleneck.NEAR_PEAK),
        (Mode.BACKWARD, Bottleneck.GRID_TOO_SMALL),
    ]
    assert len(profile.baselines) == 2
    assert profile.recommendations[0].strategy == "settings"
    assert Profile.model_validate_json(profile.model_dump_json()) == profile


def test_every_new_field_is_filled_from_what_was_handed_in(made: Any) -> None:
    case = made.case(8192, 4096)
    probe = SettingsProbe(knob="_backward_kernel.num_stages", case=case.name, mode=Mode.BACKWARD, alike=((1, 2),))
    durations = (made.durations(case, Mode.BACKWARD, FILL=20.0, _backward_kernel=80.0),)
    audit = made.audit(made.opportunity(OpportunityKind.NEEDLESS_INITIALISATION, "backward", 30))

    profile = profiled(made, audit=audit, durations=durations, probes=(probe,), device_notes=("another is there",))

    assert (profile.durations, profile.settings_probes, profile.device_notes) == (
        durations,
        (probe,),
        ("another is there",),
    )
    assert [m.tier for m in profile.modes] == [EvidenceTier.TIMINGS, EvidenceTier.DURATIONS]
    assert all(m.conclusion and len(m.headrooms) == 1 for m in profile.modes)
    (priced,) = profile.opportunities
    assert (priced.mode, priced.case, priced.low_us) == (Mode.BACKWARD, case.name, pytest.approx(16.0))
    assert profile.expected_variants_why.startswith("needless initialisation may bring something")


def test_recommendations_are_corrected_by_the_kept_record_up_to_the_ceiling(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = made.audit(made.opportunity(OpportunityKind.STREAM_ONCE, "_backward_kernel", 13))
    before = profiled(made, audit=audit).recommendations[1]
    hints = StrategyRecord(
        strategy="cache_hints",
        tried=6,
        applicable=6,
        measured=6,
        accepted=6,
        within=0,
        gain=1.5,
        measured_over_middle=1.5,
    )
    monkeypatch.setattr(learned, "kept_record", lambda: TrackRecord(runs=("a",), strategies=(hints,)))

    after = profiled(made, audit=audit).recommendations[1]

    assert (before.strategy, before.predicted_low, after.predicted_low) == ("cache_hints", 1.0, 1.0)
    assert after.predicted_high == pytest.approx(before.predicted_high**2)
    assert "corrected by 6 recorded results" in after.why


def test_a_mode_that_alone_was_not_timed_is_an_error(made: Any) -> None:
    case = made.case(8192, 4096)
    evidence = made.evidence(made.spec(case), made.timing_at(case, Mode.FORWARD, 0.96))

    with pytest.raises(ValueError, match="backward: the original has no timed tuning case"):
        assemble(evidence, REQUEST, ORIGIN)


@pytest.mark.parametrize(("rows", "tier"), [(1, "ncu counters"), (0, "device times")])
def test_the_tier_is_the_best_evidence_that_was_reached(made: Any, rows: int, tier: str) -> None:
    row = CounterRow(kernel="k", grid="", block="", metrics={})
    counters = Counters(case=made.case(8192, 4096), mode=Mode.FORWARD, rows=(row,) * rows, unavailable=None)

    assert profiled(made, counters=(counters,)).evidence_tier == tier


def test_kernel_durations_are_the_tier_where_they_were_asked(made: Any) -> None:
    durations = (made.durations(made.case(8192, 4096), Mode.FORWARD, _forward_kernel=80.0),)

    assert profiled(made, durations=durations).evidence_tier == "kernel durations"


def claiming(made: Any, share: float, **changes: Any) -> Profile:
    """Forward at this share of the copy ceiling, backward as it may be."""
    case = changes.pop("case", made.case(32768, 4096))
    timings = [made.timing_at(case, Mode.FORWARD, share), made.timing_at(case, Mode.BACKWARD, 0.5)]
    return assemble(made.evidence(made.spec(case), *timings, **changes), REQUEST, ORIGIN)


def test_a_cost_model_that_claims_more_than_the_time_allows_is_told_first_and_the_pass_not_held_against_it(
    made: Any,
) -> None:
    profile = claiming(made, 40.0)

    assert profile.observations[0] == (
        "the cost model claims more work than the time allows: check cost(); the least work of forward at "
        "32768x4096-bf16 would take 40 times as long at the ceiling"
    )
    forward, backward = profile.modes
    assert (forward.share_of_ceiling, forward.headroom_us, forward.headrooms[0].share) == (None, None, None)
    assert forward.bottleneck is not Bottleneck.NEAR_PEAK and forward.ncu_disagreement is None
    assert backward.share_of_ceiling == pytest.approx(0.5)
    assert [row.share_of_ceiling for row in profile.baselines] == [None, pytest.approx(0.5)]
    assert "%" not in f"{forward.conclusion} {forward.evidence[0].observation}"


@pytest.mark.parametrize(
    ("share", "case"),
    [(2.9, (32768, 4096)), (40.0, (2048, 4096))],
    ids=["a ceiling may be slower than the kernel", "what fits L2 crosses no device memory"],
)
def test_a_share_that_can_be_is_told(made: Any, share: float, case: tuple[int, int]) -> None:
    profile = claiming(made, share, case=made.case(*case))

    assert profile.modes[0].bottleneck is Bottleneck.NEAR_PEAK
    assert profile.modes[0].headrooms[0].share == pytest.approx(share)
    assert not any("cost()" in observation for observation in profile.observations)


def test_operations_of_float32_that_pass_their_ceiling_are_held_against_none(made: Any) -> None:
    case = Case(axes={"M": 32768, "N": 4096}, dtype=DType.FLOAT32)
    spec = made.spec(case, modes=(Mode.FORWARD,))
    costs = {case.name: {Mode.FORWARD: Cost(bytes_moved=1 << 30, flops=10**15)}}
    timing = made.timing(case, Mode.FORWARD, {"original": 2000.0})
    evidence = made.evidence(
        spec.model_copy(update={"costs": costs}), timing, device=made.device(matmul_tflops={DType.FLOAT32: 50.0})
    )

    profile = assemble(evidence, REQUEST.model_copy(update={"goal": Mode.FORWARD}), ORIGIN)

    assert profile.modes[0].headrooms[0].share is None
    assert profile.modes[0].bottleneck is not Bottleneck.NEAR_PEAK
    assert profile.observations[0].startswith(
        "no share of the ceiling is told: forward at 32768x4096-fp32 does 10.00 times the operations a second that the "
        "matmul ceiling of fp32 allows"
    )
