"""What a stage works with: the run's workspace and request, a worker that remembers, and someone to tell."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.errors import PreflightError, Unavailable
from warpsmith.contracts.measurement import SourceRef
from warpsmith.contracts.request import Request
from warpsmith.contracts.target import TargetSpec
from warpsmith.device.gpus import Gpu, choose, gpus
from warpsmith.measure.worker.process import LiveWorkers, ProcessWorker
from warpsmith.measure.worker.protocol import Answer, AnyQuestion, Describe, Identify, TargetRef, WorkerError, answer_of
from warpsmith.measure.worker.stored import StoredWorker
from warpsmith.project.config import ProjectConfig
from warpsmith.project.discover import find_target
from warpsmith.project.snapshot import file_sha256, sha256_of
from warpsmith.search.bench import Bench
from warpsmith.workspace.documents import write_text
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.lock import gpu_lock
from warpsmith.workspace.store import MeasurementStore

#: Chosen: compiling is CPU work; more processes than this only wait for each other's CUDA start-up.
MAX_COMPILE_WORKERS = 8


class Progress(Protocol):
    """Whoever follows a long run. `step` starts something, `note` tells a detail, `best` the best so far."""

    def step(self, text: str, done: int | None = None, total: int | None = None) -> None: ...

    def note(self, text: str) -> None: ...

    def best(self, text: str) -> None: ...


@dataclass
class Session:
    """One command's hold on a run. Open it with `open_session`."""

    root: Path
    config: ProjectConfig
    workspace: Workspace
    request: Request
    worker: StoredWorker
    target: TargetRef
    progress: Progress

    def ask(self, question: AnyQuestion, answer_type: type[Answer]) -> Answer:
        """The answer. Raises WorkerError where there is none."""
        return answer_of(self.worker, question, answer_type)

    def describe(self) -> TargetSpec:
        """The target as data, read anew from its file. Raises PreflightError."""
        assert self.worker.live is not None
        try:
            spec = self.worker.live.ask(Describe(target=self.target))
        except WorkerError as error:
            raise PreflightError(
                f"the target cannot be loaded: {error}", next_command=f"edit {self.target.path}"
            ) from error
        assert isinstance(spec, TargetSpec)
        return spec

    @property
    def original(self) -> SourceRef:
        """The snapshot that the run compares against."""
        return source_ref(self.workspace.original)

    def bench(self, spec: TargetSpec, device: DeviceFacts) -> Bench:
        return Bench(
            worker=self.worker,
            target=self.target,
            spec=spec,
            device=device,
            original=self.original,
            keep=self._keep,
            report=self.progress.note,
            seed=self.request.seed,
        )

    def _keep(self, name: str, text: str) -> SourceRef:
        digest = sha256_of(text.encode())
        path = self.workspace.scratch / f"{name}_{digest[:12]}.py"
        if not path.is_file():
            write_text(path, text)
        return SourceRef(path=str(path), sha256=digest)


def source_ref(path: Path) -> SourceRef:
    """The file by its content. Raises PreflightError where it cannot be read."""
    return SourceRef(path=str(path), sha256=file_sha256(path))


@contextmanager
def open_session(
    root: Path, config: ProjectConfig, workspace: Workspace, request: Request, progress: Progress
) -> Iterator[Session]:
    """A session with a live worker on the GPU that the request names. Raises Unavailable where there is none."""
    target_path = find_target(root, config, request.kernel)
    target = TargetRef(path=str(target_path), root=str(root), sha256=file_sha256(target_path))
    gpu = gpu_for(request.device)
    with gpu_lock(gpu.uuid):
        live = _live_workers(root, workspace, gpu)
        worker = StoredWorker(MeasurementStore(workspace.measurements), live, Identify(target=target))
        try:
            yield Session(root, config, workspace, request, worker, target, progress)
        finally:
            worker.close()


def gpu_for(device: str) -> Gpu:
    """The GPU that a request names. Raises Unavailable where it is not there."""
    gpu = choose(device)
    if gpu is None:
        found = gpus()
        told = found.reason or f"NVML lists {', '.join(gpu.name for gpu in found.gpus) or 'none'}"
        raise Unavailable(f"no GPU {device!r} here: {told}", next_command="warpsmith doctor")
    return gpu


def _live_workers(root: Path, workspace: Workspace, gpu: Gpu) -> LiveWorkers:
    compilers = min(MAX_COMPILE_WORKERS, max(1, (os.cpu_count() or 2) - 1))
    return LiveWorkers(
        measuring=ProcessWorker(root, workspace.worker_log, gpu.uuid),
        compiling=tuple(ProcessWorker(root, workspace.worker_log, gpu.uuid) for _ in range(compilers)),
    )
