"""The profiles without a GPU: what is profiled, and what is made of profiles whose figures are known."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.contracts.case import Case, DType, Mode, Role
from warpsmith.contracts.counters import CounterRow, Counters
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.errors import PreflightError, UsageError
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import Bottleneck, PricedOpportunity, Profile
from warpsmith.contracts.target import TargetSpec
from warpsmith.contracts.verdict import Interval
from warpsmith.measure.worker.protocol import Describe, answer_of
from warpsmith.project.config import load_config
from warpsmith.project.discover import list_targets
from warpsmith.report import quantities
from warpsmith.stages.preflight import preflight_without_gpu
from warpsmith.stages.session import target_ref, worker_without_gpu
from warpsmith.workspace.documents import read_document

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmark"))

import profiles  # noqa: E402
from liger.installed import MISSING, installed_folder  # noqa: E402
from profiling.anew import diagnosed_anew  # noqa: E402
from profiling.claims import (  # noqa: E402
    claims,
    disagreements_explained,
    liger_predicted,
    near_peak_first,
    share_of_ceiling,
)
from profiling.gains import PROGRAMS, ZEROED, Compared, read_grid  # noqa: E402
from profiling.kept import Kept, path_of, read_kept, write_kept  # noqa: E402
from profiling.ncu_rule import by_ncu  # noqa: E402
from profiling.scratch import ProfileFailed, scratch_project  # noqa: E402
from profiling.summary import write_summary  # noqa: E402

GRID = read_grid()
LONG = "32768x2048-bf16"
#: Microseconds at LONG that the synthetic profiles tell of Liger's backward pass: what the grid has.
LONG_US = 305.98


@pytest.fixture(scope="module")
def base() -> Profile:
    """The recorded profile: near peak forward, where ncu's rule says memory bound; latency bound backward."""
    return read_document(ROOT / "optimization" / "rms_norm" / "profile.json", Profile)


def priced(kind: OpportunityKind, gain_us: float, case: str = LONG) -> PricedOpportunity:
    """An opportunity of the backward pass that is expected to gain that much of LONG_US."""
    return PricedOpportunity(
        opportunity=Opportunity(kind=kind, function="rms_norm_backward", line=1, what="what", why="why"),
        mode=Mode.BACKWARD,
        low_us=0.0,
        high_us=gain_us,
        predicted_low=1.0,
        predicted_high=1.3,
        basis="a rule",
        case=case,
        case_predicted_high=LONG_US / (LONG_US - gain_us),
    )


def liger(base: Profile, kernel: str, *opportunities: PricedOpportunity) -> Kept:
    rows = tuple(
        row.model_copy(update={"time_ms": Interval(value=LONG_US / 1e3, low=0.3, high=0.31)})
        if (row.provider, row.mode) == (ORIGINAL, Mode.BACKWARD)
        else row
        for row in base.baselines
    )
    return kept_of(base.model_copy(update={"baselines": rows, "opportunities": opportunities}), kernel)


def kept_of(profile: Profile, kernel: str = "rms_norm") -> Kept:
    of = "liger-kernel 0.8.5" if kernel.startswith("liger_") else "warpsmith 0.1"
    return Kept(kernel=kernel, of=of, elapsed_s=31.5, profile=profile)


@pytest.fixture
def sound(base: Profile) -> tuple[Kept, ...]:
    """Of these everything holds. Measured at LONG: 43 µs by not zeroing, 136 µs and 135 µs by more programs."""
    return (
        liger(base, "liger_rms_norm", priced(ZEROED, 40.0), priced(PROGRAMS, 100.0)),
        liger(base, "liger_rms_norm_in_place", priced(PROGRAMS, 100.0)),
        kept_of(base),
    )


def with_mode(kept: Kept, mode: Mode, **changed: Any) -> Kept:
    modes = tuple(m.model_copy(update=changed) if m.mode is mode else m for m in kept.profile.modes)
    return kept.model_copy(update={"profile": kept.profile.model_copy(update={"modes": modes})})


# What must hold


