"""A bench on the small repository: measured by the simulated GPU, or replayed from what a profile was answered."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from simulated_gpu import DEVICE, SimulatedGpu
from simulated_run import KERNEL, SOURCE, TARGET_FILE, Run, Told

from warpsmith.contracts.bench import BenchResult, BenchRow
from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.measurement import L2
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.recording import Recording
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalOutcome, FinalResult
from warpsmith.device.gpus import Gpu
from warpsmith.project.config import load_config
from warpsmith.project.recordings import RecordedRun
from warpsmith.project.snapshot import file_sha256, sha256_of
from warpsmith.stages.bench import bench
from warpsmith.stages.bench_request import Asked
from warpsmith.workspace.bench_layout import BenchWorkspace
from warpsmith.workspace.documents import read_document

#: 16 MiB forward, 24 MiB backward, 40 MiB both: all fit the simulated GPU's 50 MiB of L2. The other fits in no mode.
SMALL, LARGE = "2048x2048-bf16", "8192x8192-bf16"
TORCH = ("torch",)


def put_gpu(monkeypatch: pytest.MonkeyPatch, root: Path) -> SimulatedGpu:
    """From here on every command finds this GPU in this process."""
    workers = SimulatedGpu(root)
    gpu = Gpu(index=0, uuid=DEVICE.uuid, name=DEVICE.name, capability=DEVICE.capability, other_processes=())
    monkeypatch.setenv("XDG_CACHE_HOME", str(root.parent / "cache"))
    monkeypatch.setattr("warpsmith.stages.session.require_nvidia", lambda: None)
    monkeypatch.setattr("warpsmith.stages.session.choose", lambda device: gpu)
    monkeypatch.setattr("warpsmith.stages.session._live_workers", lambda *_: workers)
    monkeypatch.setattr("warpsmith.stages.bench_request.worker_without_gpu", lambda _: nullcontext(SimulatedGpu(root)))
    monkeypatch.setattr("warpsmith.stages.recording.choose", lambda device: gpu)
    return workers


def record_profile(run: Run) -> None:
    """Keeps the answers of a profile as a recording of a run that found nothing."""
    profile = read_document(run.workspace.profile, Profile)
    answers = run.workspace.measurements.read_bytes()
    result = FinalResult(
        run_id=profile.run_id,
        outcome=FinalOutcome.NO_IMPROVEMENT,
        reason="nothing was tried",
        winner=None,
        original_sha256=profile.source_sha256,
        origin=Origin(kind=OriginKind.MEASURED),
    )
    recording = Recording(
        kernel=KERNEL,
        source=SOURCE,
        source_sha256=profile.source_sha256,
        target_sha256=file_sha256(run.root / TARGET_FILE),
        request=read_document(run.workspace.request, Request),
        environment=profile.device.environment,
        measured_at=profile.device.measured_at,
        elapsed_s=1.0,
        answers=answers.count(b"\n"),
        answers_sha256=sha256_of(answers),
        result=result,
        warpsmith="0",
    )
    recorded = RecordedRun.of(run.root / TARGET_FILE, KERNEL)
    recorded.directory.mkdir(parents=True, exist_ok=True)
    recorded.write(recording, answers, run.workspace.original.read_bytes())
    shutil.rmtree(run.workspace.directory)


@dataclass
class Benched:
    """Benches of one repository."""

    root: Path
    told: Told = field(default_factory=Told)

    @property
    def workspace(self) -> BenchWorkspace:
        return BenchWorkspace(self.root, KERNEL)

    def __call__(self, **asked: Any) -> BenchResult:
        self.workspace.create()
        return bench(self.root, load_config(self.root), self.workspace, Asked(**asked), self.told)

    def source(self, name: str, *, line: str = "") -> Path:
        """The kernel in another file, with a line more."""
        path = self.root.parent / f"{name}.py"
        path.write_text((self.root / SOURCE).read_text() + line)
        return path


def row_of(
    result: BenchResult, contender: str, *, case: str = SMALL, mode: Mode = Mode.FORWARD, l2: L2 = L2.COLD
) -> BenchRow:
    wanted = (contender, case, mode, l2)
    (row,) = [r for r in result.rows if (r.contender, r.case, r.mode, r.l2) == wanted]
    return row
