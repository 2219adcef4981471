"""Techniques that need thought: each has a brief, and is told where the profile speaks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from warpsmith.contracts.aim import Aim, Objective
from warpsmith.contracts.audit import Opportunity, OpportunityKind, Pattern, PatternKind
from warpsmith.contracts.case import Mode
from warpsmith.contracts.launch import AccessKind, GlobalAccess, LaunchRecord
from warpsmith.contracts.profile import Bottleneck, Profile
from warpsmith.diagnose.architectures import strategies_for
from warpsmith.diagnose.recommend import KNOBS, REWRITES, SETTINGS
from warpsmith.search.strategies import BRIEFS, CATALOGUE
from warpsmith.search.strategies.base import Layer
from warpsmith.search.strategies.signs import speaking
from warpsmith.workspace.documents import read_document

EXAMPLE = Path(__file__).resolve().parents[2] / "optimization" / "rms_norm" / "profile.json"
KERNEL = "_rms_norm_backward_kernel"


@pytest.fixture(scope="module")
def example() -> Profile:
    """Of rms_norm on an H200: forward is near its peak, backward is not. Nothing speaks for anything yet."""
    profile = read_document(EXAMPLE, Profile)
    quiet = profile.audit.model_copy(update={"opportunities": (), "patterns": ()})
    return relaunched(profile.model_copy(update={"audit": quiet, "opportunities": ()}), spills=0, registers=32)


def relaunched(profile: Profile, *, grid: tuple[int, ...] | None = None, **compiled: Any) -> Profile:
    """With other grids and compiled code, at every launch."""

    def other(launch: LaunchRecord) -> LaunchRecord:
        update = {"compiled": launch.compiled.model_copy(update=compiled), "grid": grid or launch.grid}
        return launch.model_copy(update=update)

    return profile.model_copy(
        update={
            "launches": {
                case: {mode: tuple(map(other, each)) for mode, each in by_mode.items()}
                for case, by_mode in profile.launches.items()
            }
        }
    )


def audited(profile: Profile, **changes: Any) -> Profile:
    return profile.model_copy(update={"audit": profile.audit.model_copy(update=changes)})


def classed(profile: Profile, **bottlenecks: Bottleneck) -> Profile:
    modes = (
        each.model_copy(update={"bottleneck": bottlenecks.get(each.mode.value, each.bottleneck)})
        for each in profile.modes
    )
    return profile.model_copy(update={"modes": tuple(modes)})


def reasons(profile: Profile) -> dict[str, tuple[str, ...]]:
    return {each.card.name: each.reasons for each in speaking(profile, BRIEFS.values()) if each.reasons}


def found(kind: OpportunityKind) -> Opportunity:
    return Opportunity(kind=kind, function=KERNEL, line=100, what="the row is read twice", why="")


@pytest.mark.parametrize("name", BRIEFS)
def test_a_brief_is_short_and_says_when_what_must_stay_how_to_prove_it_and_when_to_give_up(name: str) -> None:
    brief = BRIEFS[name].brief or ""

    assert 6 <= len(brief.splitlines()) <= 16
    assert [word for word in ("- When: ", "- Must stay: ", "- Prove: ", "- Give up: ") if word not in brief] == []


def test_no_technique_is_both_automatic_and_a_brief() -> None:
    assert set(BRIEFS) & set(CATALOGUE) == set()
    assert {name for name, strategy in CATALOGUE.items() if strategy.card.brief} == set()


def test_what_is_recommended_is_in_the_catalogue_and_takes_up_what_its_card_says() -> None:
    """The room that recommends may not know the one that carries out, so it has tables of its own."""
    recommended = {SETTINGS: KNOBS, **{name: (kind,) for name, kind in REWRITES.items()}}
    special = {name: kinds for major in (8, 9, 10, 12) for name, kinds in strategies_for((major, 0)).items()}
    cards = {name: strategy.card for name, strategy in CATALOGUE.items()}

    assert {name: card.takes_up for name, card in cards.items()} == recommended | special
    assert {name for name, card in cards.items() if card.layer is Layer.ARCHITECTURE} == set(special)


def test_those_of_one_architecture_come_last() -> None:
    layers = [card.layer for card in BRIEFS.values()]

    assert layers == sorted(layers, key=lambda layer: layer is Layer.ARCHITECTURE)


def test_nothing_speaks_where_no_sign_is_found(example: Profile) -> None:
    assert reasons(example) == {}


def test_an_opportunity_of_an_open_pass_speaks_for_what_takes_it_up(example: Profile) -> None:
    profile = audited(example, opportunities=(found(OpportunityKind.REPEATED_PASS),))

    assert reasons(profile) == {"recompute": ("line 100: the row is read twice",)}


def test_an_opportunity_of_a_pass_near_its_peak_does_not_speak(example: Profile) -> None:
    full = read_document(EXAMPLE, Profile)
    priced = full.opportunities[0].model_copy(update={"opportunity": found(OpportunityKind.REPEATED_PASS)})

    for mode, expected in ((Mode.FORWARD, {}), (Mode.BACKWARD, {"recompute": ("line 100: the row is read twice",)})):
        profile = example.model_copy(update={"opportunities": (priced.model_copy(update={"mode": mode}),)})
        assert reasons(profile) == expected


def test_nothing_speaks_where_every_pass_is_near_its_peak(example: Profile) -> None:
    profile = classed(relaunched(example, spills=8), backward=Bottleneck.NEAR_PEAK)

    assert reasons(profile) == {}


def test_spilled_registers_speak_for_shorter_live_ranges(example: Profile) -> None:
    ((name, told),) = reasons(relaunched(example, spills=8)).items()

    assert name == "live_ranges"
    assert told == (f"backward: {KERNEL} spills 8 registers a thread at 2048x2048-bf16",)


def test_registers_that_limit_occupancy_speak_but_not_those_of_accumulators(example: Profile) -> None:
    crowded = relaunched(example, registers=168, shared_bytes=0)

    assert list(reasons(crowded)) == ["live_ranges"]
    assert "live_ranges" not in reasons(relaunched(crowded, matrix_instructions={"wgmma.mma_async": 4}))


def test_a_grid_that_leaves_half_the_gpu_idle_speaks_for_split_rows(example: Profile) -> None:
    few = reasons(relaunched(example, grid=(66,)))

    assert list(few) == ["split_rows"]
    assert few["split_rows"][0] == f"backward: {KERNEL} has 66 programs for 132 SMs at 2048x2048-bf16"
    assert reasons(relaunched(example, grid=(67,))) == {}
    assert list(reasons(classed(example, backward=Bottleneck.GRID_TOO_SMALL))) == ["split_rows"]


def test_many_waves_of_programs_that_do_not_loop_speak_for_a_loop_where_latency_limits(example: Profile) -> None:
    functions = tuple(f.model_copy(update={"has_loop": False}) for f in example.audit.jit_functions)
    short = relaunched(audited(example, jit_functions=functions), grid=(132 * 64,))
    waiting = classed(short, backward=Bottleneck.LATENCY_BOUND)

    ((name, (told,)),) = reasons(waiting).items()
    assert name == "persistent_loop"
    assert told.startswith(f"backward: the programs of {KERNEL}, which do not loop, make ")
    assert reasons(relaunched(waiting, grid=(132,))) == {}
    assert reasons(classed(short, backward=Bottleneck.MEMORY_BOUND)) == {}
    assert reasons(audited(waiting, jit_functions=example.audit.jit_functions)) == {}


def test_atomics_of_a_kernel_that_an_open_pass_launches_speak_for_partial_sums(example: Profile) -> None:
    functions = tuple(f.model_copy(update={"atomics": 2}) for f in example.audit.jit_functions)

    assert list(reasons(audited(example, jit_functions=functions))) == ["partial_sums"]
    assert len(reasons(audited(example, jit_functions=functions))["partial_sums"]) == 1


def test_saved_tensors_speak_for_recomputing_where_memory_limits_backward(example: Profile) -> None:
    saved = Pattern(kind=PatternKind.SAVED_FOR_BACKWARD, function="forward", lines=(218,), what="saves x, y")
    profile = audited(example, patterns=(saved,))

    assert reasons(profile) == {}
    assert reasons(classed(profile, backward=Bottleneck.MEMORY_BOUND)) == {"recompute": ("line 218: saves x, y",)}


def test_excess_traffic_speaks_for_recomputing_but_not_where_tiles_are_read_again(example: Profile) -> None:
    profile = audited(example, opportunities=(found(OpportunityKind.EXCESS_TRAFFIC),))

    assert list(reasons(profile)) == ["recompute"]
    assert "recompute" not in reasons(relaunched(profile, matrix_instructions={"wgmma.mma_async": 4}))


def test_a_stride_that_nothing_keeps_at_1_speaks_for_neighbouring_addresses_and_excess_traffic_with_it(
    example: Profile,
) -> None:
    stride, excess = found(OpportunityKind.UNCOALESCED), found(OpportunityKind.EXCESS_TRAFFIC)
    excess = excess.model_copy(update={"what": "the counters saw twice the bytes"})

    assert list(reasons(audited(example, opportunities=(stride,)))) == ["uncoalesced"]
    assert "uncoalesced" not in reasons(audited(example, opportunities=(excess,)))
    told = reasons(audited(example, opportunities=(stride, excess)))["uncoalesced"]
    assert told == ("line 100: the row is read twice", "line 100: the counters saw twice the bytes")


def test_loads_narrower_than_a_thread_s_part_of_a_block_speak_for_hints_of_alignment(example: Profile) -> None:
    def loading(*bytes_a_thread: int | None, num_warps: int = 8) -> Profile:
        loads = (GlobalAccess(kind=AccessKind.LOAD, bytes_a_thread=each, instructions=1) for each in bytes_a_thread)
        return relaunched(example, accesses=tuple(loads), num_warps=num_warps)

    ((name, (told,)),) = reasons(loading(2, 4)).items()
    assert name == "alignment_hints"
    assert told.startswith(f"backward: no load of {KERNEL} moves more than 4 bytes a thread at 2048x2048-bf16; ")
    assert told.endswith("a thread has 16 bytes or more of a block")
    for wide in (loading(2, 16), loading(2, None), loading(), loading(4, num_warps=32 * 8)):
        assert reasons(wide) == {}


def test_a_wish_for_less_memory_speaks_for_a_gradient_in_place(example: Profile) -> None:
    profile = example.model_copy(update={"aim": Aim(objective=Objective.MEMORY)})

    assert list(reasons(profile)) == ["in_place_gradient"]
    assert reasons(profile.model_copy(update={"goal": Mode.FORWARD})) == {}


def test_a_product_fed_by_pointers_speaks_for_tma_where_there_is_tma(example: Profile) -> None:
    product = relaunched(example, matrix_instructions={"wgmma.mma_async": 4})
    bulk = (GlobalAccess(kind=AccessKind.ASYNC_COPY, bytes_a_thread=None, instructions=2),)
    ampere = product.device.model_copy(update={"capability": (8, 0)})

    assert list(reasons(product)) == ["tma_descriptors"]
    assert reasons(relaunched(product, accesses=bulk)) == {}
    assert reasons(product.model_copy(update={"device": ampere})) == {}
