"""Kernels that are gone through by themselves: on a simulated GPU, in one sitting and in several. Needs no GPU."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from warpsmith.contracts.case import Mode
from warpsmith.contracts.errors import PreflightError, UsageError
from warpsmith.contracts.measurement import OPTIMIZED, ORIGINAL
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.verdict import Outcome
from warpsmith.measure.worker.protocol import AnyQuestion, Time
from warpsmith.project.snapshot import file_sha256
from warpsmith.verdict.statistics import compare
from warpsmith.workspace.documents import read_document

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmark"))
sys.path.insert(0, str(ROOT / "tests" / "stages"))

import autonomous  # noqa: E402
from jobs import Pace, missing, work_through  # noqa: E402
from liger.installed import MISSING  # noqa: E402
from optimizing.fixed import FixedCase, FixedCases, FixedKernel, fix, fixed_by, read_fixed, sha256_of  # noqa: E402
from optimizing.kept import Optimized, path_of, read_kept  # noqa: E402
from optimizing.sittings import RUNNING  # noqa: E402
from profiling.kept import Kept  # noqa: E402
from profiling.kept import path_of as profile_path_of  # noqa: E402
from profiling.kept import write_kept as write_profile  # noqa: E402
from profiling.scratch import ScratchProject  # noqa: E402
from simulated_bench import put_gpu  # noqa: E402
from simulated_gpu import SimulatedGpu  # noqa: E402
from simulated_kernel import Work  # noqa: E402
from simulated_run import KERNEL, SOURCE, make_repository  # noqa: E402


@pytest.fixture(scope="module")
def recorded() -> Profile:
    return read_document(ROOT / "optimization" / "rms_norm" / "profile.json", Profile)


def fixed_for(source: Path, profile: Profile) -> FixedCases:
    """The simulated kernel's passes at its tuning cases: backward is far from the ceiling, forward near it."""
    cases = tuple(
        FixedCase(mode=mode, case=case, share=share, counts=share < 0.8)
        for mode, share in ((Mode.FORWARD, 0.93), (Mode.BACKWARD, 0.5))
        for case in ("2048x2048-bf16", "8192x4096-bf16", "8192x8192-bf16")
    )
    kernel = FixedKernel(
        kernel=KERNEL, of="warpsmith 0.1", source_sha256=file_sha256(source), profile_sha256="0" * 64,
        measured_at="2026-01-31T00:00:00+00:00", cases=cases,
    )  # fmt: skip
    return FixedCases(line=0.8, environment=profile.device.environment, kernels=(kernel,))


@dataclass
class Machine:
    """A machine with a simulated GPU and a scratch project of its own. Every question takes it a second."""

    project: ScratchProject
    gpu: SimulatedGpu
    now_s: float = 0.0

    @classmethod
    def begin(cls, folder: Path, monkeypatch: pytest.MonkeyPatch, profile: Profile) -> Machine:
        root = make_repository(folder / "repository")
        fixed = fixed_for(root / SOURCE, profile)
        monkeypatch.setattr(autonomous, "read_fixed", lambda: fixed)
        machine = cls(ScratchProject(root, has_liger=False), put_gpu(monkeypatch, root))
        machine.gpu.watch = machine.tick
        return machine

    def tick(self, question: AnyQuestion) -> None:
        self.now_s += 1.0

    def work(self, into: Path, within_s: float | None = None) -> bool:
        """`autonomous.py measure`, but for the scratch project. False where it fails."""
        pace = Pace(within_s, first_s=1.0, least_s=1.0, clock=lambda: self.now_s)
        return work_through(autonomous.jobs((KERNEL,), into, pace), self.project, pace)

    @property
    def asked(self) -> set[str]:
        return {question.identity for question in self.gpu.asked}


@dataclass(frozen=True)
class Whole:
    """What one sitting comes to, and how long it is."""

    into: Path
    found: Optimized
    asked: frozenset[str]
    elapsed_s: float


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, recorded: Profile) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as monkeypatch:
        machine = Machine.begin(folder, monkeypatch, recorded)
        assert machine.work(folder / "kept")
        found = read_kept(folder / "kept", (KERNEL,))[KERNEL]
        yield Whole(folder / "kept", found, frozenset(machine.asked), machine.now_s)


