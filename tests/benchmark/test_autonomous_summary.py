"""What is made of optimized kernels whose figures are known: claims, page, plot and patches. Needs no GPU."""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from warpsmith.contracts.case import Case, DType, Mode, Role
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.measurement import OPTIMIZED, ORIGINAL, Block, Timing, TimingMethod
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.variant import VariantStatus
from warpsmith.contracts.verdict import Interval, Outcome, Verdict
from warpsmith.workspace.documents import read_document

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmark"))

import autonomous  # noqa: E402
from optimizing.claims import claims, faster, none_slower, nothing_where_nothing_is  # noqa: E402
from optimizing.fixed import FixedCase, FixedCases, FixedKernel, read_fixed  # noqa: E402
from optimizing.kept import Optimized, Tried, read_kept, write_kept  # noqa: E402
from optimizing.rows import rows_of  # noqa: E402
from optimizing.summary import write_summary  # noqa: E402

NARROW, WIDE = "8192x4096-bf16", "4096x16384-bf16"
FORWARD, BACKWARD, FULL = Mode.FORWARD, Mode.BACKWARD, Mode.FULL
Speedups = Mapping[tuple[Mode, str], float]


@pytest.fixture(scope="module")
def device() -> DeviceFacts:
    return read_document(ROOT / "optimization" / "rms_norm" / "profile.json", Profile).device


@pytest.fixture
def fixed(device: DeviceFacts) -> FixedCases:
    """One kernel of which two passes count, and one that is near its ceiling everywhere."""
    shares = {
        "liger_rms_norm": {(FORWARD, NARROW): 0.97, (BACKWARD, NARROW): 0.41, (BACKWARD, WIDE): 0.55},
        "liger_swiglu": {(FORWARD, NARROW): 0.95, (BACKWARD, NARROW): 0.8},
    }
    return FixedCases(
        line=0.8,
        environment=device.environment,
        kernels=tuple(
            FixedKernel(
                kernel=kernel, of="liger-kernel 0.8.5", source_sha256="1" * 64, profile_sha256="0" * 64,
                measured_at="2026-11-30T18:59:29+00:00",
                cases=tuple(
                    FixedCase(mode=mode, case=case, share=share, counts=share < 0.8)
                    for (mode, case), share in cases.items()
                ),
            )
            for kernel, cases in shares.items()
        ),
    )  # fmt: skip


def timing(mode: Mode, case: str, speedup: float) -> Timing:
    """Twelve rounds around 0.1 ms, which scatter by 0.1%."""
    rows, width = case.removesuffix("-bf16").split("x")
    draw = random.Random(f"{mode} {case} {speedup}")
    blocks = tuple(
        Block(contender=name, round=number, samples_ms=(ms * (1 + draw.gauss(0.0, 0.001)),))
        for number in range(12)
        for name, ms in ((ORIGINAL, 0.1), (OPTIMIZED, 0.1 / speedup))
    )
    return Timing(
        case=Case(axes={"M": int(rows), "N": int(width)}, dtype=DType.BFLOAT16, role=Role.TUNING), mode=mode,
        method=TimingMethod.GRAPH, calls_per_sample=10, input_sets=2, same_addresses=True, blocks=blocks,
    )  # fmt: skip


def verdict(outcome: Outcome, reason: str, goal: float) -> Verdict:
    interval = Interval(value=goal, low=goal - 0.002, high=goal + 0.002)
    return Verdict(outcome=outcome, reasons=(reason,), goal_mode=FULL, goal=interval)


def tried(number: int, outcome: Outcome, reason: str) -> Tried:
    return Tried(
        number=number, strategy="settings_sweep", based_on=0, predicted_low=1.0, predicted_high=1.6,
        measured=Interval(value=1.41, low=1.408, high=1.412), status=VariantStatus.JUDGED, outcome=outcome,
        reasons=(reason, "and another"),
    )  # fmt: skip


def unchanged(device: DeviceFacts, kernel: str = "liger_swiglu") -> Optimized:
    return Optimized(
        kernel=kernel, of="liger-kernel 0.8.5", warpsmith="0.1.0", run_id="r", sittings_s=(300.0, 41.0),
        device=device, goal=FULL, source_sha256="1" * 64, noise_floor=0.001,
        stop_reason="two measured variants in a row brought under 1%",
        tried=(tried(1, Outcome.REJECTED, "1.002 is no win"),),
    )  # fmt: skip


