"""Sentences on what stands out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsmith.contracts.case import Mode
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
        "most headroom: backward at 8192x4096-bf16 takes 98.2 us, 49.1 us more than at its ceiling (50% of it)",
        "forward is near its peak, 100% of the ceiling: no strategy is recommended for it",
    )


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
