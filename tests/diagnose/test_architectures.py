"""What is for the GPUs of one architecture: recommended there alone, and after everything else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import Recommendation
from warpsmith.diagnose.architectures import audit_for, capabilities_told, strategies_for
from warpsmith.diagnose.bottleneck import classify
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.pricing import prices
from warpsmith.diagnose.recommend import recommend
from warpsmith.diagnose.roofline import baselines
from warpsmith.search.strategies import CATALOGUE
from warpsmith.search.strategies.base import Layer

BACKWARD = "_backward_kernel"
LOOP, TMA_LOOP = OpportunityKind.UNSPECIALIZED_LOOP, OpportunityKind.UNSPECIALIZED_TMA_LOOP


def observed(made: Any, capability: tuple[int, int], *kinds: OpportunityKind) -> Evidence:
    """A backward pass far below its ceiling on a GPU of that capability, with these opportunities."""
    case = made.case(8192, 4096)
    audit = made.audit(*(made.opportunity(kind, BACKWARD, 10 + line) for line, kind in enumerate(kinds)))
    timings = [made.timing_at(case, Mode.FORWARD, 0.96), made.timing_at(case, Mode.BACKWARD, 0.41)]
    evidence: Evidence = made.evidence(made.spec(case), *timings, audit=audit_for(audit, capability))
    return replace(evidence, device=evidence.device.model_copy(update={"capability": capability}))


def recommended(evidence: Evidence) -> tuple[Recommendation, ...]:
    rows = baselines(evidence.spec, evidence.timings, (), evidence.device)
    modes = [classify(mode, evidence, rows) for mode in (Mode.FORWARD, Mode.BACKWARD)]
    return recommend(evidence, modes, Mode.FULL, rows, prices(evidence, modes, rows))


@pytest.mark.parametrize(
    ("capability", "last"),
    [
        ((8, 0), ["past_l1"]),
        ((8, 9), ["past_l1"]),
        ((9, 0), ["specialized_warps_by_descriptor"]),
        ((10, 0), ["specialized_warps"]),
        ((12, 0), ["specialized_warps_by_descriptor"]),
        ((7, 5), []),
    ],
)
def test_each_gpu_gets_its_own_strategies_after_all_general_ones(
    made: Any, capability: tuple[int, int], last: list[str]
) -> None:
    """Although what they may bring is more than what hints may."""
    kinds = (LOOP, TMA_LOOP, OpportunityKind.STREAM_ONCE, OpportunityKind.UNPIPELINED_LOOP)

    names = [r.strategy for r in recommended(observed(made, capability, *kinds))]

    assert names == ["settings", "pipelined_loop", "cache_hints", *last]


def test_a_loop_that_pointers_load_is_an_opportunity_where_the_compiler_takes_it_apart(made: Any) -> None:
    assert [r.strategy for r in recommended(observed(made, (9, 0), LOOP))] == ["settings"]
    assert [r.strategy for r in recommended(observed(made, (10, 0), LOOP))] == ["settings", "specialized_warps"]


def test_what_warps_that_only_load_may_bring_is_chosen_and_says_so(made: Any) -> None:
    evidence = observed(made, (10, 0), TMA_LOOP)
    rows = baselines(evidence.spec, evidence.timings, (), evidence.device)
    modes = [classify(mode, evidence, rows) for mode in (Mode.FORWARD, Mode.BACKWARD)]

    (price,) = prices(evidence, modes, rows)

    assert "at most 10% of the kernel's time (chosen)" in price.gains[0].basis
    assert "measured on no GPU" in price.gains[0].basis
    assert recommended(evidence)[1].predicted_low == 1.0 < recommended(evidence)[1].predicted_high


def test_the_architecture_layer_is_what_is_bound_to_gpus_and_takes_up_the_same() -> None:
    bound = {name: kinds for major in (8, 9, 10, 12) for name, kinds in strategies_for((major, 0)).items()}
    cards = [strategy.card for strategy in CATALOGUE.values() if strategy.card.layer is Layer.ARCHITECTURE]

    assert {card.name: card.takes_up for card in cards} == bound
    assert all(card.expected.startswith("not measured") for card in cards)
    assert capabilities_told("specialized_warps_by_descriptor") == "9.x or 12.x"
