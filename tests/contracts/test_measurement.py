"""What no measurement can say is refused by the contract, wherever the answer comes from."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.measurement import Block, Timing, TimingMethod, TimingPlan


def timing_of(*blocks: tuple[str, int, int], **failures: str) -> Timing:
    """Blocks of (contender, process, round)."""
    return Timing(
        case=Case(axes={"M": 4, "N": 8}, dtype=DType.BFLOAT16),
        mode=Mode.FULL,
        method=TimingMethod.GRAPH,
        calls_per_sample=1,
        input_sets=1,
        same_addresses=True,
        blocks=tuple(Block(contender=c, process=p, round=r, samples_ms=(1.0,)) for c, p, r in blocks),
        failures=failures,
    )


@pytest.mark.parametrize("sample_ms", [0.0, -0.1, 1e9, float("nan"), float("inf")])
def test_a_sample_takes_time_but_not_days(sample_ms: float) -> None:
    assert Block(contender="a", round=0, samples_ms=(1e-7, 9e8)).samples_ms == (1e-7, 9e8)
    with pytest.raises(ValidationError, match=r"samples_ms\.1"):
        Block(contender="a", round=0, samples_ms=(0.1, sample_ms))


@pytest.mark.parametrize(
    "absurd",
    [
        {"rounds": 10_001, "most_rounds": 10_001},
        {"most_rounds": 10_001},
        {"half_width": 1e-300},
        {"half_width": 1.1},
        {"cap_s": 1.7e308},
        {"block_ms": 1e308},
        {"rounds_a_placement": 10_001},
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused(absurd: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="equal to"):
        TimingPlan(**absurd)


def test_whoever_ran_in_a_process_has_a_block_in_each_of_its_rounds() -> None:
    torn = [("a", 0, 0), ("b", 0, 0), ("b", 0, 1)]
    with pytest.raises(ValidationError, match=r"without a block in rounds that others ran: \['a'\]"):
        timing_of(*torn)
    assert timing_of(*torn, ("a", 0, 1), c="died: signal 9").shared_rounds("a", "b") == {0, 1}


def test_one_that_ran_in_one_of_two_processes_shares_the_rounds_of_that_one() -> None:
    timing = timing_of(("a", 0, 0), ("b", 0, 0), ("a", 1, 1))
    assert (timing.shared_rounds("a"), timing.shared_rounds("a", "b")) == ({0, 1}, {0})
    assert timing.shared_rounds("a", "c") == frozenset()