def test_sound_profiles_hold_everything(sound: tuple[Kept, ...]) -> None:
    near, differing, predicted = claims(sound, GRID)
    assert [near.failing, differing.failing, predicted.failing] == [(), (), ()]
    assert near.found == "3 of 9 passes reach it; of 0 of these ncu's rule says latency bound"
    assert differing.found == "3 of 6 counted passes differ; 3 others have no counters"
    assert predicted.found == "predicted over measured: 0.92, 0.74, 0.74"


def test_a_pass_at_its_peak_that_is_called_otherwise_is_found_out(sound: tuple[Kept, ...]) -> None:
    wrong = with_mode(sound[2], Mode.FORWARD, bottleneck=Bottleneck.MEMORY_BOUND)
    share = quantities.percent(sound[2].profile.mode_profile(Mode.FORWARD).share_of_ceiling)
    assert near_peak_first((wrong,)).failing == (f"rms_norm forward: {share} of the ceiling, called memory bound",)


def test_a_pass_below_its_peak_that_is_called_near_it_is_found_out(sound: tuple[Kept, ...]) -> None:
    wrong = with_mode(sound[2], Mode.BACKWARD, bottleneck=Bottleneck.NEAR_PEAK)
    share = quantities.percent(sound[2].profile.mode_profile(Mode.BACKWARD).share_of_ceiling)
    assert near_peak_first((wrong,)).failing == (f"rms_norm backward: {share} of the ceiling, called near peak",)


def test_the_share_is_that_of_the_baselines_whatever_the_profile_says_it_is(sound: tuple[Kept, ...]) -> None:
    wrong = with_mode(sound[2], Mode.BACKWARD, bottleneck=Bottleneck.NEAR_PEAK, share_of_ceiling=0.95)
    assert not near_peak_first((wrong,)).holds


def beyond(kept: Kept, bottleneck: Bottleneck) -> Kept:
    """Its pass forward as if compute-heavy, at twice its matmul ceiling in one case."""
    mode = kept.profile.mode_profile(Mode.FORWARD)
    first, *rest = mode.headrooms
    assert first.time_ms is not None
    above = first.model_copy(update={"bound": "matmul", "least_ms": 2 * first.time_ms})
    return with_mode(kept, Mode.FORWARD, headrooms=(above, *rest), bottleneck=bottleneck)


def test_a_compute_heavy_pass_far_above_its_ceiling_is_not_near_its_peak(sound: tuple[Kept, ...]) -> None:
    called = near_peak_first((beyond(sound[2], Bottleneck.NEAR_PEAK),))
    assert called.failing == ("rms_norm forward: called near peak by a ceiling that does not fit its operands",)

    doubted = near_peak_first((beyond(sound[2], Bottleneck.LATENCY_BOUND),))
    assert doubted.holds
    assert doubted.found.endswith("; not known of rms_norm forward, profiled before its ceiling was known")


def test_a_case_above_its_ceiling_makes_up_for_nothing_at_another(sound: tuple[Kept, ...]) -> None:
    profile, mode = sound[2].profile, sound[2].profile.mode_profile(Mode.FORWARD)
    above = tuple(
        row.model_copy(update={"share_of_ceiling": 1.5 if row.share_of_ceiling else None}) for row in profile.baselines
    )
    assert share_of_ceiling(profile.model_copy(update={"baselines": above}), mode) == pytest.approx(1.0)


def test_a_pass_that_was_not_timed_holds_nothing(sound: tuple[Kept, ...]) -> None:
    untimed = sound[2].profile.model_copy(update={"baselines": ()})
    assert near_peak_first((kept_of(untimed),)).failing[0] == "rms_norm forward: no case was timed, called near peak"


def test_a_class_that_differs_from_ncu_s_without_a_reason_is_found_out(sound: tuple[Kept, ...]) -> None:
    silent = with_mode(sound[2], Mode.FORWARD, ncu_disagreement=None)
    (told,) = disagreements_explained((silent,)).failing
    assert told == "rms_norm forward: ncu's rule says memory bound, the profile near peak, and no reason is given"


def test_a_reason_where_nothing_differs_is_found_out(sound: tuple[Kept, ...]) -> None:
    talkative = with_mode(sound[2], Mode.BACKWARD, ncu_disagreement="because")
    (told,) = disagreements_explained((talkative,)).failing
    assert told == "rms_norm backward: ncu's rule says latency bound, the profile latency bound, and a reason is given"