def test_a_kernel_is_profiled_and_searched_and_its_winner_measured_afresh(whole: Whole) -> None:
    found = whole.found
    assert found.is_gain and found.confirmed is not None and found.searched is not None
    assert found.confirmed.outcome is found.searched.outcome is Outcome.ACCEPTED
    assert found.confirmed != found.searched
    assert [tried.number for tried in found.tried] == list(range(1, len(found.tried) + 1))
    assert found.winner in {tried.number for tried in found.tried if tried.outcome is Outcome.ACCEPTED}
    assert all(tried.reasons for tried in found.tried)
    assert "+_RMS_NORM_BACKWARD_SETTINGS" in found.diff and found.changes
    assert found.sittings_s == (pytest.approx(whole.elapsed_s),)


def test_what_is_kept_of_the_last_comparison_makes_the_verdict_anew(whole: Whole) -> None:
    confirmed = whole.found.confirmed
    assert confirmed is not None
    assert {(t.case.name, t.mode): compare(t, ORIGINAL, OPTIMIZED).speedup for t in whole.found.timings} == {
        (each.case, each.mode): each.speedup for each in confirmed.cases
    }
    assert {len({block.process for block in t.blocks}) for t in whole.found.timings if t.mode is Mode.FULL} >= {3}


def test_a_run_that_has_ended_is_packed_and_not_run_again(whole: Whole) -> None:
    assert (whole.into / RUNNING / f"{KERNEL}.tar.gz").is_file()
    assert not (whole.into / RUNNING / KERNEL).exists()
    assert (whole.into / RUNNING / ".gitignore").read_text() == "*\n"
    assert missing(autonomous.jobs((KERNEL,), whole.into, Pace(None, 1.0))) == []


@pytest.mark.parametrize("share", [0.5, 0.97])
def test_a_run_goes_on_on_another_machine_and_measures_nothing_twice(
    whole: Whole,
    share: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recorded: Profile,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = Machine.begin(tmp_path / "first", monkeypatch, recorded)
    assert first.work(tmp_path / "kept", within_s=share * whole.elapsed_s)
    assert "the same command goes on" in capsys.readouterr().err
    assert not path_of(tmp_path / "kept", KERNEL).exists()
    assert first.now_s <= share * whole.elapsed_s

    shutil.copytree(tmp_path / "kept", tmp_path / "brought")
    shutil.rmtree(tmp_path / "first")
    shutil.rmtree(tmp_path / "kept")
    second = Machine.begin(tmp_path / "second", monkeypatch, recorded)
    assert second.work(tmp_path / "brought")

    assert first.asked and not first.asked & second.asked
    assert first.asked | second.asked == whole.asked
    found = read_kept(tmp_path / "brought", (KERNEL,))[KERNEL]
    assert len(found.sittings_s) == 2
    same = {"run_id": "", "sittings_s": ()}
    assert found.model_copy(update=same) == whole.found.model_copy(update=same)


def test_answers_lie_with_the_results_as_soon_as_they_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: Profile
) -> None:
    """Also where the command is killed, which no `--within` foresees."""
    machine, kept = Machine.begin(tmp_path / "first", monkeypatch, recorded), tmp_path / "kept"

    class Killed(BaseException):
        pass

    def kill_at_the_first_timing(question: AnyQuestion) -> None:
        if isinstance(question, Time):
            raise Killed

    machine.gpu.watch = kill_at_the_first_timing
    with pytest.raises(Killed):
        machine.work(kept)
    answers = kept / RUNNING / KERNEL / "measurements.jsonl"
    assert answers.read_bytes().count(b"\n") >= len(machine.asked) > 0


def test_a_kernel_that_cannot_be_made_faster_ends_without_a_winner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: Profile
) -> None:
    machine = Machine.begin(tmp_path / "machine", monkeypatch, recorded)
    original = (machine.project.root / SOURCE).read_text()
    machine.gpu.slowdown = lambda work: 1.0 if not work.settings and work.text == original else 1.5
    assert machine.work(tmp_path / "kept")
    found = read_kept(tmp_path / "kept", (KERNEL,))[KERNEL]
    assert (found.winner, found.confirmed, found.timings, found.diff) == (None, None, (), "")
    assert not found.is_gain and found.tried


