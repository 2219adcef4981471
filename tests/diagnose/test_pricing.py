"""What an opportunity is predicted to bring: of the order that was measured, never negative, never past the ceiling."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.contracts.audit import KnobKind, Opportunity, OpportunityKind
from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.device import CopyCeiling
from warpsmith.contracts.profile import PricedOpportunity
from warpsmith.diagnose.bottleneck import classify
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.price_rules import Gain
from warpsmith.diagnose.pricing import priced_opportunities, prices
from warpsmith.diagnose.roofline import baselines

BACKWARD = "_backward_kernel"
PROGRAMS, ZEROED = OpportunityKind.ONE_PROGRAM_PER_SM, OpportunityKind.NEEDLESS_INITIALISATION
WARPS = OpportunityKind.STEPPED_WARPS

#: Backward passes of Liger-Kernel 0.8.5 on an NVIDIA H200, bf16, device time (driver 580, torch 2.11, triton 3.6,
#: November 2026): rows, columns, num_warps, registers and spills (triton 3.7.1 for SM 9.0), microseconds at one program
#: a SM, and the best of 2, 4 and 8.
MEASURED_PROGRAMS = {
    "rms 32768x2048": (32768, 2048, 8, 58, 0, 306.0, 170.2),
    "rms 32768x2048, output empty": (32768, 2048, 8, 58, 0, 262.5, 127.3),
    "rms 32768x2048, 32 warps": (32768, 2048, 32, 31, 0, 327.6, 225.4),
    "rms 8192x4096": (8192, 4096, 8, 117, 0, 120.6, 95.5),
    "rms 8192x4096, output empty": (8192, 4096, 16, 58, 0, 96.2, 72.5),
    "rms 8192x8192, 4 warps": (8192, 8192, 4, 255, 176, 207.3, 180.8),
    "rms 4096x16384, 4 warps": (4096, 16384, 4, 32, 3928, 2468.8, 1883.0),
    "ln 32768x2048": (32768, 2048, 8, 64, 0, 299.4, 147.5),
    "ln 8192x4096": (8192, 4096, 8, 99, 0, 109.0, 85.5),
}
#: The same, where one program a SM was the best.
ONE_IS_BEST = {
    "rms 8192x4096, 32 warps": (8192, 4096, 32, 42, 0, 118.8, 118.8),
    "rms 8192x8192": (8192, 8192, 16, 117, 0, 181.6, 181.6),
    "rms 4096x16384": (4096, 16384, 16, 128, 104, 171.8, 171.8),
    "ln 8192x8192": (8192, 8192, 16, 100, 0, 149.2, 149.2),
    "ln 4096x16384": (4096, 16384, 16, 128, 240, 235.4, 235.4),
}
#: RMSNorm backward of the same with its output zeroed and not, one program a SM: microseconds of each.
MEASURED_ZEROING = {(8192, 4096): (120.6, 97.8), (8192, 8192): (183.0, 141.7), (4096, 16384): (171.8, 129.6)}


def h200(made: Any) -> Any:
    ceilings = [CopyCeiling(footprint_bytes=mib * 1024**2, gb_s=g, kernel="c") for mib, g in ((192, 4083), (384, 4206))]
    return made.device(copy_ceilings=tuple(ceilings))


def liger(made: Any, case: Case, time_us: float, *found: Opportunity, **changes: Any) -> Evidence:
    """A backward pass that loops over rows, timed at one case."""
    given: dict[str, Any] = {"registers": 64, "num_warps": 8, "spills": 0, **changes.pop("code", {})}
    launch = made.launch(BACKWARD, 132, shared_bytes=8192, **given)
    evidence: Evidence = made.evidence(
        made.spec(case, modes=(Mode.BACKWARD,)),
        made.timing(case, Mode.BACKWARD, {"original": time_us / 1e3}),
        device=h200(made),
        audit=made.audit(*found, knobs=(made.knob(BACKWARD, KnobKind.PROGRAMS_PER_SM),)),
        launches={case.name: {Mode.BACKWARD: (launch,)}},
        **changes,
    )
    return evidence


def priced(evidence: Evidence, goal: Mode = Mode.BACKWARD) -> tuple[PricedOpportunity, ...]:
    rows = baselines(evidence.spec, evidence.timings, (), evidence.device)
    modes = [classify(mode, evidence, rows) for mode in evidence.spec.modes]
    return priced_opportunities(prices(evidence, modes, rows), goal)


@pytest.mark.parametrize("row", MEASURED_PROGRAMS.values(), ids=MEASURED_PROGRAMS)
def test_more_programs_are_priced_within_a_factor_of_two_of_what_they_brought(
    made: Any, row: tuple[int, int, int, int, int, float, float]
) -> None:
    rows, columns, num_warps, registers, spills, one_us, best_us = row
    code = {"num_warps": num_warps, "registers": registers, "spills": spills}
    evidence = liger(made, made.case(rows, columns), one_us, made.opportunity(PROGRAMS, "backward"), code=code)

    (found,) = priced(evidence)

    assert 0.5 <= found.high_us / (one_us - best_us) <= 2
    assert found.low_us == pytest.approx(found.high_us / 2)
    assert found.predicted_high == pytest.approx(one_us / (one_us - found.high_us))


@pytest.mark.parametrize("row", ONE_IS_BEST.values(), ids=ONE_IS_BEST)
def test_more_programs_are_worth_nothing_where_an_sm_holds_no_more(
    made: Any, row: tuple[int, int, int, int, int, float, float]
) -> None:
    rows, columns, num_warps, registers, spills, one_us, _ = row
    code = {"num_warps": num_warps, "registers": registers, "spills": spills}
    evidence = liger(made, made.case(rows, columns), one_us, made.opportunity(PROGRAMS, "backward"), code=code)

    (found,) = priced(evidence)

    assert (found.low_us, found.high_us, found.predicted_high, found.case) == (0.0, 0.0, 1.0, None)
    assert (
        found.basis == "an SM holds 1 of its programs at once (registers), and has them: more of them make another wave"
    )


def test_there_are_no_more_programs_than_rows(made: Any) -> None:
    (found,) = priced(liger(made, made.case(132, 4096), 20.0, made.opportunity(PROGRAMS, "backward")))

    assert found.high_us == 0


def test_programs_are_told_as_programs_where_each_is_a_cluster_of_blocks(made: Any) -> None:
    opportunity, case = made.opportunity(PROGRAMS, "backward"), made.case(32768, 2048)
    (alone,) = priced(liger(made, case, 300.0, opportunity))
    (paired,) = priced(liger(made, case, 300.0, opportunity, code={"num_ctas": 2}))
    (quartered,) = priced(liger(made, case, 300.0, opportunity, code={"num_ctas": 4}))

    assert alone.basis.startswith("an SM holds 4 programs and has 1: ")
    assert paired.basis.startswith("an SM holds 2 programs and has 1: ")
    assert quartered.basis.startswith("an SM holds 1 of its programs at once (")


def test_a_row_is_a_programs_however_many_blocks_that_has(made: Any) -> None:
    opportunity, case = made.opportunity(PROGRAMS, "backward"), made.case(198, 4096)
    for blocks in (1, 2):
        (found,) = priced(liger(made, case, 20.0, opportunity, code={"num_ctas": blocks}))
        assert "half to all of 33% of the kernel's headroom goes" in found.basis


@pytest.mark.parametrize("shape", MEASURED_ZEROING, ids=str)
def test_a_fill_that_was_seen_is_priced_at_its_own_time(made: Any, shape: tuple[int, int]) -> None:
    case, (zeroed_us, empty_us) = made.case(*shape), MEASURED_ZEROING[shape]
    durations = (made.durations(case, Mode.BACKWARD, FILL=zeroed_us - empty_us, _backward_kernel=empty_us),)

    (found,) = priced(liger(made, case, zeroed_us, made.opportunity(ZEROED, "backward"), durations=durations))

    assert found.low_us < zeroed_us - empty_us < found.high_us < 1.4 * (zeroed_us - empty_us)
    assert found.predicted_low < zeroed_us / empty_us < found.predicted_high
    assert found.basis.startswith("the time of the fill beside the kernel, which goes: ")


@pytest.mark.parametrize("shape", MEASURED_ZEROING, ids=str)
def test_without_durations_zeroing_is_priced_from_a_launch_to_a_whole_output(made: Any, shape: tuple[int, int]) -> None:
    zeroed_us, empty_us = MEASURED_ZEROING[shape]

    (found,) = priced(liger(made, made.case(*shape), zeroed_us, made.opportunity(ZEROED, "backward")))

    assert found.low_us == 1.0
    assert found.high_us == pytest.approx(zeroed_us - empty_us, rel=0.15)


def test_a_pass_in_which_no_fill_ran_has_none_to_save(made: Any) -> None:
    case = made.case(8192, 4096)
    durations = (made.durations(case, Mode.BACKWARD, _backward_kernel=120.0),)

    (found,) = priced(liger(made, case, 120.0, made.opportunity(ZEROED, "backward"), durations=durations))

    assert (found.high_us, found.basis) == (0.0, "no fill ran among the kernels of the call, so there is none to save")


def test_a_fill_seen_at_one_case_is_scaled_to_another_by_bytes(made: Any) -> None:
    seen, other = made.case(4096, 8192), made.case(8192, 8192)
    evidence = liger(
        made,
        seen,
        91.0,
        made.opportunity(ZEROED, "backward"),
        durations=(made.durations(seen, Mode.BACKWARD, FILL=20.0, _backward_kernel=71.0),),
    )
    both = made.evidence(
        made.spec(seen, other, modes=(Mode.BACKWARD,)),
        *evidence.timings,
        made.timing(other, Mode.BACKWARD, {"original": 0.182}),
        device=evidence.device,
        audit=evidence.audit,
        durations=evidence.durations,
    )

    (alone,), (found,) = priced(evidence), priced(both)

    assert alone.low_us == pytest.approx(0.8 * 20)
    assert found.low_us == pytest.approx((0.8 * 40 + 0.8 * 20) / 2)
    assert alone.basis == "the time of the fill beside the kernel, which goes: 20.0 µs"
    assert (
        found.basis
        == "the time of the fill beside the kernel, which goes: 40.0 µs, scaled by bytes from 4096x8192-bf16"
    )


@pytest.mark.parametrize(
    ("case", "share", "gain_us"),
    [("4096x16384", 0.67, 30.0), ("8192x8192", 0.70, 18.0), ("8192x4096", 0.97, 0.0)],
)
def test_other_warps_are_priced_as_they_brought_it_in_forward_kernels(
    made: Any, case: str, share: float, gain_us: float
) -> None:
    """GeGLU (three tensors) 146 to 116 us, LayerNorm 91 to 73 us by num_warps alone, on an H200; none at a peak."""
    rows, columns = (int(size) for size in case.split("x"))
    at = made.case(rows, columns)
    mode = Mode.BACKWARD if gain_us == 30.0 else Mode.FORWARD  # moves three tensors, as GeGLU does
    function = "backward" if mode is Mode.BACKWARD else "forward"
    evidence = made.evidence(
        made.spec(at, modes=(mode,)),
        made.timing_at(at, mode, share),
        audit=made.audit(made.opportunity(WARPS, function)),
        launches={at.name: {mode: (made.launch(BACKWARD if mode is Mode.BACKWARD else "_forward_kernel"),)}},
    )

    (found,) = priced(evidence)

    if gain_us:
        assert 0.5 <= found.high_us / gain_us <= 2
    else:
        assert found.high_us < 1


def test_in_a_row_loop_warps_alone_bring_next_to_nothing(made: Any) -> None:
    (found,) = priced(liger(made, made.case(32768, 2048), 306.0, made.opportunity(WARPS, "backward")))

    assert found.predicted_high < 1.05


@pytest.mark.parametrize(
    ("kind", "basis"),
    [
        (OpportunityKind.HOST_SYNCHRONIZATION, "host time only: the GPU is no faster for it, calls in a row are"),
        (OpportunityKind.PERFORMANCE_TODO, "a hint, not priced"),
        (
            OpportunityKind.CONTIGUOUS_COPY,
            "a copy is made only of inputs that are not contiguous; no kernel durations show one",
        ),
    ],
)
def test_what_makes_no_device_time_has_no_price_and_says_so(made: Any, kind: OpportunityKind, basis: str) -> None:
    (found,) = priced(liger(made, made.case(8192, 4096), 120.0, made.opportunity(kind, "backward")))

    assert (found.low_us, found.high_us, found.predicted_low, found.predicted_high) == (0.0, 0.0, 1.0, 1.0)
    assert (found.basis, found.case, found.case_predicted_high) == (basis, None, None)


def test_a_copy_that_was_seen_is_priced_at_its_own_time(made: Any) -> None:
    case = made.case(8192, 4096)
    durations = (made.durations(case, Mode.BACKWARD, COPY=30.0, _backward_kernel=90.0),)
    copied = made.opportunity(OpportunityKind.CONTIGUOUS_COPY, "backward")

    (found,) = priced(liger(made, case, 120.0, copied, durations=durations))

    assert (found.low_us, found.high_us) == (pytest.approx(24.0), pytest.approx(38.5))


def test_a_block_far_wider_than_its_rows_is_priced_by_what_lies_idle(made: Any) -> None:
    case = made.case(8192, 1024)
    launch = made.launch(BACKWARD, 8192).model_copy(update={"constexprs": {"BLOCK_SIZE": 4096, "EVEN": True}})
    evidence = made.evidence(
        made.spec(case, modes=(Mode.BACKWARD,)),
        made.timing_at(case, Mode.BACKWARD, 0.5),
        audit=made.audit(made.opportunity(OpportunityKind.SHORT_ROWS, BACKWARD)),
        launches={case.name: {Mode.BACKWARD: (launch,)}},
    )

    (found,) = priced(evidence)

    assert found.predicted_high == pytest.approx(1 / (1 - 0.5 * 0.75))
    assert found.basis.startswith("75% of a block of 4096 lie beyond a row of 1024")


@pytest.mark.parametrize(
    ("block", "part", "basis"),
    [
        (256, 0.2625, "at most 26% of the kernel's headroom (chosen): a program's block has 256 elements"),
        (2048, 0.0, "a program's block has 2048 elements already, enough for itself (chosen)"),
        (None, 0.0, "the block's width is not known, so that how short a row is is not either"),
    ],
)
def test_several_rows_a_program_are_priced_by_how_short_a_block_is(
    made: Any, block: int | None, part: float, basis: str
) -> None:
    case = made.case(8192, 256)
    constexprs = {} if block is None else {"BLOCK_SIZE": block}
    launch = made.launch(BACKWARD, 8192).model_copy(update={"constexprs": constexprs})
    evidence = made.evidence(
        made.spec(case, modes=(Mode.BACKWARD,)),
        made.timing_at(case, Mode.BACKWARD, 0.5),
        audit=made.audit(made.opportunity(OpportunityKind.ROW_A_PROGRAM, BACKWARD)),
        launches={case.name: {Mode.BACKWARD: (launch,)}},
    )

    (found,) = priced(evidence)

    assert found.predicted_high == pytest.approx(1 / (1 - 0.5 * part))
    assert found.basis == basis


def test_a_repeated_pass_that_caches_serve_is_worth_what_the_counters_saw_too_much(made: Any) -> None:
    case = made.case(8192, 4096)
    least = made.cost(case, Mode.BACKWARD).bytes_moved
    again = made.opportunity(OpportunityKind.REPEATED_PASS, BACKWARD)

    def with_traffic(times: float) -> PricedOpportunity:
        metrics = {"dram__bytes_read.sum": times * least, "dram__bytes_write.sum": 0.0}
        counters = (made.counters(case, metrics, mode=Mode.BACKWARD),)
        return next(p for p in priced(liger(made, case, 120.0, again, counters=counters)) if p.opportunity == again)

    (uncounted,) = priced(liger(made, case, 120.0, again))

    assert uncounted.high_us == pytest.approx(least / 3 / 4083e3)
    assert with_traffic(0.9).high_us == 0.0
    assert with_traffic(1.2).high_us == pytest.approx(0.2 * least / 4083e3)
    assert with_traffic(3.0).high_us == pytest.approx(uncounted.high_us)


@pytest.mark.parametrize(("time_us", "high_us"), [(120.0, 12.0), (50.0, None)])
def test_tiles_in_groups_are_priced_by_a_tenth_of_the_time_and_no_more_than_the_headroom(
    made: Any, time_us: float, high_us: float | None
) -> None:
    case = made.case(8192, 4096)
    least_us = made.cost(case, Mode.BACKWARD).bytes_moved / 4083e3
    grouped = made.opportunity(OpportunityKind.UNGROUPED_TILES, BACKWARD)

    (found,) = priced(liger(made, case, time_us, grouped))

    assert (found.low_us, found.high_us) == (0.0, pytest.approx(high_us if high_us else time_us - least_us))
    assert found.basis.startswith("at most 10% of the kernel's time, as groups of tiles won 220 to 245 TFLOPS")


@pytest.mark.parametrize(("compute_pct", "memory_pct", "part"), [(90.0, 20.0, 0.1), (20.0, 20.0, 0.1), (20.0, 90.0, 0)])
def test_fewer_instructions_are_worth_something_only_where_arithmetic_or_latency_holds_a_pass_back(
    made: Any, compute_pct: float, memory_pct: float, part: float
) -> None:
    case = made.case(8192, 4096)
    counters = (made.counters(case, made.throughput(compute_pct, memory_pct), mode=Mode.BACKWARD),)
    costly = made.opportunity(OpportunityKind.COSTLY_FUNCTION, BACKWARD)

    (found,) = priced(liger(made, case, 120.0, costly, counters=counters))

    assert (found.low_us, found.high_us) == (0.0, pytest.approx(part * 120.0))


def test_products_in_16_bits_are_worth_at_most_half_the_time_and_nothing_to_float32(made: Any) -> None:
    case = made.case(8192, 4096)
    widened = made.opportunity(OpportunityKind.WIDENED_DOT, BACKWARD)

    def price(of: Case, time_us: float, compute_pct: float = 90.0) -> PricedOpportunity:
        counters = (made.counters(of, made.throughput(compute_pct, 20.0 if compute_pct else 90.0), mode=Mode.BACKWARD),)
        (found,) = priced(liger(made, of, time_us, widened, counters=counters))
        return found

    assert price(case, 240.0).high_us == pytest.approx(120.0)
    assert price(case, 240.0, compute_pct=0.0).high_us == 0
    single = price(case.model_copy(update={"dtype": DType.FLOAT32}), 480.0)
    assert (single.high_us, single.basis) == (0, "float32 inputs are multiplied as before")


def test_what_one_of_two_kernels_may_save_is_its_part_of_the_headroom(made: Any) -> None:
    case = made.case(8192, 4096)
    arithmetic = made.opportunity(OpportunityKind.WIDE_ARITHMETIC, BACKWARD)
    durations = (made.durations(case, Mode.BACKWARD, _backward_kernel=60.0, reduce=20.0, FILL=40.0),)

    (whole,) = priced(liger(made, case, 120.0, arithmetic))
    (part,) = priced(liger(made, case, 120.0, arithmetic, durations=durations))

    headroom_us = whole.high_us / 0.3
    assert part.high_us == pytest.approx(0.3 * (headroom_us - 40) * 0.75)


def test_full_has_no_price_beside_those_of_its_passes(made: Any) -> None:
    case = made.case(8192, 4096)
    shares = {Mode.FORWARD: 0.6, Mode.BACKWARD: 0.4, Mode.FULL: 0.47}
    evidence = made.evidence(
        made.spec(case, modes=tuple(shares)),
        *(made.timing_at(case, mode, share) for mode, share in shares.items()),
        audit=made.audit(
            made.opportunity(WARPS, "forward", 3),
            made.opportunity(OpportunityKind.WIDE_ARITHMETIC, BACKWARD, 9),
        ),
    )

    found = priced(evidence, Mode.FULL)

    assert {(p.mode, p.opportunity.line) for p in found} == {(Mode.FORWARD, 3), (Mode.BACKWARD, 9)}


def test_the_passes_of_the_goal_come_first_and_the_best_of_them_before_the_others(made: Any) -> None:
    case = made.case(8192, 4096)
    evidence = made.evidence(
        made.spec(case),
        made.timing_at(case, Mode.FORWARD, 0.2),
        made.timing_at(case, Mode.BACKWARD, 0.5),
        audit=made.audit(
            made.opportunity(OpportunityKind.UNCOALESCED, "_forward_kernel", 1),
            made.opportunity(OpportunityKind.PERFORMANCE_TODO, BACKWARD, 2),
            made.opportunity(OpportunityKind.UNCOALESCED, BACKWARD, 3),
        ),
    )

    assert [p.opportunity.line for p in priced(evidence)] == [3, 2, 1]


def test_the_case_that_gains_most_is_told(made: Any) -> None:
    slow, fast = made.case(8192, 4096), made.case(8192, 8192)
    evidence = made.evidence(
        made.spec(slow, fast, modes=(Mode.FORWARD,)),
        made.timing_at(slow, Mode.FORWARD, 0.4),
        made.timing_at(fast, Mode.FORWARD, 0.8),
        audit=made.audit(made.opportunity(OpportunityKind.WIDE_ARITHMETIC, "_forward_kernel")),
    )

    (found,) = priced(evidence, Mode.FORWARD)

    assert (found.case, found.case_predicted_high) == (slow.name, pytest.approx(1 / (1 - 0.3 * 0.6)))
    assert found.predicted_high == pytest.approx(((1 / (1 - 0.3 * 0.6)) * (1 / (1 - 0.3 * 0.2))) ** 0.5)


@given(
    kind=st.sampled_from(OpportunityKind),
    share=st.floats(0.01, 1.4),
    fill_us=st.floats(0.1, 1e4),
    excess=st.floats(0.3, 50),
    registers=st.integers(16, 255),
)
def test_no_gain_is_negative_nor_above_the_headroom(
    made: Any, kind: OpportunityKind, share: float, fill_us: float, excess: float, registers: int
) -> None:
    case = made.case(8192, 4096)
    least = made.cost(case, Mode.BACKWARD).bytes_moved
    time_us = least / 4083e3 / share
    metrics = {"dram__bytes_read.sum": excess * least, "dram__bytes_write.sum": 0.0}
    evidence = liger(
        made,
        case,
        time_us,
        made.opportunity(kind, "backward"),
        code={"registers": registers},
        durations=(made.durations(case, Mode.BACKWARD, FILL=fill_us, COPY=fill_us, _backward_kernel=100.0),),
        counters=(made.counters(case, metrics, mode=Mode.BACKWARD),),
    )

    for found in priced(evidence):
        assert 0 <= found.low_us <= found.high_us <= max(0.0, time_us * (1 - share)) + 1e-6
        assert 1 <= found.predicted_low <= found.predicted_high <= max(1.0, 1 / share) + 1e-6


@given(low=st.floats(-10, 1e4), high=st.floats(-10, 1e4), most=st.floats(-10, 1e4))
def test_a_gain_within_limits_is_in_order(low: float, high: float, most: float) -> None:
    found = Gain(low, high, "").within(most)

    assert 0 <= found.low_us <= found.high_us <= max(0.0, most)
