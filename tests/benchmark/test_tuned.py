"""What is made of tuned kernels whose figures are known: claims, page and plot. Needs no GPU."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from warpsmith.contracts.case import Case, DType, Mode, Role
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.errors import PreflightError
from warpsmith.contracts.measurement import ORIGINAL, Block, Timing, TimingMethod
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.target import TargetSpec
from warpsmith.contracts.variant import VariantStatus
from warpsmith.contracts.verdict import CaseSpeedup, Interval, Outcome, Verdict
from warpsmith.measure.worker.protocol import Time
from warpsmith.workspace.documents import read_document

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmark"))
sys.path.insert(0, str(ROOT / "tests" / "stages"))

import simulated_gpu  # noqa: E402
import tuned as tuned_benchmark  # noqa: E402
from liger.installed import MISSING  # noqa: E402
from profiling.scratch import ScratchProject  # noqa: E402
from simulated_kernel import FORWARD, Work  # noqa: E402
from simulated_run import Run, make_repository  # noqa: E402
from tuning.alone import Kernel, kernel_of, tune_alone  # noqa: E402
from tuning.claims import (  # noqa: E402
    CHOSEN,
    EXHAUSTIVE,
    as_good_as_exhaustive,
    known_gains,
    known_gains_found,
    none_slower,
)
from tuning.exhaustive import compare_searches, place_of  # noqa: E402
from tuning.kept import TUNED, Exhausted, SweptPass, Tuned, exhausted_path, tuned_path, write_kept  # noqa: E402
from tuning.summary import read_exhausted, read_tuned, write_summary  # noqa: E402
from tuning.tally import Tally, device_time_ms  # noqa: E402

KNOWN = known_gains()
GEGLU = "4096x16384-bf16"


@pytest.fixture(scope="module")
def device() -> DeviceFacts:
    return read_document(ROOT / "optimization" / "rms_norm" / "profile.json", Profile).device


def speedup(case: str, value: float, *, mode: Mode = Mode.FORWARD, regressed: bool = False) -> CaseSpeedup:
    interval = Interval(value=value, low=value - 0.01, high=value + 0.01)
    return CaseSpeedup(
        case=case, role=Role.TUNING, mode=mode, baseline_ms=0.146, variant_ms=0.146 / value, speedup=interval,
        regression_p=0.001 if regressed else 1.0, regressed=regressed,
    )  # fmt: skip


def tuned(device: DeviceFacts, *cases: CaseSpeedup, kernel: str = "liger_geglu") -> Tuned:
    verdict = Verdict(
        outcome=Outcome.ACCEPTED, reasons=("faster",), goal_mode=Mode.FULL, cases=cases,
        goal=Interval(value=1.1, low=1.09, high=1.11),
    )  # fmt: skip
    return Tuned(
        kernel=kernel, of="liger-kernel 0.8.5", elapsed_s=61.0, device=device, noise_floor=0.001,
        status=VariantStatus.JUDGED, changes=("geglu_forward: n_cols 16384: num_warps=32",), diff="+ a table",
        passes=(), verdict=verdict,
    )  # fmt: skip


def timing(rounds: int = 4, **ms: float) -> Timing:
    blocks = tuple(
        Block(contender=name, round=round_, samples_ms=(each, each))
        for round_ in range(rounds)
        for name, each in ms.items()
    )
    case = Case(axes={"M": 4096, "N": 16384}, dtype=DType.BFLOAT16, role=Role.TUNING)
    return Timing(
        case=case, mode=Mode.FORWARD, method=TimingMethod.GRAPH, calls_per_sample=10, input_sets=2,
        same_addresses=True, blocks=blocks,
    )  # fmt: skip


def exhausted(device: DeviceFacts, *, chosen_ms: float, search_ms: float) -> Exhausted:
    last = timing(**{ORIGINAL: 0.146, CHOSEN: chosen_ms, EXHAUSTIVE: 0.116})
    return Exhausted(
        kernel="liger_geglu", of="liger-kernel 0.8.5", case=last.case, mode=Mode.FORWARD, jit_function="_kernel",
        device=device, n_settings=30, n_runnable=28, n_distinct=7, exhaustive_device_time_ms=1000.0,
        search_device_time_ms=search_ms, chosen={"_kernel.num_warps": 32}, timings=(), last=last,
    )  # fmt: skip


def test_a_known_gain_is_found_where_the_case_gained_as_much(device: DeviceFacts) -> None:
    geglu = [gain for gain in KNOWN if gain.kernel == "liger_geglu"]
    assert [gain.case for gain in geglu] == [GEGLU]
    assert known_gains_found({"liger_geglu": tuned(device, speedup(GEGLU, 1.25))}, geglu).holds
    assert known_gains_found({"liger_geglu": tuned(device, speedup(GEGLU, 1.20))}, geglu).failing
    backward = tuned(device, speedup(GEGLU, 1.25, mode=Mode.BACKWARD))
    assert known_gains_found({"liger_geglu": backward}, geglu).failing


def test_a_known_gain_of_a_kernel_that_was_not_tuned_is_not_found() -> None:
    failing = known_gains_found({}, KNOWN).failing
    assert len(failing) == len(KNOWN)
    assert all("was not tuned" in each for each in failing)


@pytest.mark.parametrize(("tuned_ms", "mode", "failing"), [(0.146, Mode.FORWARD, 0), (0.155, Mode.BACKWARD, 1)])
def test_a_case_that_is_slower_is_named_in_any_pass(
    device: DeviceFacts, tuned_ms: float, mode: Mode, failing: int
) -> None:
    timed = timing(rounds=8, **{ORIGINAL: 0.146, TUNED: tuned_ms}).model_copy(update={"mode": mode})
    claim = none_slower({"liger_geglu": tuned(device).model_copy(update={"timings": (timed,)})})
    assert [f"{mode.value} {GEGLU}: 0.94" in each for each in claim.failing] == [True] * failing


def test_what_too_few_rounds_were_measured_of_is_no_good_news(device: DeviceFacts) -> None:
    timed = timing(rounds=4, **{ORIGINAL: 0.146, TUNED: 0.146})
    (why,) = none_slower({"liger_geglu": tuned(device).model_copy(update={"timings": (timed,)})}).failing
    assert why.startswith(f"liger_geglu: only 4 rounds were measured at {GEGLU}, forward")


def test_a_variant_that_could_not_be_judged_is_no_good_news(device: DeviceFacts) -> None:
    wrong = tuned(device).model_copy(update={"verdict": None, "status": VariantStatus.INCORRECT, "detail": "wrong"})
    assert none_slower({"liger_geglu": wrong}).failing == ("liger_geglu: incorrect, wrong",)


@pytest.mark.parametrize(
    ("chosen_ms", "search_ms", "failing"), [(0.1183, 200.0, 0), (0.1184, 200.0, 1), (0.115, 201.0, 1), (0.13, 900.0, 2)]
)
def test_the_search_is_held_to_its_choice_and_to_its_device_time(
    device: DeviceFacts, chosen_ms: float, search_ms: float, failing: int
) -> None:
    claim = as_good_as_exhaustive([exhausted(device, chosen_ms=chosen_ms, search_ms=search_ms)])
    assert len(claim.failing) == failing


def test_nothing_compared_is_no_success() -> None:
    assert not as_good_as_exhaustive([]).holds


def test_device_time_is_of_every_sample_and_call() -> None:
    one = timing(original=0.1, other=0.3)
    assert device_time_ms(one) == pytest.approx(4 * 2 * 10 * (0.1 + 0.3))

    class Answers:
        def ask(self, question: object) -> Timing:
            return one

        def ask_all(self, questions: list[object]) -> list[Timing]:
            return [one for _ in questions]

        def close(self) -> None: ...

    tally = Tally(Answers())  # type: ignore[arg-type]
    tally.ask(None)  # type: ignore[arg-type]
    tally.ask_all([None, None])  # type: ignore[list-item]
    assert tally.device_time_ms == pytest.approx(3 * device_time_ms(one))


def test_the_page_tells_what_was_found_beside_what_is_known(device: DeviceFacts, tmp_path: Path) -> None:
    swept = SweptPass(
        mode=Mode.FORWARD, jit_function="_kernel", knobs=("_kernel.num_warps",), inert=(), planned_ms=12.0,
        stopped="the device time that was allowed is spent", readings=(),
    )  # fmt: skip
    kept = tuned(device, speedup(GEGLU, 1.25)).model_copy(update={"passes": (swept,)})
    write_kept(tuned_path(tmp_path, "liger_geglu"), kept)
    compared = exhausted(device, chosen_ms=0.117, search_ms=150.0)
    write_kept(exhausted_path(tmp_path, "liger_geglu", Mode.FORWARD, compared.case.name), compared)
    assert write_summary(tmp_path, ("liger_geglu", "liger_softmax"))
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "Not tuned: liger_softmax." in page
    assert "num_warps 16 to 32 | 1.26× (146 to 116 µs) | 1.25× (146.0 µs to 116.8 µs)" in page
    assert "the sweep of _kernel ended early" in page
    assert "15% (150.0 ms of 1000 ms)" in page
    assert (tmp_path / "tuned.png").stat().st_size > 10_000


def test_the_page_tells_why_a_variant_was_rejected(device: DeviceFacts, tmp_path: Path) -> None:
    kept = tuned(device, speedup(GEGLU, 0.9, regressed=True))
    assert kept.verdict is not None
    reasons = ("4096x16384-bf16, forward: 0.900 [0.890, 0.910]", "over the tuning cases as fast")
    rejected = kept.verdict.model_copy(update={"outcome": Outcome.REJECTED, "reasons": reasons})
    write_kept(tuned_path(tmp_path, "liger_geglu"), kept.model_copy(update={"verdict": rejected}))
    assert write_summary(tmp_path, ("liger_geglu",))
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert f"| liger_geglu | rejected: {reasons[0]} | 1.100× |" in page


def test_nothing_tuned_makes_no_page(tmp_path: Path) -> None:
    assert not write_summary(tmp_path, ("liger_geglu",))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """The library's rms_norm on a simulated GPU, which is faster with other warps and programs backward."""
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path / "cache"))
    return kernel_of(Run.begin(make_repository(tmp_path / "repository")).session(), "warpsmith 0.1")


