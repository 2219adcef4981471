"""A run on a small repository: the real kernel and target file, a test that passes, and a simulated GPU."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from simulated_gpu import REPOSITORY, TARGET_FILE, SimulatedGpu

from warpsmith.contracts.guarded import GuardedFiles
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalResult, SearchResult
from warpsmith.contracts.variant import Variant
from warpsmith.measure.worker.protocol import Identify, TargetRef
from warpsmith.measure.worker.stored import StoredWorker
from warpsmith.project.config import load_config
from warpsmith.project.guarded_files import guarded_files
from warpsmith.stages.finalizer import finalize
from warpsmith.stages.optimizer import optimize
from warpsmith.stages.profiler import profile
from warpsmith.stages.session import Session
from warpsmith.workspace.documents import read_document, write_document
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.store import MeasurementStore

KERNEL = "rms_norm"
SOURCE = "src/warpsmith/kernels/rms_norm.py"
#: The kernel as it was before warpsmith: the production file carries the winner of the committed example.
ORIGINAL = "optimization/rms_norm/original_rms_norm.py"
KERNEL_TESTS = "tests/kernels/test_rms_norm.py"
PASSING_TEST = "def test_the_kernel() -> None:\n    assert True\n"


def make_repository(root: Path) -> Path:
    for name, found in ((SOURCE, ORIGINAL), (TARGET_FILE, TARGET_FILE)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / found, root / name)
    (root / KERNEL_TESTS).parent.mkdir(parents=True)
    (root / KERNEL_TESTS).write_text(PASSING_TEST)
    (root / "warpsmith.yaml").write_text("test_command: python -m pytest -q -x -p no:cacheprovider\n")
    return root


@dataclass
class Told:
    """What the progress display would have shown."""

    lines: list[str] = field(default_factory=list)

    def step(self, text: str, number: int | None = None, *, of: int | None = None, at_most: int | None = None) -> None:
        self.lines.append(text)

    def note(self, text: str, done: int | None = None, total: int | None = None) -> None:
        self.lines.append(text)

    def best(self, text: str) -> None:
        self.lines.append(text)


@dataclass
class Run:
    """One run, and the GPU that answers it. Every stage opens a session of its own, as the commands do."""

    root: Path
    gpu: SimulatedGpu
    told: Told = field(default_factory=Told)

    @classmethod
    def of(cls, root: Path) -> Run:
        return cls(root, SimulatedGpu(root))

    @classmethod
    def begin(cls, root: Path) -> Run:
        begun = cls.of(root)
        begun.workspace.create()
        begun.ask_for(autonomous=True)
        return begun

    def ask_for(self, **fields: Any) -> None:
        """Writes request.json."""
        request = Request(kernel=KERNEL, run_id="20260131T000000Z-000000", created_at="2026-01-31T00:00:00+00:00")
        write_document(self.workspace.request, Request.model_validate({**request.model_dump(), **fields}))

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.root, KERNEL)

    @property
    def production(self) -> Path:
        return self.root / SOURCE

    def session(self) -> Session:
        path = self.root / TARGET_FILE
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        target = TargetRef(path=str(path), root=str(self.root), sha256=digest)
        store = MeasurementStore(self.workspace.measurements)
        worker = StoredWorker(store, self.gpu, Identify(target=target), offline=self.gpu)
        request = read_document(self.workspace.request, Request)
        return Session(self.root, load_config(self.root), self.workspace, request, worker, target, self.told)

    def profile(self) -> Profile:
        """Measures its ceilings itself: those of another simulated GPU would have been read at another time."""
        with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, {"WARPSMITH_CACHE": cache}):
            return profile(self.session())

    def optimize(self) -> SearchResult:
        return optimize(self.session())

    def finalize(self) -> FinalResult:
        return finalize(self.session())

    def left_by_a_kill(self, content: bytes) -> None:
        """The production file as a finalize leaves it that was killed while the winner's tests ran."""
        self.workspace.log("applying")
        self.production.write_bytes(content)

    def variants(self) -> tuple[Variant, ...]:
        return tuple(read_document(path, Variant) for path in self.workspace.variant_records())

    def configure(self, line: str) -> None:
        """Adds a line to warpsmith.yaml, as though it had been there from the start."""
        with (self.root / "warpsmith.yaml").open("a") as file:
            file.write(f"{line}\n")
        self.guard_anew()

    def write_tests(self, text: str) -> None:
        """The kernel's own tests, as though they had been these from the start."""
        (self.root / KERNEL_TESTS).write_text(text)
        self.guard_anew()

    def guard_anew(self) -> None:
        """Takes what decides about the winner as it is now, as though it had been so from the start."""
        path = self.workspace.guarded
        if path.is_file():
            then = read_document(path, GuardedFiles)
            files = guarded_files(self.root, then.target_file, then.tests, source=then.source)
            write_document(path, then.model_copy(update={"files": files}))
