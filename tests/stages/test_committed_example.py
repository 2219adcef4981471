"""The committed run of rms_norm: its pages and verdicts follow from its raw samples, and its winner is the kernel.

After a change to templates or wording, WARPSMITH_UPDATE_EXAMPLE=1 writes the pages anew from the same samples.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from simulated_run import KERNEL, ORIGINAL, SOURCE, TARGET_FILE, Told

from warpsmith.contracts.base import Contract
from warpsmith.contracts.device import Environment
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalResult
from warpsmith.measure.worker.protocol import AnyQuestion, Identify, TargetRef, WorkerFailure
from warpsmith.measure.worker.stored import StoredWorker
from warpsmith.project.config import load_config
from warpsmith.project.style import Styled
from warpsmith.stages import finalizer
from warpsmith.stages.finalizer import finalize
from warpsmith.stages.optimizer import optimize
from warpsmith.stages.profiler import profile
from warpsmith.stages.session import Session
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.store import MeasurementStore

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLE = REPOSITORY / "optimization" / KERNEL
#: What a stage writes; the rest of the example is what was asked for and what was measured.
WRITTEN = (
    *("profile.json", "profile.md", "comparison.json", "comparison.md", "report.json", "report.md", "report.html"),
    *("sweep.csv", "benchmarks/v0_baseline.csv", "benchmarks/v3_results.csv"),
    *(f"{KERNEL}_v{number}{ending}" for number in (1, 2, 3) for ending in (".py", ".json", "_notes.md")),
)


@dataclass
class AbsentGpu:
    """Describes the target, as a process without a GPU can, and has no other answer: those are in the recording."""

    environment: Environment

    def ask(self, question: AnyQuestion) -> Contract:
        from warpsmith.measure.handlers import handlers

        if question.kind == "identify":
            return self.environment
        assert question.kind == "describe", f"stale: the recording has no answer to {question.model_dump_json()[:400]}"
        return handlers()["describe"](question)

    def ask_all(self, questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
        return [self.ask(question) for question in questions]

    def close(self) -> None: ...


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A copy of the repository as it was before the run, after all three stages on the recorded answers."""
    root = tmp_path_factory.mktemp("replay")
    for name, found in ((SOURCE, ORIGINAL), (TARGET_FILE, TARGET_FILE), ("warpsmith.yaml", "warpsmith.yaml")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / found, root / name)
    shutil.copytree(REPOSITORY / "tests" / "kernels", root / "tests" / "kernels")
    workspace = Workspace(root, KERNEL)
    workspace.create()
    for path in (EXAMPLE / "request.json", EXAMPLE / "measurements.jsonl"):
        shutil.copy(path, workspace.directory)
    recorded = read_document(EXAMPLE / "report.json", FinalResult)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finalizer, "run_tests", lambda *_, **__: recorded.tests)
        patch.setattr(
            finalizer, "run_style", lambda root, command, file: Styled(file.read_bytes(), recorded.style or "")
        )
        for stage in (profile, optimize, finalize):
            stage(_session(root, workspace))
    return workspace


def _session(root: Path, workspace: Workspace) -> Session:
    target_file = root / TARGET_FILE
    digest = hashlib.sha256(target_file.read_bytes()).hexdigest()
    target = TargetRef(path=str(target_file), root=str(root), sha256=digest)
    store = MeasurementStore(workspace.measurements)
    environment = next(record["environment"] for record in store.records() if record["environment"])
    worker = StoredWorker(store, AbsentGpu(Environment.model_validate(environment)), Identify(target=target))
    request = read_document(workspace.request, Request)
    return Session(root, load_config(root), workspace, request, worker, target, Told())


@pytest.mark.parametrize("name", WRITTEN)
def test_the_page_follows_from_the_raw_samples(replayed: Workspace, name: str) -> None:
    if os.environ.get("WARPSMITH_UPDATE_EXAMPLE"):
        shutil.copy(replayed.directory / name, EXAMPLE / name)
    assert (replayed.directory / name).read_text(encoding="utf-8") == (EXAMPLE / name).read_text(encoding="utf-8")


def test_a_replay_measures_nothing(replayed: Workspace) -> None:
    recorded = (EXAMPLE / "measurements.jsonl").read_text(encoding="utf-8")
    assert replayed.measurements.read_text(encoding="utf-8") == recorded


def test_the_provenance_names_every_gpu_of_the_recording() -> None:
    provenance = (EXAMPLE / "PROVENANCE.md").read_text(encoding="utf-8")
    lines = (EXAMPLE / "measurements.jsonl").read_text(encoding="utf-8").splitlines()
    environments = [environment for line in lines if (environment := json.loads(line)["environment"])]
    for uuid in {environment["gpu_uuid"] for environment in environments}:
        count = sum(environment["gpu_uuid"] == uuid for environment in environments)
        assert f"`{uuid[:12]}…`, {count} answers" in provenance


def test_the_kernel_is_the_winner_to_the_byte() -> None:
    applied = read_document(EXAMPLE / "report.json", FinalResult)
    kernel = (REPOSITORY / SOURCE).read_bytes()
    assert hashlib.sha256(kernel).hexdigest() == applied.applied_sha256
    assert (EXAMPLE / f"{KERNEL}_v{applied.winner}.py").read_bytes() == kernel
    assert hashlib.sha256((REPOSITORY / ORIGINAL).read_bytes()).hexdigest() == applied.original_sha256


def test_what_the_readme_claims_is_what_the_report_says() -> None:
    confirmation = read_document(EXAMPLE / "report.json", FinalResult).confirmation
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert confirmation is not None
    rows = {line.split("|")[1].strip(): line for line in readme.splitlines() if "µs |" in line}
    assert set(rows) == {"2048×2048", "32768×2048", "8192×4096", "8192×8192", "4096×16384"}
    for case in confirmation.cases:
        shape = case.case.removesuffix("-bf16").replace("x", "×")
        if case.mode.value == "backward" and shape in rows:
            expected = f"| {case.baseline_ms * 1e3:.1f} µs | **{case.variant_ms * 1e3:.1f} µs** |"
            assert expected in rows[shape]