def test_a_kernel_is_tuned_by_settings_alone_and_judged_at_every_case_and_pass(kernel: Kernel) -> None:
    found = tune_alone(kernel)

    assert found.verdict is not None and found.verdict.outcome is Outcome.ACCEPTED
    assert {(each.case, each.mode) for each in found.verdict.cases} == {
        (case.name, mode) for case in kernel.bench.spec.cases for mode in kernel.bench.spec.modes
    }
    assert "+_RMS_NORM_BACKWARD_SETTINGS" in found.diff
    assert "-        dw_partial = torch.zeros" not in found.diff  # settings, and nothing else
    assert {swept.mode for swept in found.passes} == {Mode.FORWARD, Mode.BACKWARD}
    assert found.device_time_ms > 0


def test_a_kernel_without_a_backward_pass_is_tuned_and_judged_in_its_forward_pass_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(simulated_gpu, "described", forward_alone)
    run = Run.begin(make_repository(tmp_path / "repository"))
    run.gpu.slowdown = faster_with_16_warps
    found = tune_alone(kernel_of(run.session(), "warpsmith 0.1"))

    assert found.verdict is not None and found.verdict.goal_mode is Mode.FORWARD
    assert found.verdict.outcome is Outcome.ACCEPTED
    assert {question.mode for question in run.gpu.asked if isinstance(question, Time)} == {Mode.FORWARD}