def test_a_winner_that_is_none_afresh_is_no_gain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: Profile
) -> None:
    machine = Machine.begin(tmp_path / "machine", monkeypatch, recorded)
    original, confirming = (machine.project.root / SOURCE).read_text(), False

    def watch(question: AnyQuestion) -> None:
        nonlocal confirming
        confirming |= isinstance(question, Time) and OPTIMIZED in {each.name for each in question.contenders}

    def slowdown(work: Work) -> float:
        return 3.0 if confirming and work.text != original else 1.0

    machine.gpu.watch, machine.gpu.slowdown = watch, slowdown
    assert machine.work(tmp_path / "kept")
    found = read_kept(tmp_path / "kept", (KERNEL,))[KERNEL]
    assert found.winner is not None and found.confirmed is not None and not found.is_gain


def test_another_source_than_the_cases_were_fixed_for_is_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: Profile, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine.begin(tmp_path / "machine", monkeypatch, recorded)
    source = machine.project.root / SOURCE
    source.write_text(source.read_text() + "# of another version\n")
    assert not machine.work(tmp_path / "kept")
    assert "for which the cases that count were fixed" in capsys.readouterr().err
    assert not list((tmp_path / "kept" / RUNNING / KERNEL).glob(f"{KERNEL}_v*"))


def test_liger_s_kernels_are_not_run_where_liger_is_not_there(tmp_path: Path) -> None:
    (job,) = autonomous.jobs(("liger_geglu",), tmp_path, Pace(None, 1.0))
    with pytest.raises(PreflightError, match=MISSING):
        job.make(ScratchProject(tmp_path, has_liger=False))


# Which cases count


@pytest.fixture
def profiles(tmp_path: Path, recorded: Profile) -> Path:
    write_profile(tmp_path / "profiles", Kept(kernel=KERNEL, of="warpsmith 0.1", elapsed_s=1.0, profile=recorded))
    return tmp_path / "profiles"


def test_the_passes_below_the_line_at_the_tuning_cases_count(profiles: Path, recorded: Profile) -> None:
    (kernel,) = fixed_by(profiles, (KERNEL,)).kernels
    rows = {(r.mode, r.case): r for r in recorded.baselines if r.provider == ORIGINAL and r.role.value == "tuning"}
    passes = {place for place in rows if place[0] is not Mode.FULL}
    assert {(case.mode, case.case) for case in kernel.cases} == passes
    assert {case.counts for case in kernel.cases} == {True, False}
    for case in kernel.cases:
        share = rows[case.mode, case.case].share_of_ceiling
        assert share is not None and (case.share, case.counts) == (round(share, 4), share < 0.8)
    assert kernel.profile_sha256 == sha256_of(profile_path_of(profiles, KERNEL))


def test_what_is_fixed_stays_fixed(profiles: Path, tmp_path: Path) -> None:
    path = tmp_path / "new" / "cases.json"
    fix(path, profiles, (KERNEL,))
    before = path.read_bytes()
    with pytest.raises(UsageError, match="were fixed before, and stay as they are"):
        fix(path, profiles, (KERNEL,))
    assert path.read_bytes() == before
    assert read_fixed(path) == fixed_by(profiles, (KERNEL,))
    with pytest.raises(UsageError, match=f"no cases were fixed for geglu; there are those of {KERNEL}"):
        read_fixed(path).of_kernel("geglu")


def test_a_kernel_without_a_profile_or_a_share_fixes_nothing(profiles: Path, recorded: Profile) -> None:
    with pytest.raises(PreflightError, match="has no profile of geglu"):
        fixed_by(profiles, (KERNEL, "geglu"))
    unknown = tuple(row.model_copy(update={"share_of_ceiling": None}) for row in recorded.baselines)
    profile = recorded.model_copy(update={"baselines": unknown})
    write_profile(profiles, Kept(kernel=KERNEL, of="warpsmith 0.1", elapsed_s=1.0, profile=profile))
    with pytest.raises(PreflightError, match="its share of the ceiling is not known"):
        fixed_by(profiles, (KERNEL,))


# What is committed


def test_the_committed_cases_are_those_of_the_profiles_that_they_were_read_off() -> None:
    """Profiles that were made anew since change nothing of it: a hash tells which those are."""
    fixed = read_fixed()
    assert [each.kernel for each in fixed.kernels] == list(autonomous.LIGERS)
    for each in fixed.kernels:
        assert all(case.counts == (case.share < fixed.line) for case in each.cases)
        if each.profile_sha256 == sha256_of(profile_path_of(autonomous.PROFILES, each.kernel)):
            assert fixed_by(autonomous.PROFILES, (each.kernel,)).kernels == (each,)
    assert {kernel for kernel, _ in fixed.counted} >= {"liger_rms_norm", "liger_layer_norm", "liger_cross_entropy"}