def test_profiles_without_counters_explain_nothing(sound: tuple[Kept, ...]) -> None:
    blind = kept_of(sound[2].profile.model_copy(update={"counters": ()}))
    assert disagreements_explained((blind,)).failing == ("no pass was counted",)


@pytest.mark.parametrize(
    ("opportunities", "told"),
    [
        ((priced(PROGRAMS, 100.0),), "it is not among the opportunities of the backward pass"),
        ((priced(ZEROED, 100.0), priced(PROGRAMS, 100.0)), "off by 2.30×"),
        ((priced(ZEROED, 20.0), priced(PROGRAMS, 100.0)), "off by 0.46×"),
        ((priced(ZEROED, 40.0, "1x1-bf16"), priced(PROGRAMS, 100.0)), "nothing was measured at that case"),
    ],
)
def test_an_opportunity_that_is_missing_or_priced_wrong_is_found_out(
    base: Profile, sound: tuple[Kept, ...], opportunities: tuple[PricedOpportunity, ...], told: str
) -> None:
    found = liger_predicted((liger(base, "liger_rms_norm", *opportunities), *sound[1:]), GRID)
    assert found.failing == (f"liger_rms_norm, needless initialisation: {told}",)


def test_a_gain_that_was_predicted_where_none_is_to_be_had_is_found_out(base: Profile, sound: tuple[Kept, ...]) -> None:
    wide = liger(base, "liger_rms_norm_in_place", priced(PROGRAMS, 50.0, "8192x8192-bf16"))
    assert liger_predicted((sound[0], wide), GRID).failing == (
        "liger_rms_norm_in_place, one program per sm: it brought nothing there",
    )


def test_a_kernel_that_was_not_profiled_holds_nothing(sound: tuple[Kept, ...]) -> None:
    assert liger_predicted(sound[1:], GRID).failing == (
        "liger_rms_norm, needless initialisation: it was not profiled",
        "liger_rms_norm, one program per sm: it was not profiled",
    )


@pytest.mark.parametrize(
    ("kind", "kernel", "case", "before_us", "after_us"),
    [
        (ZEROED, "liger_rms_norm", "8192x8192-bf16", 181.59, 139.16),
        (ZEROED, "liger_rms_norm", "4096x16384-bf16", 171.77, 129.65),
        (PROGRAMS, "liger_rms_norm", "8192x4096-bf16", 120.63, 95.5),
        (PROGRAMS, "liger_rms_norm", LONG, 305.98, 170.24),
        (PROGRAMS, "liger_rms_norm", "8192x8192-bf16", 181.59, 181.59),
        (PROGRAMS, "liger_rms_norm_in_place", LONG, 262.5, 127.31),
    ],
)
def test_a_measured_gain_is_of_one_change_with_all_else_as_liger_has_it(
    kind: OpportunityKind, kernel: str, case: str, before_us: float, after_us: float
) -> None:
    assert GRID.gain(kind, kernel, case) == pytest.approx((before_us, after_us))


def test_a_gain_that_was_not_measured_is_none() -> None:
    assert GRID.gain(ZEROED, "liger_rms_norm", "2048x2048-bf16") is None
    assert GRID.gain(ZEROED, "liger_rms_norm", "8192x8192-fp16") is None


def test_all_numbers_of_programs_count_at_a_shape_those_that_lose_too() -> None:
    saved = GRID.gains(PROGRAMS, "liger_rms_norm", (8192, 8192))
    assert [(programs, round(us, 1)) for programs, us in saved] == [(2, -8.6), (4, -20.9), (8, -24.9)]
    assert [round(us, 1) for _, us in GRID.gains(ZEROED, "liger_rms_norm", (8192, 8192))] == [42.4]


