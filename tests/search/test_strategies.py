"""What each technique writes, and why it declines where it has nothing to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from simulated_gpu import SimulatedGpu
from simulated_kernel import BACKWARD, FORWARD, Work, launches

from warpsmith.contracts.audit import SourceAudit
from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.profile import Bottleneck, ModeProfile, Profile
from warpsmith.search.bench import Bench
from warpsmith.search.strategies import CATALOGUE
from warpsmith.search.strategies.base import Ground, Inapplicable, narrow
from warpsmith.source.rewrites import NotApplicable
from warpsmith.source.scan import scan
from warpsmith.source.table import Band

NEAR_PEAK = {Mode.FORWARD: Bottleneck.NEAR_PEAK, Mode.BACKWARD: Bottleneck.NEAR_PEAK}
OPEN_BACKWARD = {Mode.FORWARD: Bottleneck.NEAR_PEAK, Mode.BACKWARD: Bottleneck.LATENCY_BOUND}


def ground(
    bench: Bench, bottlenecks: dict[Mode, Bottleneck] = OPEN_BACKWARD, text: str | None = None, goal: Mode = Mode.FULL
) -> Ground:
    source = text if text is not None else Path(bench.original.path).read_text()
    audit = scan(source)
    return Ground(source, audit, _profile(bench, audit, bottlenecks, goal), bench)


def _profile(bench: Bench, audit: SourceAudit, bottlenecks: dict[Mode, Bottleneck], goal: Mode) -> Profile:
    passes = (Mode.FORWARD, Mode.BACKWARD)
    return Profile(
        kernel="rms_norm",
        run_id="r",
        goal=goal,
        source=bench.spec.source,
        source_sha256=bench.spec.source_sha256,
        device=bench.device,
        origin=Origin(kind=OriginKind.MEASURED),
        baselines=(),
        launches={c.name: {m: launches(Work(c, m, _original(bench))) for m in passes} for c in bench.spec.tuning_cases},
        counters=(),
        evidence_tier="kernel durations",
        audit=audit,
        modes=tuple(
            ModeProfile(mode=mode, bottleneck=found, share_of_ceiling=0.93, headroom_us=1.0, evidence=())
            for mode, found in bottlenecks.items()
        ),
        recommendations=(),
        expected_variants=1,
        observations=(),
    )


def _original(bench: Bench) -> str:
    return Path(bench.original.path).read_text()


@pytest.mark.parametrize(
    ("strategy", "reason"),
    [
        ("settings", "forward was left alone: it reaches 93% of its ceiling; backward was left alone"),
        ("pipelined_loop", "backward was left alone: it reaches 93% of its ceiling; no launched kernel has"),
        ("cache_hints", "forward was left alone: it reaches 93% of its ceiling; backward was left alone"),
        ("stream_once_stores", "forward was left alone: it reaches 93% of its ceiling; backward was left alone"),
    ],
)
def test_passes_near_their_ceiling_are_left_alone(bench: Bench, gpu: SimulatedGpu, strategy: str, reason: str) -> None:
    with pytest.raises(Inapplicable, match=reason):
        CATALOGUE[strategy].propose(ground(bench, NEAR_PEAK))
    assert gpu.asked == []


def test_only_the_pass_that_is_the_goal_is_swept(bench: Bench, gpu: SimulatedGpu) -> None:
    with pytest.raises(Inapplicable, match="forward was left alone"):
        CATALOGUE["settings"].propose(ground(bench, goal=Mode.FORWARD))
    assert gpu.asked == []


def test_settings_are_written_as_a_table_with_what_was_chosen_at_each_case(bench: Bench) -> None:
    proposal = CATALOGUE["settings"].propose(ground(bench))

    assert "_RMS_NORM_BACKWARD_SETTINGS" in proposal.source
    assert proposal.tables[0].bands == (
        Band(ranges=((2048, 4096), (2048, 8192)), settings={"num_warps": 4, "programs_per_sm": 4}),
        Band(ranges=((4097, 8192), (2048, 8192)), settings={"num_warps": 16, "programs_per_sm": 2}),
    )
    assert proposal.changes == (
        "rms_norm_backward: n_cols 2048 to 4096, n_rows 2048 to 8192: num_warps=4 programs_per_sm=4; "
        "n_cols 4097 to 8192, n_rows 2048 to 8192: num_warps=16 programs_per_sm=2",
    )
    assert set(proposal.chosen_settings) == {case.name for case in bench.spec.tuning_cases}
    assert "num_stages cannot matter: all its values give one machine code" in proposal.learnings


def test_settings_that_are_no_better_than_the_originals_make_no_variant(bench: Bench, gpu: SimulatedGpu) -> None:
    gpu.slowdown = lambda work: 10.0 if work.settings else 1.0
    with pytest.raises(Inapplicable, match="no settings were better than the original's at any tuning case"):
        CATALOGUE["settings"].propose(ground(bench))


def test_a_case_without_any_settings_that_compile_is_left_out_of_what_was_chosen(
    bench: Bench, gpu: SimulatedGpu
) -> None:
    case = bench.spec.tuning_cases[0].name
    gpu.compile_failure = lambda work: "no room" if work.settings and work.case.name == case else None
    assert case not in CATALOGUE["settings"].propose(ground(bench)).chosen_settings


def test_settings_that_compile_nowhere_make_no_variant(bench: Bench, gpu: SimulatedGpu) -> None:
    gpu.compile_failure = lambda work: "no room" if work.settings else None
    with pytest.raises(Inapplicable, match="no settings were better"):
        CATALOGUE["settings"].propose(ground(bench))


def test_knobs_that_were_found_inert_are_not_swept_again(bench: Bench, gpu: SimulatedGpu) -> None:
    stages = f"{BACKWARD}.num_stages"
    CATALOGUE["settings"].propose(replace(ground(bench), inert=frozenset({stages})))
    compiled = [settings for question in gpu.asked if question.kind == "compile" for settings in question.settings]
    assert compiled and not any(stages in settings for settings in compiled)


def test_narrowing_a_proposal_rewrites_the_table_and_keeps_all_else(bench: Bench) -> None:
    proposal = CATALOGUE["settings"].propose(ground(bench))
    table = proposal.tables[0]
    narrowed = narrow(proposal, [table.model_copy(update={"bands": table.bands[:1]})])

    assert "(4097, 8192)" in proposal.source and "(4097, 8192)" not in narrowed.source
    assert narrowed.changes[-1] == "bands removed where a case was slower"
    assert narrowed.chosen_settings == proposal.chosen_settings


def test_a_tensor_that_is_zeroed_in_vain_is_allocated_empty_once(bench: Bench) -> None:
    proposal = CATALOGUE["needless_initialisation"].propose(ground(bench))
    assert "torch.zeros(" not in proposal.source
    with pytest.raises(Inapplicable, match="no tensor is zeroed and then only stored to"):
        CATALOGUE["needless_initialisation"].propose(ground(bench, text=proposal.source))


def test_a_tensor_that_atomics_add_to_stays_zeroed(bench: Bench) -> None:
    text = _original(bench).replace("tl.store(dw_partial_ptr", "tl.atomic_add(dw_partial_ptr")
    assert text != _original(bench)
    with pytest.raises(Inapplicable, match="no tensor is zeroed and then only stored to"):
        CATALOGUE["needless_initialisation"].propose(ground(bench, text=text))


def test_loop_stages_become_a_knob_that_is_swept(bench: Bench) -> None:
    proposal = CATALOGUE["pipelined_loop"].propose(ground(bench))
    assert "tl.range(program, n_rows, tl.num_programs(0), num_stages=LOOP_STAGES)" in proposal.source
    assert {band.settings["LOOP_STAGES"] for band in proposal.tables[0].bands} == {2}


def test_a_loop_that_names_its_stages_is_left_as_it_is(bench: Bench) -> None:
    proposal = CATALOGUE["pipelined_loop"].propose(ground(bench))
    with pytest.raises(Inapplicable, match="no launched kernel has an unpipelined loop over global loads"):
        CATALOGUE["pipelined_loop"].propose(ground(bench, text=proposal.source))


#: What each hint for the caches writes, and what it says where no kernel has a place for it.
HINTS = {
    "cache_hints": ('eviction_policy="evict_first"', "no launched kernel loads rows once without an eviction policy"),
    "stream_once_stores": ('cache_modifier=".cs"', "no launched kernel stores what it writes once"),
}


@pytest.mark.parametrize(("strategy", "told"), HINTS.items(), ids=HINTS)
def test_hints_for_the_caches_are_kept_only_where_they_are_faster(
    bench: Bench, gpu: SimulatedGpu, strategy: str, told: tuple[str, str]
) -> None:
    hint, nothing = told
    gpu.slowdown = lambda work: 1.1 if hint in work.text else 1.0
    with pytest.raises(Inapplicable, match=rf"{strategy} brings nothing to {BACKWARD} in backward: 0\.9\d\d×"):
        CATALOGUE[strategy].propose(ground(bench))

    gpu.slowdown = lambda work: 0.9 if hint in work.text else 1.0
    proposal = CATALOGUE[strategy].propose(ground(bench))
    (change,) = proposal.changes
    assert BACKWARD in change and FORWARD not in change
    assert hint in proposal.source.partition(f"def {BACKWARD}")[2]
    assert hint not in proposal.source.partition(f"def {BACKWARD}")[0]
    with pytest.raises(Inapplicable, match=nothing):
        CATALOGUE[strategy].propose(ground(bench, text=proposal.source))


@pytest.mark.parametrize(("strategy", "told"), HINTS.items(), ids=HINTS)
def test_hints_for_the_caches_that_run_nowhere_are_inapplicable_and_say_so(
    bench: Bench, gpu: SimulatedGpu, strategy: str, told: tuple[str, str]
) -> None:
    gpu.run_failure = lambda work: "illegal address" if told[0] in work.text else None
    with pytest.raises(Inapplicable, match=f"{BACKWARD}: no alternative runs at every tuning case"):
        CATALOGUE[strategy].propose(ground(bench))


@pytest.mark.parametrize("strategy", ["cache_hints", "stream_once_stores"])
def test_a_gradient_in_place_streams_neither_way(bench: Bench, gpu: SimulatedGpu, strategy: str) -> None:
    """The pointer that is stored to is loaded, and the other is loaded twice."""
    text = _original(bench).replace("tl.store(dx_ptr + row * n_cols", "tl.store(dy_ptr + row * n_cols")
    again = "+ 0.0 * (tl.load(dy_ptr + row * dy_row_stride + cols) + tl.load(x_ptr + row * x_row_stride + cols))"
    text = text.replace("        dx = rstd * (", f"        dx = rstd * (1.0 {again}) * (")
    with pytest.raises(Inapplicable, match=HINTS[strategy][1]):
        CATALOGUE[strategy].propose(ground(bench, text=text, goal=Mode.BACKWARD))
    assert gpu.asked == []


def test_a_table_that_has_no_place_in_the_source_is_inapplicable(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise NotApplicable("line 7: num_warps is read before the row's width is known")

    monkeypatch.setattr("warpsmith.search.tuning.writing.write_table", refuse)
    with pytest.raises(Inapplicable, match="line 7: num_warps is read before"):
        CATALOGUE["settings"].propose(ground(bench))


def test_loads_that_never_change_go_before_their_loop_only_where_that_is_faster(
    bench: Bench, gpu: SimulatedGpu
) -> None:
    before = "    for row in range(program, n_rows, tl.num_programs(0)):\n"
    load = "weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32) + OFFSET\n"
    inside = f"{before}        {load}"
    text = _original(bench).replace(before, inside)
    text = text.replace(f"    if weight_ptr is not None:\n        {load}    if dw_partial", "    if dw_partial")
    gpu.slowdown = lambda work: 1.0 if inside in work.text else 1.1
    with pytest.raises(Inapplicable, match=rf"loop_invariant_loads brings nothing to {BACKWARD} in backward: 0\.9"):
        CATALOGUE["loop_invariant_loads"].propose(ground(bench, text=text))

    gpu.slowdown = lambda work: 1.0 if inside in work.text else 0.9
    proposal = CATALOGUE["loop_invariant_loads"].propose(ground(bench, text=text))
    assert f"    {load}\n{before}" in proposal.source and inside not in proposal.source
    assert len(proposal.changes) == 1 and "weight_ptr is loaded in every pass" in proposal.changes[0]
    with pytest.raises(Inapplicable, match="no load is the same in every pass of its loop"):
        CATALOGUE["loop_invariant_loads"].propose(ground(bench, goal=Mode.BACKWARD))


OPEN_FORWARD = {Mode.FORWARD: Bottleneck.LATENCY_BOUND, Mode.BACKWARD: Bottleneck.NEAR_PEAK}


def test_several_rows_a_program_are_kept_only_where_they_are_faster(bench: Bench, gpu: SimulatedGpu) -> None:
    gpu.slowdown = lambda work: 1.05 if "ROWS: tl.constexpr" in work.text else 1.0
    with pytest.raises(Inapplicable, match=f"two_dimensional_tiles brings nothing to {FORWARD} in forward: "):
        CATALOGUE["two_dimensional_tiles"].propose(ground(bench, OPEN_FORWARD))

    gpu.slowdown = lambda work: 0.9 if "ROWS: tl.constexpr" in work.text else 1.0
    proposal = CATALOGUE["two_dimensional_tiles"].propose(ground(bench, OPEN_FORWARD))
    assert "ROWS=rows_per_program," in proposal.source
    assert len(proposal.changes) == 1 and f"each program of {FORWARD} takes one row" in proposal.changes[0]


def test_a_gain_within_the_scatter_of_its_own_runs_is_none(bench: Bench, gpu: SimulatedGpu) -> None:
    gpu.slowdown = lambda work: 0.9999 if "ROWS: tl.constexpr" in work.text else 1.0
    with pytest.raises(Inapplicable, match=r"forward: 1\.000× \[0\.999, 1\.001\], which may be noise$"):
        CATALOGUE["two_dimensional_tiles"].propose(ground(bench, OPEN_FORWARD))


def test_a_kernel_that_loops_over_its_rows_takes_no_several_at_once(bench: Bench, gpu: SimulatedGpu) -> None:
    nothing = r"forward was left alone: .*; no launched kernel has one program a row that could take several"
    with pytest.raises(Inapplicable, match=nothing):
        CATALOGUE["two_dimensional_tiles"].propose(ground(bench, OPEN_BACKWARD))


#: What one technique takes up, in place of a product in the backward kernel, and how what it writes can be told.
ARITHMETIC = {
    "cheap_functions": ("tl.exp(", "tl.exp2("),
    "dot_precision": (
        "tl.dot(tl.load(x_ptr).to(tl.float32), tl.load(w_ptr).to(tl.float32)) + (",
        "dot(tl.load(x_ptr), ",
    ),
}


@pytest.mark.parametrize(("strategy", "texts"), ARITHMETIC.items(), ids=ARITHMETIC.keys())
def test_a_rewrite_of_arithmetic_is_kept_only_where_it_is_faster(
    bench: Bench, gpu: SimulatedGpu, strategy: str, texts: tuple[str, str]
) -> None:
    before, after = texts
    text = _original(bench).replace("dx = rstd * (", f"dx = rstd * {before}")
    gpu.slowdown = lambda work: 1.1 if after in work.text else 1.0
    with pytest.raises(Inapplicable, match=rf"{strategy} brings nothing to {BACKWARD} in backward: 0\.9\d\d×"):
        CATALOGUE[strategy].propose(ground(bench, text=text))

    gpu.slowdown = lambda work: 0.9 if after in work.text else 1.0
    proposal = CATALOGUE[strategy].propose(ground(bench, text=text))
    assert after in proposal.source
    (change,) = proposal.changes
    assert BACKWARD in change
    with pytest.raises(Inapplicable, match="no launched kernel"):
        CATALOGUE[strategy].propose(ground(bench, text=proposal.source, goal=Mode.BACKWARD))


@pytest.mark.parametrize("strategy", ARITHMETIC)
def test_a_kernel_without_such_arithmetic_is_left_alone(bench: Bench, gpu: SimulatedGpu, strategy: str) -> None:
    with pytest.raises(Inapplicable, match="no launched kernel"):
        CATALOGUE[strategy].propose(ground(bench, goal=Mode.BACKWARD))
    assert gpu.asked == []


# Strategies for one architecture

PAST_L1 = f"{BACKWARD}.PAST_L1"


def on_ampere(bench: Bench) -> Bench:
    return replace(bench, device=bench.device.model_copy(update={"name": "an A100", "capability": (8, 0)}))


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        ("past_l1", "compute capability 8.x have a use for it; Simulated H200 is of 9.0"),
        ("specialized_warps", "compute capability 10.x have a use for it; Simulated H200 is of 9.0"),
    ],
)
def test_a_strategy_for_other_gpus_says_in_a_line_which(
    bench: Bench, gpu: SimulatedGpu, strategy: str, told: str
) -> None:
    with pytest.raises(Inapplicable, match=told):
        CATALOGUE[strategy].propose(ground(bench))
    assert gpu.asked == []


def test_a_hopper_gpu_without_a_product_in_the_kernel_is_told_that_there_is_no_place(bench: Bench) -> None:
    with pytest.raises(Inapplicable, match="no launched kernel multiplies tiles that descriptors load"):
        CATALOGUE["specialized_warps_by_descriptor"].propose(ground(bench))


def test_a_switch_that_is_faster_is_turned_on_by_the_table_for_that_gpu(bench: Bench, gpu: SimulatedGpu) -> None:
    gpu.also_in_code = lambda work: work.settings.get(PAST_L1, 0)
    gpu.slowdown = lambda work: 0.8 if work.settings.get(PAST_L1) else 1.0

    proposal = CATALOGUE["past_l1"].propose(ground(on_ampere(bench)))

    assert "PAST_L1: tl.constexpr = 0" in proposal.source
    assert {band.settings["PAST_L1"] for table in proposal.tables for band in table.bands} == {1}
    assert [table.capability for table in proposal.tables] == [(8, 0)]
    assert 'cache_modifier=".cg"' not in proposal.source.partition(f"def {BACKWARD}")[0]


def test_a_switch_that_is_slower_makes_no_variant_although_other_settings_win(bench: Bench, gpu: SimulatedGpu) -> None:
    gpu.also_in_code = lambda work: work.settings.get(PAST_L1, 0)
    gpu.slowdown = lambda work: 1.2 if work.settings.get(PAST_L1) else 1.0

    with pytest.raises(Inapplicable, match=f"PAST_L1=1 is not the best of {BACKWARD} at any tuning case"):
        CATALOGUE["past_l1"].propose(ground(on_ampere(bench)))


def test_a_source_with_the_switch_already_is_left_as_it_is(bench: Bench, gpu: SimulatedGpu) -> None:
    gpu.also_in_code = lambda work: work.settings.get(PAST_L1, 0)
    gpu.slowdown = lambda work: 0.8 if work.settings.get(PAST_L1) else 1.0
    proposal = CATALOGUE["past_l1"].propose(ground(on_ampere(bench)))

    with pytest.raises(Inapplicable):
        CATALOGUE["past_l1"].propose(ground(on_ampere(bench), text=proposal.source))