def won(device: DeviceFacts, speedups: Speedups, confirmed: Outcome = Outcome.ACCEPTED) -> Optimized:
    return unchanged(device, "liger_rms_norm").model_copy(
        update={
            "tried": (tried(1, Outcome.ACCEPTED, "faster"),),
            "winner": 1,
            "winner_sha256": "2" * 64,
            "changes": ("rms_norm_backward: n_cols 4096: num_warps=4 | 8",),
            "diff": "--- original\n+++ v1\n",
            "searched": verdict(Outcome.ACCEPTED, "faster", 1.41),
            "confirmed": verdict(confirmed, "as the samples say", 1.40),
            "timings": tuple(timing(mode, case, speedup) for (mode, case), speedup in speedups.items()),
        }
    )


GAINS: Speedups = {(FORWARD, NARROW): 1.0, (BACKWARD, NARROW): 1.5, (BACKWARD, WIDE): 1.2, (FULL, NARROW): 1.3}


def both(device: DeviceFacts, speedups: Speedups = GAINS) -> dict[str, Optimized]:
    return {"liger_rms_norm": won(device, speedups), "liger_swiglu": unchanged(device)}


def test_the_mean_is_over_the_cases_that_count_and_no_others(device: DeviceFacts, fixed: FixedCases) -> None:
    claim = faster(rows_of(both(device), fixed), fixed)
    assert claim.holds
    assert claim.found.startswith("2 of 5 cases and passes, of 1 kernels: 1.34")  # the root of 1.5 times 1.2
    poor = both(device, {**GAINS, (FORWARD, NARROW): 9.0, (BACKWARD, WIDE): 1.0})
    (failing,) = faster(rows_of(poor, fixed), fixed).failing
    assert failing.startswith("1.22") and failing.endswith(" over those that were measured")


def test_a_case_whose_kernel_stays_as_it_is_counts_as_one(device: DeviceFacts, fixed: FixedCases) -> None:
    rms_norm, swiglu = fixed.kernels
    counts = tuple(case.model_copy(update={"counts": True}) for case in swiglu.cases)
    more = fixed.model_copy(update={"kernels": (rms_norm, swiglu.model_copy(update={"cases": counts}))})
    claim = faster(rows_of(both(device), more), more)
    assert claim.found.startswith("4 of 5 cases and passes, of 2 kernels: 1.15")  # the fourth root of 1.5 times 1.2
    assert not claim.holds


def test_a_winner_that_was_not_confirmed_wins_nothing(device: DeviceFacts, fixed: FixedCases) -> None:
    kernels = {**both(device), "liger_rms_norm": won(device, GAINS, Outcome.REJECTED)}
    assert faster(rows_of(kernels, fixed), fixed).failing[0].startswith("1.000 [1.000, 1.000]")
    assert nothing_where_nothing_is(kernels, fixed).failing == (
        "liger_rms_norm: v1 won, and afresh it is rejected: as the samples say",
    )
    assert none_slower(kernels, fixed).found == "0 comparisons; 2 of 2 kernels stay as they are"


def test_what_was_not_measured_holds_nothing(device: DeviceFacts, fixed: FixedCases) -> None:
    kernels = {"liger_swiglu": unchanged(device)}
    mean, slower, claimed = claims(kernels, fixed, rows_of(kernels, fixed))
    assert mean.failing == tuple(f"liger_rms_norm backward {case}: not measured" for case in (NARROW, WIDE))
    assert slower.failing == claimed.failing == ("liger_rms_norm: it was not optimized",)


def test_a_counted_case_that_the_last_comparison_left_out_is_not_measured(
    device: DeviceFacts, fixed: FixedCases
) -> None:
    kernels = both(device, {place: gain for place, gain in GAINS.items() if place != (BACKWARD, WIDE)})
    assert faster(rows_of(kernels, fixed), fixed).failing == (f"liger_rms_norm backward {WIDE}: not measured",)