@pytest.mark.parametrize(
    ("predicted_us", "measured_us", "wrong"),
    [
        ((5.0, 9.0), (-1.0, -2.0), True),
        ((0.0, 0.0), (1.0, 2.0), True),
        ((0.0, 0.0), (-1.0, 2.0), False),
        ((5.0, 9.0), (-1.0, 2.0), False),
    ],
)
def test_a_gain_where_all_lost_and_none_where_all_won_are_the_wrong_way(
    predicted_us: tuple[float, float], measured_us: tuple[float, ...], wrong: bool
) -> None:
    measured = tuple(enumerate(measured_us, start=2))
    assert Compared("liger_rms_norm", PROGRAMS, (8192, 8192), predicted_us, measured).wrong_way is wrong


def counted(*launches: tuple[float, float, float]) -> Counters:
    """Of launches that each took so long, in ns, at that compute and memory throughput, in percent."""
    rows = tuple(
        CounterRow(
            kernel="k",
            grid="1",
            block="1",
            metrics={
                "gpu__time_duration.sum": duration,
                "sm__throughput.avg.pct_of_peak_sustained_elapsed": compute,
                "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": memory,
            },
        )
        for duration, compute, memory in launches
    )
    return Counters(case=Case(axes={"M": 1, "N": 1}, dtype=DType.BFLOAT16), mode=Mode.FORWARD, rows=rows)


@pytest.mark.parametrize(
    ("launches", "rule"),
    [
        (((1.0, 36.0, 57.0),), Bottleneck.LATENCY_BOUND),
        (((1.0, 59.9, 59.9),), Bottleneck.LATENCY_BOUND),
        (((1.0, 64.0, 77.0),), Bottleneck.MEMORY_BOUND),
        (((1.0, 80.0, 70.0),), Bottleneck.COMPUTE_BOUND),
        (((1.0, 70.0, 79.0),), Bottleneck.BALANCED),
        # the short launch hardly counts
        (((99.0, 10.0, 20.0), (1.0, 10.0, 90.0)), Bottleneck.LATENCY_BOUND),
    ],
)
def test_ncu_s_rule_by_hand(base: Profile, launches: tuple[tuple[float, float, float], ...], rule: Bottleneck) -> None:
    profile = base.model_copy(update={"counters": (counted(*launches),)})
    assert by_ncu(profile, profile.mode_profile(Mode.FORWARD)) is rule
    assert by_ncu(profile, profile.mode_profile(Mode.BACKWARD)) is None


def test_where_all_cases_are_faster_than_the_ceiling_the_rule_is_asked_of_the_first_case_not_of_the_first_counted(
    base: Profile,
) -> None:
    first, second = (
        counters.model_copy(update={"case": Case(axes={"M": size, "N": size}, dtype=DType.BFLOAT16)})
        for size, counters in ((2048, counted((1.0, 20.0, 44.0))), (8192, counted((1.0, 20.0, 88.0))))
    )
    mode = base.mode_profile(Mode.FORWARD)

    def asked(*headrooms_us: float) -> Bottleneck | None:
        told = {first.case.name: headrooms_us[0], second.case.name: headrooms_us[1]}
        left = tuple(
            mode.headrooms[0].model_copy(update={"case": case, "headroom_us": us, "weight": 1.0})
            for case, us in told.items()
        )
        profile = base.model_copy(update={"counters": (second, first)})
        return by_ncu(profile, mode.model_copy(update={"headrooms": left}))

    assert [asked(0.0, 0.0), asked(0.0, 0.1)] == [Bottleneck.LATENCY_BOUND, Bottleneck.MEMORY_BOUND]


def test_a_reason_that_names_another_class_than_ncu_s_rule_is_found_out(sound: tuple[Kept, ...]) -> None:
    mistaken = with_mode(sound[2], Mode.FORWARD, ncu_disagreement="ncu's rule says latency-bound; it is near its peak")
    (told,) = disagreements_explained((mistaken,)).failing
    assert told == "rms_norm forward: ncu's rule says memory bound, the reason given that it says latency bound"


# What is made of them


