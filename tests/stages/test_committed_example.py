"""The committed run of rms_norm: its pages and verdicts follow from the recording.

After a change to templates, wording or statistics, WARPSMITH_UPDATE_EXAMPLE=1 writes pages, plots and the recorded
verdict anew from the same samples.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

import pytest
from simulated_run import KERNEL, SOURCE, TARGET_FILE, Told

from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.recording import Recording
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalResult
from warpsmith.measure.worker.protocol import Identify, TargetRef
from warpsmith.measure.worker.stored import StoredWorker
from warpsmith.project.config import load_config
from warpsmith.project.recordings import RecordedRun
from warpsmith.project.style import Styled
from warpsmith.stages import applying
from warpsmith.stages.finalizer import finalize
from warpsmith.stages.optimizer import optimize
from warpsmith.stages.profiler import profile
from warpsmith.stages.session import Session
from warpsmith.workspace.documents import read_document, write_document
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.store import MeasurementStore

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLE = REPOSITORY / "optimization" / KERNEL
RECORDED = RecordedRun.of(REPOSITORY / TARGET_FILE, KERNEL)
#: What a stage writes, and what was asked for. A page of a variant is there for each that was tried.
WRITTEN = (
    *("request.json", "original_rms_norm.py", "profile.json", "profile.md", "comparison.json", "comparison.md"),
    *("report.json", "report.md", "report.html", "sweep.csv", "benchmarks/v0_baseline.csv"),
    "benchmarks/confirmation_samples.csv",
)
UPDATE = bool(os.environ.get("WARPSMITH_UPDATE_EXAMPLE"))


@pytest.fixture(scope="module")
def recording() -> Recording:
    return read_document(RECORDED.document, Recording)


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory, recording: Recording) -> Workspace:
    """A copy of the repository as it was before the run, after all three stages on the recorded answers.

    The request names no recording, so that the pages come out as those of the run itself.
    """
    root = tmp_path_factory.mktemp("replay")
    for name, found in ((SOURCE, RECORDED.original), (TARGET_FILE, TARGET_FILE), ("warpsmith.yaml", "warpsmith.yaml")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / found, root / name)
    shutil.copytree(REPOSITORY / "tests" / "kernels", root / "tests" / "kernels")
    workspace = Workspace(root, KERNEL)
    workspace.create()
    write_document(workspace.request, recording.request)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(applying, "run_tests", lambda *_, **__: recording.result.tests)
        patch.setattr(
            applying, "run_style", lambda root, command, file: Styled(file.read_bytes(), recording.result.style or "")
        )
        for stage in (profile, optimize, finalize):
            stage(_session(root, workspace, recording))
    if UPDATE:
        _replace_example(workspace)
        verdict = read_document(workspace.final_result, FinalResult)
        write_document(RECORDED.document, recording.model_copy(update={"result": verdict}))
    return workspace


def _session(root: Path, workspace: Workspace, recording: Recording) -> Session:
    target_file = root / TARGET_FILE
    digest = hashlib.sha256(target_file.read_bytes()).hexdigest()
    target = TargetRef(path=str(target_file), root=str(root), sha256=digest)
    worker = StoredWorker(
        MeasurementStore(workspace.measurements), None, Identify(target=target), recording=RECORDED.store(recording)
    )
    request = read_document(workspace.request, Request)
    return Session(root, load_config(root), workspace, request, worker, target, Told())


def _replace_example(workspace: Workspace) -> None:
    provenance = (EXAMPLE / "PROVENANCE.md").read_bytes()
    left_out = ("measurements.jsonl", "ledger.jsonl", "guarded.json", "scratch", ".*")
    shutil.rmtree(EXAMPLE)
    shutil.copytree(workspace.directory, EXAMPLE, ignore=shutil.ignore_patterns(*left_out))
    (EXAMPLE / "PROVENANCE.md").write_bytes(provenance)


def _written_by_variants() -> list[str]:
    endings = (".py", ".json", "_notes.md")
    return sorted(path.name for end in endings for path in EXAMPLE.glob(f"{KERNEL}_v*{end}")) + sorted(
        f"benchmarks/{path.name}" for path in EXAMPLE.glob("benchmarks/v*.csv")
    )


def _content(path: Path) -> bytes:
    """A page without the figures in it: every version of matplotlib draws them a little otherwise."""
    return re.sub(rb"data:image/svg\+xml;base64,[A-Za-z0-9+/=]+", b"a figure", path.read_bytes())


def test_every_page_follows_from_the_raw_samples(replayed: Workspace) -> None:
    names = (*WRITTEN, *_written_by_variants())
    different = [name for name in names if _content(replayed.directory / name) != _content(EXAMPLE / name)]
    assert different == []
    assert {path.name for path in replayed.directory.glob(f"{KERNEL}_v*")} == {
        path.name for path in EXAMPLE.glob(f"{KERNEL}_v*")
    }


def test_a_replay_asks_every_question_of_the_recording_and_no_other(replayed: Workspace, recording: Recording) -> None:
    asked = {record["identity"]: record for record in MeasurementStore(replayed.measurements).records()}
    recorded = {record["identity"]: record for record in RECORDED.store(recording).records()}
    never_asked = [f"{r['kind']} {r['question']}"[:200] for i, r in recorded.items() if i not in asked]
    assert never_asked == []
    assert {i: {k: v for k, v in r.items() if k != "replayed"} for i, r in asked.items()} == recorded


def test_the_verdict_is_the_one_that_was_recorded(replayed: Workspace) -> None:
    assert read_document(replayed.final_result, FinalResult) == read_document(RECORDED.document, Recording).result


def test_the_winner_was_applied_to_the_byte_and_the_kernel_is_a_variant_of_the_run(recording: Recording) -> None:
    """The kernel is the one that an earlier run applied; PROVENANCE.md says why this one did not accept it."""
    winner = (EXAMPLE / f"{KERNEL}_v{recording.result.winner}.py").read_bytes()
    assert hashlib.sha256(winner).hexdigest() == recording.result.applied_sha256
    assert (REPOSITORY / SOURCE).read_bytes() == (EXAMPLE / f"{KERNEL}_v3.py").read_bytes()
    assert hashlib.sha256(RECORDED.original.read_bytes()).hexdigest() == recording.source_sha256


def test_what_the_readme_claims_is_what_the_report_says() -> None:
    """Its rows are those of one comparison, original, optimized and baselines side by side."""
    report = (EXAMPLE / "report.md").read_text(encoding="utf-8")
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    _, _, compared = report.partition("### backward, original, optimized and baselines\n")
    told = [_cells(line) for line in compared.partition("###")[0].splitlines() if "µs" in line]
    rows = (_cells(line) for line in readme.splitlines() if "µs |" in line)
    claimed = {shape: cells for shape, *cells in rows}
    assert len(told) == len(claimed) == 5
    for shape, *times in told:
        original, optimized, *providers = (_microseconds(each) for each in times)
        before, after = (_ceiling_us(shape) / each for each in (original, optimized))
        expected = [f"{original:.1f} µs", f"**{optimized:.1f} µs**", *(f"{each:.1f} µs" for each in providers)]
        assert claimed[shape.removesuffix(" bf16")] == [*expected, f"{before:.0%} → {after:.0%}"]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _microseconds(cell: str) -> float:
    return float(cell.partition(" µs")[0])


def _ceiling_us(shape: str) -> float:
    """The least time of the pass backward at that case, by the profile."""
    name = shape.replace("×", "x").replace(" ", "-")
    (original,) = (
        b
        for b in read_document(EXAMPLE / "profile.json", Profile).baselines
        if (b.case, b.mode, b.provider) == (name, Mode.BACKWARD, ORIGINAL)
    )
    assert original.share_of_ceiling is not None and original.time_ms is not None
    return original.share_of_ceiling * original.time_ms.value * 1e3
