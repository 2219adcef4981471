"""A profile is assembled whole from one run's records."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.measurement import CounterRow, Counters
from warpsmith.contracts.profile import Bottleneck, Profile
from warpsmith.contracts.request import Request
from warpsmith.diagnose.profile import assemble

REQUEST = Request(kernel="norm", run_id="r1", created_at="2026-11-29T00:00:00Z", goal=Mode.BACKWARD)
ORIGIN = Origin(kind=OriginKind.MEASURED, gpu="NVIDIA H200", date="2026-11-29")


def profiled(made: Any, **changes: Any) -> Profile:
    case = made.case(8192, 4096)
    timings = [made.timing_at(case, Mode.FORWARD, 0.96), made.timing_at(case, Mode.BACKWARD, 0.41)]
    return assemble(made.evidence(made.spec(case), *timings, **changes), REQUEST, ORIGIN)


def test_a_profile_has_a_diagnosis_of_every_mode_and_survives_json(made: Any) -> None:
    profile = profiled(made)

    assert (profile.kernel, profile.run_id, profile.goal, profile.source) == ("norm", "r1", Mode.BACKWARD, "norm.py")
    assert [(m.mode, m.bottleneck) for m in profile.modes] == [
        (Mode.FORWARD, Bottleneck.NEAR_PEAK),
        (Mode.BACKWARD, Bottleneck.GRID_TOO_SMALL),
    ]
    assert len(profile.baselines) == 2
    assert profile.recommendations[0].strategy == "settings"
    assert Profile.model_validate_json(profile.model_dump_json()) == profile


@pytest.mark.parametrize(("rows", "tier"), [(1, "ncu counters"), (0, "kernel durations")])
def test_the_tier_is_the_best_evidence_that_was_reached(made: Any, rows: int, tier: str) -> None:
    row = CounterRow(kernel="k", grid="", block="", metrics={})
    counters = Counters(case=made.case(8192, 4096), mode=Mode.FORWARD, rows=(row,) * rows, unavailable=None)

    assert profiled(made, counters=(counters,)).evidence_tier == tier
