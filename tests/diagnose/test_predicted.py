"""A profile of which nothing was run: compiled code and a data sheet, and no figure that pretends to be more."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.contracts.audit import KnobKind, OpportunityKind
from warpsmith.contracts.case import Cost, DType, Mode
from warpsmith.contracts.device import CopyCeiling, Origin, OriginKind
from warpsmith.contracts.launch import AccessKind, GlobalAccess
from warpsmith.contracts.profile import Bottleneck, EvidenceTier, ModeProfile, Profile
from warpsmith.contracts.request import Request
from warpsmith.diagnose.bottleneck import predict
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.profile import assemble

REQUEST = Request(kernel="norm", run_id="r1", created_at="2026-11-29T00:00:00Z", goal=Mode.FULL)
ORIGIN = Origin(kind=OriginKind.PREDICTED, gpu="NVIDIA H200")
BACKWARD = "_backward_kernel"


def absent(made: Any) -> Any:
    """An H200 that is not there, by its data sheet."""
    return made.device(
        uuid="none",
        copy_ceilings=(CopyCeiling(footprint_bytes=1024**3, gb_s=4800.0, kernel="none"),),
        matmul_tflops={DType.BFLOAT16: 989.0},
        ceilings_from="NVIDIA's data sheet",
    )


def unrun(made: Any, **changes: Any) -> Evidence:
    case = made.case(8192, 4096)
    modes = (Mode.FORWARD, Mode.BACKWARD, Mode.FULL)
    evidence: Evidence = made.evidence(made.spec(case, modes=modes), **{"device": absent(made), **changes})
    return evidence


def predicted(evidence: Evidence, mode: Mode = Mode.FORWARD) -> ModeProfile:
    found = predict(mode, evidence)
    assert found is not None
    return found


def whole(made: Any) -> Profile:
    audit = made.audit(
        made.opportunity(OpportunityKind.STREAM_ONCE, BACKWARD, 13),
        made.opportunity(OpportunityKind.UNPIPELINED_LOOP, BACKWARD, 12),
        made.opportunity(OpportunityKind.NEEDLESS_INITIALISATION, "backward", 30),
        knobs=(made.knob(BACKWARD, KnobKind.PROGRAMS_PER_SM),),
    )
    return assemble(unrun(made, audit=audit, device_notes=("compiled for a GPU that is not here",)), REQUEST, ORIGIN)


def test_a_predicted_mode_has_a_class_by_the_ridge_and_neither_share_nor_headroom(made: Any) -> None:
    profile = predicted(unrun(made))

    assert (profile.bottleneck, profile.tier) == (Bottleneck.MEMORY_BOUND, EvidenceTier.COMPILED)
    assert (profile.share_of_ceiling, profile.headroom_us, profile.ncu_disagreement) == (None, None, None)
    (headroom,) = profile.headrooms
    assert (headroom.bound, headroom.time_ms, headroom.share, headroom.headroom_us) == ("copy", None, None, None)
    assert headroom.least_ms == pytest.approx(headroom.least_bytes / 4800e6)


def test_every_row_of_a_prediction_says_what_it_was_predicted_from(made: Any) -> None:
    evidence = unrun(made)

    for mode in evidence.spec.modes:
        rows = predicted(evidence, mode).evidence
        assert rows
        assert all("data sheet" in r.source or "compiled for NVIDIA H200, predicted" in r.source for r in rows)


def test_the_conclusion_says_that_nothing_was_run_and_what_would_decide(made: Any) -> None:
    assert predicted(unrun(made)).conclusion == (
        "Predicted memory-bound: 1 operations a byte are below the ridge at 206 (NVIDIA's data sheet). Nothing was "
        "run, so how near it comes to its ceiling is not known; timings on an actual NVIDIA H200 would decide."
    )


def test_a_kernel_of_which_no_block_fits_is_told_as_one_that_cannot_be_launched(made: Any) -> None:
    launches = {"8192x4096-bf16": {Mode.FORWARD: (made.launch(shared_bytes=228 * 1024),)}}

    assert predicted(unrun(made, launches=launches)).conclusion == (
        "_forward_kernel cannot be launched at 8192x4096-bf16 on the NVIDIA H200: no block fits an SM (shared memory)."
    )


def test_work_above_the_ridge_is_predicted_compute_bound(made: Any) -> None:
    evidence = unrun(made)
    heavy = Cost(bytes_moved=100_000_000, flops=10**12)
    spec = evidence.spec.model_copy(update={"costs": {c.name: {Mode.FORWARD: heavy} for c in evidence.spec.cases}})
    found = predicted(made.evidence(spec, device=absent(made)))

    assert (found.bottleneck, found.headrooms[0].bound) == (Bottleneck.COMPUTE_BOUND, "matmul")


@pytest.mark.parametrize(
    ("blocks", "by_knob", "expected"),
    [
        (100, False, Bottleneck.GRID_TOO_SMALL),
        (132, True, Bottleneck.LATENCY_BOUND),
        (8 * 132, True, Bottleneck.MEMORY_BOUND),
        (8192, False, Bottleneck.MEMORY_BOUND),
    ],
)
def test_grids_that_leave_sms_or_warps_idle_are_predicted_first(
    made: Any, blocks: int, by_knob: bool, expected: Bottleneck
) -> None:
    knobs = (made.knob(BACKWARD, KnobKind.PROGRAMS_PER_SM),) if by_knob else ()
    launches = {"8192x4096-bf16": {Mode.BACKWARD: (made.launch(BACKWARD, blocks, registers=32),)}}
    evidence = unrun(made, audit=made.audit(knobs=knobs), launches=launches)

    assert predicted(evidence, Mode.BACKWARD).bottleneck is expected


def test_the_largest_case_speaks_for_a_mode(made: Any) -> None:
    small, large = made.case(64, 64), made.case(8192, 8192)
    evidence = made.evidence(made.spec(small, large), device=absent(made))

    assert predicted(evidence).evidence[0].signal == "least possible time, 8192x8192-bf16"


def test_a_gpu_without_known_ceilings_has_a_class_by_its_grid_alone(made: Any) -> None:
    device = made.device(copy_ceilings=(), matmul_tflops={}, ceilings_from="no data sheet is known")
    profile = predicted(unrun(made, device=device))

    assert (profile.bottleneck, profile.headrooms) == (Bottleneck.MEMORY_BOUND, ())
    assert "no ceiling of the NVIDIA H200 is known for bf16" in profile.conclusion


def test_a_mode_with_neither_launches_nor_cost_has_no_diagnosis(made: Any) -> None:
    case = made.case(8192, 4096)
    spec = made.spec(case, costs={case.name: {}})

    assert predict(Mode.FORWARD, made.evidence(spec, launches={}, device=absent(made))) is None


def test_a_predicted_profile_lists_what_to_try_without_a_gain_and_survives_json(made: Any) -> None:
    profile = whole(made)

    assert (profile.is_predicted, profile.evidence_tier, profile.baselines) == (True, "compiled code", ())
    assert [m.mode for m in profile.modes] == [Mode.FORWARD, Mode.BACKWARD, Mode.FULL]
    assert [r.strategy for r in profile.recommendations] == [
        "settings",
        "needless_initialisation",
        "pipelined_loop",
        "cache_hints",
    ]
    assert {(r.predicted_low, r.predicted_high) for r in profile.recommendations} == {(1.0, 1.0)}
    assert all("othing was run" in r.why for r in profile.recommendations)
    assert Profile.model_validate_json(profile.model_dump_json()) == profile


def test_opportunities_have_no_price_where_nothing_was_timed(made: Any) -> None:
    profile = whole(made)

    assert profile.opportunities == ()
    assert {opportunity.line for opportunity in profile.audit.opportunities} >= {12, 13, 30}


def test_the_expected_variants_of_a_prediction_say_that_nothing_was_run(made: Any) -> None:
    profile = whole(made)

    assert profile.expected_variants == 5
    assert "nothing was run to say what pays" in profile.expected_variants_why


def test_a_prediction_makes_no_sentence_about_time(made: Any) -> None:
    assert (whole(made).observations, whole(made).device_notes) == ((), ("compiled for a GPU that is not here",))


def test_bf16_before_8_0_is_told_and_no_class_rests_on_the_grid_alone(made: Any) -> None:
    device = absent(made).model_copy(update={"name": "Tesla T4", "capability": (7, 5), "matmul_tflops": {}})

    audit = made.audit(knobs=(made.knob("_forward_kernel", KnobKind.NUM_WARPS),))

    profile = predicted(unrun(made, device=device))
    settings = assemble(unrun(made, device=device, audit=audit), REQUEST, ORIGIN).recommendations[0]

    assert settings.why.startswith("what holds forward back is not known; 1 knob")
    assert "arithmetic of bf16" in {row.signal for row in profile.evidence}
    assert profile.conclusion == (
        "What would hold it back is not known: no matmul ceiling of the Tesla T4 is known for bf16 (bf16 is emulated "
        "before compute capability 8.0). Of its launches alone: the grid fills the GPU. Nothing was run; timings on an "
        "actual Tesla T4 would decide."
    )


def test_bf16_from_8_0_on_needs_no_word(made: Any) -> None:
    assert "arithmetic of bf16" not in {row.signal for row in predicted(unrun(made)).evidence}


def accessing(made: Any, *widths: int, **changes: Any) -> Evidence:
    accesses = tuple(GlobalAccess(kind=AccessKind.LOAD, bytes_a_thread=width, instructions=1) for width in widths)
    launches = {"8192x4096-bf16": {Mode.FORWARD: (made.launch(accesses=accesses),)}}
    return unrun(made, launches=launches, **changes)


SOUND = (
    ". Nothing in the source looks wrong: its accesses are 16 bytes wide, and none is seen to move what need not be "
    "moved. Nothing was run, so how near it comes to its ceiling is not known"
)


def test_a_memory_bound_kernel_of_wide_accesses_is_told_to_look_sound(made: Any) -> None:
    assert SOUND in predicted(accessing(made, 16, 16)).conclusion


@pytest.mark.parametrize("widths", [(16, 4), ()], ids=["a narrow access", "code that was not read"])
def test_nothing_is_called_sound_that_is_narrow_or_unread(made: Any, widths: tuple[int, ...]) -> None:
    assert "looks wrong" not in predicted(accessing(made, *widths)).conclusion


def test_nothing_is_called_sound_whose_source_moves_bytes_for_nothing(made: Any) -> None:
    waste = made.audit(made.opportunity(OpportunityKind.REPEATED_PASS, "_forward_kernel"))
    hint = made.audit(made.opportunity(OpportunityKind.STREAM_ONCE, "_forward_kernel"))

    assert "looks wrong" not in predicted(accessing(made, 16, audit=waste)).conclusion
    assert SOUND in predicted(accessing(made, 16, audit=hint)).conclusion


def test_what_qualifies_a_compilation_stands_beside_the_figures_of_its_function(made: Any) -> None:
    note = "the first of 8 configurations stands in; which one is fastest is timed on a GPU"
    notes = (f"_forward_kernel: {note}", "_other_kernel: not this")

    rows = predicted(unrun(made, notes=notes)).evidence

    (occupied,) = [row for row in rows if row.signal == "occupancy of _forward_kernel"]
    assert occupied.source == f"compiled for NVIDIA H200, predicted, 8192x4096-bf16; {note}"
    assert not any("not this" in row.source for row in rows)


def test_a_small_grid_is_predicted_in_words(made: Any) -> None:
    launches = {"8192x4096-bf16": {Mode.FORWARD: (made.launch(blocks=100),)}}
    audit = made.audit(knobs=(made.knob("_forward_kernel", KnobKind.NUM_WARPS),))

    settings = assemble(unrun(made, launches=launches, audit=audit), REQUEST, ORIGIN).recommendations[0]

    assert settings.why.startswith("forward is predicted to have too small a grid; 1 knob can be changed there")


def test_an_element_wise_kernel_is_held_against_the_ridge_of_the_plain_units(made: Any) -> None:
    case = made.case(8192, 4096)
    device = absent(made).model_copy(update={"matmul_tflops": {DType.BFLOAT16: 989.0, DType.FLOAT32: 67.0}})

    def told(matrix: dict[str, int]) -> str:
        launches = {case.name: {Mode.FORWARD: (made.launch(matrix_instructions=matrix),)}}
        return predicted(unrun(made, device=device, launches=launches)).conclusion

    assert "are below the ridge of the plain fp32 units at 14 (" in told({})
    assert "are below the ridge at 206 (" in told({"wgmma": 4})


def test_a_grid_without_programs_is_told_to_launch_none(made: Any) -> None:
    case = made.case(8192, 4096)
    audit = made.audit(loops=("_forward_kernel",))
    found = predicted(unrun(made, audit=audit, launches={case.name: {Mode.FORWARD: (made.launch(blocks=0),)}}))

    assert found.bottleneck is Bottleneck.GRID_TOO_SMALL
    assert found.conclusion.startswith(
        "It launches no program at 8192x4096-bf16: _forward_kernel has a grid of (0, 1, 1)."
    )


def test_without_times_opportunities_are_in_the_order_of_what_they_concern(made: Any) -> None:
    kinds = (
        OpportunityKind.SHORT_ROWS,
        OpportunityKind.STREAM_ONCE,
        OpportunityKind.REPEATED_PASS,
        OpportunityKind.NEEDLESS_INITIALISATION,
    )
    found = [made.opportunity(kind, "_forward_kernel", line) for line, kind in enumerate(kinds, start=10)]
    launch = made.launch().model_copy(update={"constexprs": {"BLOCK": 512}})
    launches = {"8192x4096-bf16": {Mode.FORWARD: (launch,)}}

    profile = assemble(unrun(made, audit=made.audit(*found), launches=launches), REQUEST, ORIGIN)

    assert [(t.opportunity.kind, round(t.share, 2)) for t in profile.touched] == [
        (OpportunityKind.NEEDLESS_INITIALISATION, 0.48),
        (OpportunityKind.REPEATED_PASS, 0.33),
        (OpportunityKind.STREAM_ONCE, 0.03),
        (OpportunityKind.SHORT_ROWS, 0.0),  # a block of 512 is no wider than a row of 4096
    ]
