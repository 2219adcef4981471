"""Sentences on what stands out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsmith.contracts.audit import KnobKind
from warpsmith.contracts.case import Mode
from warpsmith.contracts.launch import SettingsProbe
from warpsmith.diagnose.bottleneck import classify
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.observations import observations
from warpsmith.diagnose.roofline import baselines


def observed(evidence: Evidence, modes: Sequence[Mode] = (Mode.FORWARD, Mode.BACKWARD)) -> tuple[str, ...]:
    rows = baselines(evidence.spec, evidence.timings, (), evidence.device)
    return observations(evidence, [classify(mode, evidence, rows) for mode in modes], rows)


def test_the_slowest_pass_the_most_headroom_and_what_is_left_alone_are_told(made: Any) -> None:
    case = made.case(8192, 4096)
    timings = [made.timing_at(case, Mode.FORWARD, 1.0), made.timing_at(case, Mode.BACKWARD, 0.5)]

    assert observed(made.evidence(made.spec(case), *timings)) == (
        "backward is the slowest pass: 75% of the device time over the tuning cases",
        "most headroom: backward at 8192x4096-bf16 takes 98.2 µs, 49.1 µs more than at its ceiling (50% of it)",
        "forward is near its peak, 100% of the ceiling: no strategy is recommended for it",
    )


def test_where_a_pass_falls_off_and_where_it_comes_up_to_speed_are_told_once_each(made: Any) -> None:
    shares = {2048: 0.30, 3072: 0.45, 4096: 0.80, 8192: 0.65, 16384: 0.40}
    cases = [made.case(8192, size) for size in shares]
    timings = [made.timing_at(case, Mode.FORWARD, share) for case, share in zip(cases, shares.values(), strict=True)]

    sentences = observed(made.evidence(made.spec(*cases), *timings), [Mode.FORWARD])

    assert [s for s in sentences if "along N" in s] == [
        "forward bends along N between 8192x8192-bf16 and 8192x16384-bf16: 65% to 40% of the ceiling",
        "forward rises along N between 8192x3072-bf16 and 8192x4096-bf16: 45% to 80% of the ceiling",
    ]
    assert (
        "forward at the largest N, 8192x16384-bf16: 40%; the best of the others is 80%, at 8192x4096-bf16" in sentences
    )


def test_neighbours_of_very_unlike_bytes_make_no_bend(made: Any) -> None:
    tiny, large = made.case(8, 2048), made.case(8192, 4096)
    timings = [made.timing_at(tiny, Mode.FORWARD, 0.02), made.timing_at(large, Mode.FORWARD, 0.9)]

    assert not any("along N" in s for s in observed(made.evidence(made.spec(tiny, large), *timings), [Mode.FORWARD]))


def test_a_tail_is_told_and_none_of_programs_that_loop(made: Any) -> None:
    case = made.case(8192, 4096)
    launches = {
        case.name: {
            Mode.FORWARD: (made.launch(blocks=132 * 6 + 10),),
            Mode.BACKWARD: (made.launch("_backward_kernel", 132 * 8),),
        }
    }
    audit = made.audit(knobs=(made.knob("_backward_kernel", KnobKind.PROGRAMS_PER_SM),))
    timings = [made.timing_at(case, Mode.FORWARD, 0.5), made.timing_at(case, Mode.BACKWARD, 0.5)]

    sentences = observed(made.evidence(made.spec(case), *timings, launches=launches, audit=audit))

    assert [s for s in sentences if "tail" in s] == [
        "forward has a tail at 8192x4096-bf16: 1.01 waves of _forward_kernel leave 49% of the room that the waves "
        "have empty"
    ]


def test_a_small_kernel_beside_the_main_one_has_no_tail_to_speak_of(made: Any) -> None:
    case = made.case(8192, 4096)
    launches = {case.name: {Mode.FORWARD: (made.launch(), made.launch("_sum_kernel", 132 * 6 + 10))}}
    timing = made.timing_at(case, Mode.FORWARD, 0.5)

    sentences = observed(made.evidence(made.spec(case), timing, launches=launches), [Mode.FORWARD])

    assert not [s for s in sentences if "tail" in s]


def test_many_waves_have_no_tail_to_speak_of(made: Any) -> None:
    case = made.case(8192, 4096)
    timing = made.timing_at(case, Mode.FORWARD, 0.5)

    assert not any("tail" in s for s in observed(made.evidence(made.spec(case), timing), [Mode.FORWARD]))


def test_a_knob_that_changes_no_machine_code_anywhere_is_told(made: Any) -> None:
    case = made.case(8192, 4096)

    def probe(knob: str, *alike: tuple[int, ...], mode: Mode = Mode.FORWARD) -> SettingsProbe:
        return SettingsProbe(knob=knob, case=case.name, mode=mode, alike=alike)

    probes = (
        probe("_forward_kernel.num_stages", (1, 2, 3)),
        probe("_forward_kernel.num_stages", (1, 2, 3, 4), mode=Mode.BACKWARD),
        probe("_forward_kernel.num_warps", (4,), (8,)),
        probe("_backward_kernel.num_stages", (1, 2)),
        probe("_backward_kernel.num_stages", (1,), (2,)),
        probe("_backward_kernel.maxnreg", (64,)),
    )
    sentences = observed(made.evidence(made.spec(case), made.timing_at(case, Mode.FORWARD, 0.5), probes=probes), [])

    assert [s for s in sentences if "changes nothing" in s] == [
        "_forward_kernel.num_stages changes nothing: the machine code is the same for 1, 2, 3, 4"
    ]


def test_a_bend_is_between_neighbours_along_the_plot_axis(made: Any) -> None:
    shares = {(8192, 2048): 0.60, (8192, 4096): 0.62, (4096, 8192): 0.45, (2048, 16384): 0.40}
    cases = [made.case(*sizes) for sizes in shares]
    timings = [made.timing_at(*pair) for pair in zip(cases, [Mode.FORWARD] * 4, shares.values(), strict=True)]

    sentences = observed(made.evidence(made.spec(*cases), *timings), [Mode.FORWARD])

    assert [s for s in sentences if "bends" in s] == [
        "forward bends along N between 8192x4096-bf16 and 4096x8192-bf16: 62% to 45% of the ceiling"
    ]


def test_of_two_cases_at_one_size_the_larger_is_on_the_curve(made: Any) -> None:
    small, large, wide = made.case(1, 4096), made.case(8192, 4096), made.case(8192, 8192)
    shares = ((small, 0.02), (large, 0.55), (wide, 0.50))
    timings = [made.timing_at(case, Mode.FORWARD, share) for case, share in shares]

    assert not any(
        "bends" in s for s in observed(made.evidence(made.spec(small, large, wide), *timings), [Mode.FORWARD])
    )


def test_a_provider_that_beats_the_original_is_told(made: Any) -> None:
    case = made.case(8192, 4096)
    timing = made.timing(case, Mode.FORWARD, {"original": 0.2, "torch": 0.4, "liger": 0.1})

    sentences = observed(made.evidence(made.spec(case, providers=("torch", "liger")), timing), [Mode.FORWARD])

    assert sentences[-1] == "liger is 2.00× as fast as the original in forward over the tuning cases"


def test_a_provider_that_ran_at_some_cases_only_is_not_compared(made: Any) -> None:
    first, second = made.case(8192, 4096), made.case(8192, 8192)
    timings = [
        made.timing(first, Mode.FORWARD, {"original": 0.2, "torch": 0.1}),
        made.timing(second, Mode.FORWARD, {"original": 0.2}, failures={"torch": "timeout"}),
    ]

    sentences = observed(made.evidence(made.spec(first, second, providers=("torch",)), *timings), [Mode.FORWARD])

    assert not any("torch" in sentence for sentence in sentences)


WHOLE = "backward alone is no part of the whole call"


def timed(made: Any, backward_ms: float, full_ms: float, forward_ms: float = 0.05) -> Evidence:
    case = made.case(8192, 4096)
    times = {Mode.FORWARD: forward_ms, Mode.BACKWARD: backward_ms, Mode.FULL: full_ms}
    timings = [made.timing(case, mode, {"original": ms}) for mode, ms in times.items()]
    evidence: Evidence = made.evidence(made.spec(case, modes=tuple(times)), *timings)
    return evidence


def test_a_backward_pass_that_takes_what_the_whole_call_does_is_told(made: Any) -> None:
    (said,) = [s for s in observed(timed(made, 0.97, 1.0), tuple(Mode)) if s.startswith(WHOLE)]

    assert said.startswith(f"{WHOLE}: it takes 97% of its time over the tuning cases and has ")


def test_a_backward_pass_with_more_to_win_than_the_whole_call_is_told(made: Any) -> None:
    # at 4100 GB/s the least is 49 us of backward and 82 us of full
    (said,) = [s for s in observed(timed(made, 0.13, 0.15), tuple(Mode)) if s.startswith(WHOLE)]

    assert said.startswith(f"{WHOLE}: it takes 87% of its time over the tuning cases and has 1.2 times its headroom. ")


def test_a_backward_pass_that_makes_a_part_of_the_other_again_is_told_where_it_takes_less(made: Any) -> None:
    said = [s for s in observed(timed(made, 0.9, 1.0, 0.4), tuple(Mode)) if "judge by full" in s]

    assert [s.partition(":")[0] for s in said] == [
        "forward and backward apart take 1.30 times as long as the whole call"
    ]


def test_passes_that_take_as_long_apart_as_together_are_no_matter(made: Any) -> None:
    assert not [s for s in observed(timed(made, 0.7, 1.0, 0.4), tuple(Mode)) if "judge by full" in s]


def test_a_backward_pass_that_leaves_room_for_one_forward_is_not(made: Any) -> None:
    assert not [s for s in observed(timed(made, 0.85, 1.0), tuple(Mode)) if s.startswith(WHOLE)]