def test_a_summary_is_a_page_and_a_plot_that_say_what_the_profiles_say(
    sound: tuple[Kept, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert profiles._summarize(tmp_path) == 1 and "nothing is profiled in" in capsys.readouterr().err
    for each in sound:
        write_kept(tmp_path, each)
    assert profiles._summarize(tmp_path) == 0
    told = (tmp_path / "README.md").read_text(encoding="utf-8")
    lines = told.splitlines()
    assert (tmp_path / "profiles.png").read_bytes().startswith(b"\x89PNG")
    assert sum(": **yes** (" in line for line in lines) == 3 and "**no**" not in told
    assert f"Not profiled: {', '.join(k for k in profiles.KERNELS if k not in {s.kernel for s in sound})}." in lines
    (passed,) = [line for line in lines if line.startswith("| rms_norm | forward |")]
    forward = sound[2].profile.mode_profile(Mode.FORWARD)
    figures = f"{quantities.percent(forward.share_of_ceiling)} | {quantities.microseconds(forward.headroom_us)}"
    assert passed.startswith(f"| rms_norm | forward | near peak | {figures} | memory bound, differs | ")
    (backward,) = [line for line in lines if line.startswith("| liger_rms_norm | backward |")]
    assert backward.endswith("| latency bound | needless initialisation 1.30×, one program per sm 1.30× |")
    assert (
        "| liger_rms_norm | one program per sm | 32768×2048 bf16 | 100.0 µs | 135.7 µs (306.0 µs to 170.2 µs) | 0.74 |"
        in lines
    )
    assert any(line.startswith("| rms_norm | full | settings | 1.") for line in lines)
    assert any(line.startswith("- rms_norm, forward: ncu's rule reads compute 64%") for line in lines)


def test_where_no_gain_is_predicted_the_summary_names_nothing_to_do(sound: tuple[Kept, ...], tmp_path: Path) -> None:
    profile = sound[2].profile
    nothing = tuple(r.model_copy(update={"predicted_high": 1.004}) for r in profile.recommendations)
    at_peak = tuple(m.model_copy(update={"bottleneck": Bottleneck.NEAR_PEAK}) for m in profile.modes)
    stuck = profile.model_copy(update={"recommendations": nothing})
    write_kept(tmp_path, kept_of(stuck, "swiglu"))
    without = (nothing[0].model_copy(update={"lines": ()}),)
    write_kept(tmp_path, kept_of(stuck.model_copy(update={"recommendations": without}), "geglu"))
    write_kept(tmp_path, kept_of(stuck.model_copy(update={"modes": at_peak}), "softmax"))
    assert write_summary(tmp_path, profiles.KERNELS)
    told = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "| swiglu | full | settings, to make sure | – | " in told
    assert "| geglu | full | no strategy applies | – | " in told
    assert "| softmax | full | nothing: stop here | – | " in told


def test_opportunities_that_bring_next_to_nothing_are_left_out(sound: tuple[Kept, ...], tmp_path: Path) -> None:
    profile = sound[2].profile
    tiny = tuple(o.model_copy(update={"predicted_high": 1.005}) for o in profile.opportunities)
    assert any(o.mode is Mode.BACKWARD for o in tiny)
    write_kept(tmp_path, kept_of(profile.model_copy(update={"opportunities": tiny}), "swiglu"))
    assert write_summary(tmp_path, profiles.KERNELS)
    told = (tmp_path / "README.md").read_text(encoding="utf-8")
    (backward,) = [line for line in told.splitlines() if line.startswith("| swiglu | backward |")]
    assert backward.endswith("| none above 0.5% |")
    assert "apart take much longer" not in told


def test_a_backward_pass_that_computes_what_the_call_computes_once_is_told(
    sound: tuple[Kept, ...], tmp_path: Path
) -> None:
    profile = sound[2].profile
    slow = tuple(
        m.model_copy(
            update={"headrooms": tuple(h.model_copy(update={"time_ms": by * (h.time_ms or 0.0)}) for h in m.headrooms)}
        )
        for m, by in ((m, 3.0 if m.mode is Mode.BACKWARD else 1.0) for m in profile.modes)
    )
    write_kept(tmp_path, kept_of(profile.model_copy(update={"modes": slow}), "swiglu"))
    assert write_summary(tmp_path, profiles.KERNELS)
    told = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "apart take much longer than the whole call of swiglu (" in told


def test_a_pass_whose_ceiling_was_not_known_is_named_to_be_measured_anew(
    sound: tuple[Kept, ...], tmp_path: Path
) -> None:
    doubted = beyond(sound[2], Bottleneck.LATENCY_BOUND)
    rows = tuple(row.model_copy(update={"share_of_ceiling": None}) for row in doubted.profile.baselines)
    profile = doubted.profile.model_copy(update={"baselines": rows})
    write_kept(tmp_path, doubted.model_copy(update={"profile": profile}))
    assert write_summary(tmp_path, profiles.KERNELS)
    told = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "ceiling of its operands was known, to be measured anew: rms_norm forward. " in told
    assert "| rms_norm | forward | latency bound | not known | " in told


def test_a_claim_that_does_not_hold_is_told_with_what_fails(sound: tuple[Kept, ...], tmp_path: Path) -> None:
    for each in (*sound[:2], with_mode(sound[2], Mode.FORWARD, ncu_disagreement=None)):
        write_kept(tmp_path, each)
    assert write_summary(tmp_path, profiles.KERNELS)
    told = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert told.count(": **no** (") == 1
    assert "  - rms_norm forward: ncu's rule says memory bound, the profile near peak, and no reason is given" in told


def test_what_is_kept_is_read_back_whole_and_is_the_same_bytes_again(sound: tuple[Kept, ...], tmp_path: Path) -> None:
    for _ in range(2):
        write_kept(tmp_path, sound[2])
        kept_bytes = path_of(tmp_path, "rms_norm").read_bytes()
    write_kept(tmp_path, sound[0])
    assert read_kept(tmp_path, profiles.KERNELS) == (sound[0], sound[2])
    assert path_of(tmp_path, "rms_norm").read_bytes() == kept_bytes
    assert len(kept_bytes) < 60_000


def test_profiles_of_two_machines_or_of_unknown_kernels_are_not_put_on_one_page(
    sound: tuple[Kept, ...], tmp_path: Path
) -> None:
    profile = sound[2].profile
    environment = profile.device.environment.model_copy(update={"gpu_name": "NVIDIA B200"})
    device = profile.device.model_copy(update={"environment": environment})
    write_kept(tmp_path, kept_of(profile.model_copy(update={"device": device}), "softmax"))
    write_kept(tmp_path, sound[2])
    with pytest.raises(UsageError, match="softmax was not profiled as rms_norm was: gpu_name"):
        write_summary(tmp_path, profiles.KERNELS)
    with pytest.raises(UsageError, match="profiles of kernels that are not there: softmax"):
        write_summary(tmp_path, ("rms_norm",))
    assert not (tmp_path / "README.md").exists()


def test_what_was_measured_is_diagnosed_anew_by_the_rules_of_today(base: Profile) -> None:
    """The recorded profile is of today's rules: it comes out the same, whatever is written into its diagnosis."""
    wrong = tuple(m.model_copy(update={"bottleneck": Bottleneck.BALANCED, "headroom_us": 0.0}) for m in base.modes)
    anew = diagnosed_anew(base.model_copy(update={"modes": wrong, "opportunities": (), "recommendations": ()}))

    assert [(m.mode, m.bottleneck, m.conclusion) for m in anew.modes] == [
        (m.mode, m.bottleneck, m.conclusion) for m in base.modes
    ]
    assert [m.headroom_us for m in anew.modes] == [pytest.approx(m.headroom_us) for m in base.modes]
    assert [p.basis for p in anew.opportunities] == [p.basis for p in base.opportunities]
    assert [r.why for r in anew.recommendations] == [r.why for r in base.recommendations]
    assert (anew.counters, anew.launches) == (base.counters, base.launches)


# What is profiled


@dataclass
class Answering:
    """A project whose profiles take as long as they are told to, on a clock of its own."""

    took_s: Mapping[str, float | None]
    profile: Profile
    now_s: float = 0.0
    begun: list[str] = field(default_factory=list)

    def profiled(self, kernel: str, log: Path) -> Kept:
        self.begun.append(kernel)
        elapsed_s = self.took_s[kernel]
        if elapsed_s is None:
            raise ProfileFailed("it does not launch")
        self.now_s += elapsed_s
        return kept_of(self.profile, kernel).model_copy(update={"elapsed_s": elapsed_s})


def test_each_kernel_is_profiled_once_and_a_failure_stops_no_other(
    base: Profile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project: Any = Answering({"geglu": 30.0, "matmul": None, "softmax": 30.0}, base)
    assert not profiles.measure(("geglu", "matmul", "softmax"), tmp_path, project)
    assert project.begun == ["geglu", "matmul", "softmax"]
    assert "matmul: it does not launch" in capsys.readouterr().err
    project.took_s = {"matmul": 30.0}
    assert profiles.measure(("geglu", "matmul", "softmax"), tmp_path, project)
    assert project.begun[3:] == ["matmul"]
    assert len(read_kept(tmp_path, profiles.KERNELS)) == 3


def test_a_profile_that_only_predicts_is_not_kept(
    base: Profile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    predicted = base.model_copy(update={"origin": Origin(kind=OriginKind.PREDICTED)})
    project: Any = Answering({"geglu": 30.0}, predicted)
    assert not profiles.measure(("geglu",), tmp_path, project)
    assert "geglu: nothing was measured" in capsys.readouterr().err
    assert read_kept(tmp_path, profiles.KERNELS) == ()


def test_no_profile_is_begun_that_might_not_end_in_time(
    base: Profile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project: Any = Answering({"geglu": 60.0, "matmul": 30.0, "softmax": 40.0, "swiglu": 40.0}, base)
    names = ("geglu", "matmul", "softmax", "swiglu")
    assert profiles.measure(names, tmp_path, project, within_s=155.0, clock=lambda: project.now_s)
    assert project.begun == ["geglu", "matmul", "softmax"]
    assert "not begun for want of time: swiglu" in capsys.readouterr().err


@pytest.fixture(scope="module")
def project() -> Iterator[Any]:
    with scratch_project(ROOT, ("vector_add", "liger_softmax")) as found:
        yield found


def test_a_target_is_profiled_at_its_tuning_cases_beside_nobody(project: Any) -> None:
    targets = list_targets(project.root, load_config(project.root))
    assert sorted(targets) == ["liger_softmax", "vector_add"]
    with worker_without_gpu(project.root) as worker:
        target = target_ref(project.root, targets["vector_add"])
        spec = answer_of(worker, Describe(target=target), TargetSpec)
    assert (spec.providers, spec.missing_providers) == ((), {})
    assert len(spec.cases) == 5 and {case.role for case in spec.cases} == {Role.TUNING}
    preflight_without_gpu(project.root, targets["vector_add"])


@pytest.mark.skipif(installed_folder() is None, reason=MISSING)
def test_liger_s_files_lie_in_the_scratch_project_and_its_target_launches(project: Any) -> None:
    targets = list_targets(project.root, load_config(project.root))
    preflight_without_gpu(project.root, targets["liger_softmax"])
    assert not (ROOT / "liger_kernel").exists()


def test_a_profile_that_cannot_be_made_says_why(project: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ProfileFailed, match=r"warpsmith profile ended with 2:(.|\n)*no target for kernel 'softmax'"):
        project.profiled("softmax", tmp_path / "softmax.log")
    without = type(project)(project.root, has_liger=False)
    with pytest.raises(PreflightError, match=MISSING):
        without.profiled("liger_softmax", tmp_path / "liger_softmax.log")


# What is committed

COMMITTED = read_kept(profiles.DATA, profiles.KERNELS)
needs_data = pytest.mark.skipif(not COMMITTED, reason="no profiles are committed in benchmark/data/profiles yet")


@needs_data
def test_every_kernel_of_the_library_and_of_liger_is_profiled() -> None:
    assert sorted(each.kernel for each in COMMITTED) == sorted(profiles.KERNELS)


@needs_data
def test_the_committed_page_is_what_the_committed_profiles_make(tmp_path: Path) -> None:
    for path in profiles.DATA.glob("*.json.gz"):
        shutil.copy(path, tmp_path)
    assert write_summary(tmp_path, profiles.KERNELS)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == (profiles.DATA / "README.md").read_text("utf-8")
    assert (profiles.DATA / "profiles.png").is_file()


@needs_data
def test_what_must_hold_holds_of_the_committed_profiles() -> None:
    assert [failing for claim in claims(COMMITTED, GRID) for failing in claim.failing] == []
