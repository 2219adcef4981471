"""Facts by compute capability; an unknown one is an error and never a guess."""

from __future__ import annotations

import pytest

from warpsmith.contracts.errors import ExitCode, Unavailable, UsageError
from warpsmith.device.architecture import TARGETS, SmLimits, architecture_of, limits_of, target_capability


@pytest.mark.parametrize(
    ("capability", "architecture"),
    [
        ((7, 0), "Volta"),
        ((7, 5), "Turing"),
        ((8, 0), "Ampere"),
        ((8, 6), "Ampere"),
        ((8, 9), "Ada"),
        ((9, 0), "Hopper"),
        ((10, 0), "Blackwell"),
        ((11, 0), "Blackwell"),
        ((12, 0), "Blackwell"),
    ],
)
def test_a_capability_has_an_architecture(capability: tuple[int, int], architecture: str) -> None:
    assert architecture_of(capability) == architecture


@pytest.mark.parametrize(
    ("capability", "threads", "warps", "blocks", "shared_kib", "block_kib"),
    [
        ((7, 5), 1024, 32, 16, 64, 64),
        ((8, 0), 2048, 64, 32, 164, 163),
        ((8, 6), 1536, 48, 16, 100, 99),
        ((8, 9), 1536, 48, 24, 100, 99),
        ((9, 0), 2048, 64, 32, 228, 227),
        ((10, 0), 2048, 64, 32, 228, 227),
        ((12, 0), 1536, 48, 24, 100, 99),
    ],
)
def test_the_limits_of_an_sm(
    capability: tuple[int, int], threads: int, warps: int, blocks: int, shared_kib: int, block_kib: int
) -> None:
    limits = limits_of(capability)

    assert limits == SmLimits(
        max_threads_per_sm=threads,
        max_blocks_per_sm=blocks,
        registers_per_sm=65536,
        shared_memory_per_sm_bytes=shared_kib * 1024,
        shared_memory_per_block_bytes=block_kib * 1024,
    )
    assert limits.max_warps_per_sm == warps


@pytest.mark.parametrize("capability", [(6, 1), (9, 9), (13, 0)])
def test_an_unknown_capability_names_what_is_known(capability: tuple[int, int]) -> None:
    for question in (architecture_of, limits_of):
        with pytest.raises(
            Unavailable, match=rf"{capability[0]}\.{capability[1]}; known are 7\.0, .*, 12\.1$"
        ) as caught:
            question(capability)
        assert caught.value.exit_code is ExitCode.UNAVAILABLE


def test_every_target_name_is_the_architecture_it_stands_for() -> None:
    assert {name: architecture_of(capability).lower() for name, capability in TARGETS.items()} == {
        n: n for n in TARGETS
    }


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("hopper", (9, 0)),
        (" Ampere ", (8, 0)),
        ("sm_90", (9, 0)),
        ("sm90a", (9, 0)),
        ("9.0", (9, 0)),
        ("sm_120", (12, 0)),
        ("10.3", (10, 3)),
    ],
)
def test_a_target_is_named_by_architecture_or_capability(name: str, capability: tuple[int, int]) -> None:
    assert target_capability(name) == capability


@pytest.mark.parametrize(("name", "nearest"), [("hoper", "hopper"), ("", "volta"), ("h100", "hopper")])
def test_an_unknown_target_is_answered_with_the_nearest_name(name: str, nearest: str) -> None:
    with pytest.raises(UsageError, match=f"unknown target GPU '{name}'") as caught:
        target_capability(name)

    assert any(f"the nearest name is {each!r}" in caught.value.message for each in (nearest, *TARGETS))


def test_a_target_of_unknown_capability_is_unavailable() -> None:
    with pytest.raises(Unavailable, match=r"unknown compute capability 9\.9"):
        target_capability("sm_99")