def forward_alone(root: Path, described: Callable[[Path], TargetSpec] = simulated_gpu.described) -> TargetSpec:
    return described(root).model_copy(update={"modes": (Mode.FORWARD,), "differentiable": ()})


def faster_with_16_warps(work: Work) -> float:
    return 1.0 if work.warps(FORWARD) == 16 else 1.2


def test_the_search_finds_what_the_exhaustive_one_does_in_the_same_space(kernel: Kernel) -> None:
    case = kernel.bench.spec.tuning_cases[0].name
    found = compare_searches(kernel.bench, place_of(kernel, Mode.BACKWARD, case), lambda text: None)

    assert as_good_as_exhaustive([found]).holds
    assert found.n_settings >= found.n_runnable > found.n_distinct > 1
    assert found.search_device_time_ms < found.exhaustive_device_time_ms
    timed = {block.contender for timing in found.timings for block in timing.blocks}
    assert len(timed) == found.n_runnable


def test_searches_are_compared_at_the_places_of_the_kernels_that_are_asked_for(tmp_path: Path) -> None:
    jobs = tuned_benchmark.exhaust_jobs(("liger_layer_norm", "liger_geglu"), tmp_path)
    assert [job.name for job in jobs] == [
        "liger_layer_norm forward 8192x8192-bf16", "liger_layer_norm backward 8192x4096-bf16",
    ]  # fmt: skip
    assert jobs[0].kept == exhausted_path(tmp_path, "liger_layer_norm", Mode.FORWARD, "8192x8192-bf16")


def test_a_kernel_of_liger_s_is_not_tuned_where_liger_is_not_there(tmp_path: Path) -> None:
    (job,) = tuned_benchmark.tune_jobs(("liger_geglu",), tmp_path)
    with pytest.raises(PreflightError, match=MISSING):
        job.make(ScratchProject(tmp_path, has_liger=False))
    assert job.kept == tuned_path(tmp_path, "liger_geglu")


# What is committed

COMMITTED, COMPARED = read_tuned(tuned_benchmark.DATA, tuned_benchmark.LIGERS), read_exhausted(tuned_benchmark.DATA)


def test_the_committed_page_is_what_the_committed_measurements_make(tmp_path: Path) -> None:
    shutil.copytree(tuned_benchmark.DATA, tmp_path / "tuned")
    (tmp_path / "tuned" / "README.md").unlink()
    assert write_summary(tmp_path / "tuned", tuned_benchmark.LIGERS)
    made, committed = ((each / "README.md").read_text("utf-8") for each in (tmp_path / "tuned", tuned_benchmark.DATA))
    assert made == committed
    assert (tuned_benchmark.DATA / "tuned.png").is_file()


def test_what_must_hold_holds_of_every_kernel_that_was_tuned_and_every_place_that_was_compared() -> None:
    of_these = [gain for gain in KNOWN if gain.kernel in COMMITTED]
    claims = (known_gains_found(COMMITTED, of_these), none_slower(COMMITTED), as_good_as_exhaustive(COMPARED))
    assert of_these
    assert [failing for claim in claims for failing in claim.failing] == []