@pytest.mark.parametrize(("speedup", "slower"), [(0.985, False), (0.97, True)])
@pytest.mark.parametrize("mode", [FORWARD, FULL])
def test_a_case_that_is_slower_beyond_noise_is_named_whether_it_counts_or_not(
    device: DeviceFacts, fixed: FixedCases, mode: Mode, speedup: float, slower: bool
) -> None:
    claim = none_slower(both(device, {**GAINS, (mode, NARROW): speedup}), fixed)
    assert claim.found == "4 comparisons; 1 of 2 kernels stay as they are"
    assert [each.startswith(f"liger_rms_norm {mode.value} {NARROW}: 0.9") for each in claim.failing] == [True] * slower


def test_the_page_tells_what_was_fixed_and_what_became_of_it(
    device: DeviceFacts, fixed: FixedCases, tmp_path: Path
) -> None:
    for optimized in both(device).values():
        write_kept(tmp_path, optimized)
    assert write_summary(tmp_path, fixed)
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert page.count(": **yes** (") == 3 and "Not optimized" not in page
    assert "2 of 5 cases and passes" in page
    assert f"| liger_rms_norm | backward | {label(WIDE)} | 55.0% | yes | 100.1 µs | 83.33 µs | 1.200× [" in page
    assert f"| liger_swiglu | backward | {label(NARROW)} | 80.0% | no | – | – | 1, as it was |" in page
    goals = "1.400× [1.398, 1.402] | 1.410× [1.408, 1.412]"
    assert f"| liger_rms_norm | v1 ([patch](liger_rms_norm.diff)) | {goals} | 1.00× to 1.00× | 1.20× to 1.50× |" in page
    assert "1 of 2 kernels have a winner; of liger_swiglu, where no case counts, none has one" in page
    assert "| liger_swiglu | no improvement found | – | – | – | – | two measured variants in a row" in page
    assert "| 341 s in 2 |" in page
    assert (
        "| liger_swiglu | v1 | settings sweep | the original | 1.00× to 1.60× | 1.410× [1.408, 1.412] | rejected | "
        "1.002 is no win |"
    ) in page
    assert "- liger_rms_norm: rms_norm_backward: n_cols 4096: num_warps=4 \\| 8" in page
    assert (tmp_path / "liger_rms_norm.diff").read_text() == "--- original\n+++ v1\n"
    assert not (tmp_path / "liger_swiglu.diff").exists()
    assert (tmp_path / "autonomous.png").stat().st_size > 10_000


def label(case: str) -> str:
    return case.replace("x", "×").replace("-", " ")


def test_the_page_names_the_kernels_that_are_not_there_yet(
    device: DeviceFacts, fixed: FixedCases, tmp_path: Path
) -> None:
    write_kept(tmp_path, unchanged(device))
    assert write_summary(tmp_path, fixed)
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "Not optimized: liger_rms_norm." in page and page.count(": **no** (") == 3
    assert f"| liger_rms_norm | backward | {label(WIDE)} | 55.0% | yes | – | – | not measured |" in page
    assert "Nothing was changed." in page


def test_kernels_of_two_machines_make_no_page(device: DeviceFacts, fixed: FixedCases, tmp_path: Path) -> None:
    environment = device.environment.model_copy(update={"driver": "1"})
    kernels = both(device)
    kernels["liger_swiglu"] = unchanged(device.model_copy(update={"environment": environment}))
    for optimized in kernels.values():
        write_kept(tmp_path, optimized)
    with pytest.raises(UsageError, match="liger_swiglu was not measured as liger_rms_norm was: driver"):
        write_summary(tmp_path, fixed)


def test_nothing_optimized_makes_no_page(fixed: FixedCases, tmp_path: Path) -> None:
    assert not write_summary(tmp_path, fixed)
    assert list(tmp_path.iterdir()) == []


# What is committed

COMMITTED = read_kept(autonomous.DATA, autonomous.LIGERS)
needs_data = pytest.mark.skipif(not COMMITTED, reason="no run is committed in benchmark/data/autonomous yet")


@needs_data
def test_the_committed_page_is_what_the_committed_runs_make(tmp_path: Path) -> None:
    for path in autonomous.DATA.glob("*.json.gz"):
        shutil.copy(path, tmp_path)
    assert write_summary(tmp_path, read_fixed())
    for path in (autonomous.DATA / "README.md", *autonomous.DATA.glob("*.diff")):
        assert (tmp_path / path.name).read_text("utf-8") == path.read_text("utf-8")
    assert (autonomous.DATA / "autonomous.png").is_file()
