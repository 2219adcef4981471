"""Which differences of compiled code are regressions, at the limits and on either side of them."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.contracts.case import Mode
from warpsmith.contracts.compiled_change import CallGap, CompiledLaunch, CompiledRegression, Fact, LaunchPair
from warpsmith.verdict.compiled import CompiledLimits, compiled_regressions, specializations

MOST_SHARED_BYTES = 100_000
DEFAULTS = CompiledLimits()


def launch(code: str = "a", **changes: Any) -> CompiledLaunch:
    facts: dict[str, Any] = {
        "jit_function": "kernel",
        "grid": (4096,),
        "num_warps": 4,
        "num_stages": 3,
        "num_ctas": 1,
        "registers": 32,
        "spill_bytes": 0,
        "shared_bytes": 1000,
        "resident_warps": 40,
        "limiter": "registers",
        "fits_at_once": False,
        "binary_sha256": code * 64,
    }
    return CompiledLaunch(**{**facts, **changes})


def pair(base: CompiledLaunch | None, change: CompiledLaunch | None) -> LaunchPair:
    return LaunchPair(case="8x8-bf16", mode=Mode.FORWARD, base=base, change=change)


def judged(
    base: CompiledLaunch | None, change: CompiledLaunch | None, limits: CompiledLimits = DEFAULTS
) -> tuple[CompiledRegression, ...]:
    return compiled_regressions([pair(base, change)], (), limits, MOST_SHARED_BYTES)


@pytest.mark.parametrize(
    ("base", "change"),
    [
        ({}, {"registers": 255}),
        ({"spill_bytes": 8}, {"spill_bytes": 8}),
        ({"spill_bytes": 8}, {"spill_bytes": 0}),
        ({}, {"resident_warps": 36}),
        ({}, {"resident_warps": 4, "fits_at_once": True}),
        ({"shared_bytes": 0}, {"shared_bytes": 25_000}),
        ({}, {"grid": (1,), "num_warps": 8, "num_stages": 1}),
    ],
    ids=["registers", "as many spills", "fewer spills", "a tenth", "all blocks fit", "room", "settings"],
)
def test_what_costs_nothing_or_is_within_its_limit_is_no_regression(
    base: dict[str, Any], change: dict[str, Any]
) -> None:
    assert judged(launch(**base), launch(**change)) == ()


@pytest.mark.parametrize(
    ("fact", "base", "change", "limit"),
    [
        (Fact.SPILLS, {"spill_bytes": 8}, {"spill_bytes": 12}, "none more"),
        (Fact.RESIDENT_WARPS, {}, {"resident_warps": 32}, "at most 10% fewer"),
        (Fact.SHARED_MEMORY, {"shared_bytes": 0}, {"shared_bytes": 25_001}, "at most 25% of 100000 B more"),
    ],
    ids=["spills", "resident warps", "shared memory"],
)
def test_what_is_over_a_limit_is_told_with_its_place_figures_and_limit(
    fact: Fact, base: dict[str, Any], change: dict[str, Any], limit: str
) -> None:
    names = {Fact.SPILLS: "spill_bytes", Fact.RESIDENT_WARPS: "resident_warps", Fact.SHARED_MEMORY: "shared_bytes"}
    before, after = launch(**base), launch(**change)

    assert judged(before, after) == (
        CompiledRegression(
            fact=fact,
            limit=limit,
            jit_function="kernel",
            case="8x8-bf16",
            mode=Mode.FORWARD,
            base=getattr(before, names[fact]),
            change=getattr(after, names[fact]),
        ),
    )


def test_limits_that_are_wider_let_it_pass() -> None:
    wide = CompiledLimits(spill_bytes=64, resident_warps=0.9, shared_memory=0.5)

    assert judged(launch(), launch(spill_bytes=64, resident_warps=4, shared_bytes=51_000), wide) == ()


def test_a_launch_that_the_base_does_not_make_may_not_spill_and_one_that_is_gone_is_none() -> None:
    (found,) = judged(None, launch(spill_bytes=4, resident_warps=4, shared_bytes=90_000))

    assert (found.fact, found.base, found.change) == (Fact.SPILLS, None, 4)
    assert judged(launch(), None) == ()


@pytest.mark.parametrize(
    ("base", "change", "regresses"),
    [(None, "no", True), ("no", "no", False), ("no", None, False)],
    ids=["lost", "neither", "gained"],
)
def test_a_call_that_compiled_has_to_compile(base: str | None, change: str | None, regresses: bool) -> None:
    gap = CallGap(case="8x8-bf16", mode=Mode.BACKWARD, base=base, change=change)
    found = compiled_regressions((), (gap,), DEFAULTS, MOST_SHARED_BYTES)

    lost = CompiledRegression(fact=Fact.COMPILES, limit="has to", case="8x8-bf16", mode=Mode.BACKWARD)
    assert found == ((lost,) if regresses else ())


def test_specializations_are_different_machine_codes_and_may_double() -> None:
    twice = [pair(launch("a"), launch("a")), pair(launch("a"), launch("b"))]
    thrice = [*twice, pair(None, launch("c"))]

    assert (specializations(()), specializations(twice), specializations(thrice)) == ((0, 0), (1, 2), (1, 3))
    assert compiled_regressions(twice, (), DEFAULTS, MOST_SHARED_BYTES) == ()
    assert compiled_regressions(thrice, (), DEFAULTS, MOST_SHARED_BYTES) == (
        CompiledRegression(fact=Fact.SPECIALIZATIONS, limit="at most 100% more", base=1, change=3),
    )
