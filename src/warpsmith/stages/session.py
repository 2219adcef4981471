"""What a stage works with: the run's workspace and request, a worker that remembers, and someone to tell."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from warpsmith.contracts.device import DeviceFacts, Origin, OriginKind
from warpsmith.contracts.errors import PreflightError, Unavailable, UsageError
from warpsmith.contracts.measurement import SourceRef
from warpsmith.contracts.request import RecordingRef, Request
from warpsmith.contracts.target import TargetSpec
from warpsmith.device.builds import require_nvidia
from warpsmith.device.gpus import Gpu, choose, gpus
from warpsmith.measure.worker.live import LiveWorkers
from warpsmith.measure.worker.process import ProcessWorker
from warpsmith.measure.worker.protocol import Answer, AnyQuestion, Describe, Identify, TargetRef, WorkerError, answer_of
from warpsmith.measure.worker.stored import StoredWorker
from warpsmith.project.apply import with_line_endings_of
from warpsmith.project.config import ProjectConfig
from warpsmith.project.discover import find_target
from warpsmith.project.recordings import RecordedRun
from warpsmith.project.snapshot import file_sha256, read_source, sha256_of
from warpsmith.search.bench import Bench
from warpsmith.source.encoding import decoded, encoded
from warpsmith.workspace.documents import write_bytes
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.lock import gpu_lock
from warpsmith.workspace.store import MeasurementStore

#: Chosen: compiling is CPU work; more processes than this only wait for each other's CUDA start-up.
MAX_COMPILE_WORKERS = 8

#: The ledger's event for a GPU that others compute on as well; `pids` are theirs.
GPU_SHARED = "gpu_shared"

#: The UUID that no GPU has: a process that is given it sees none.
NO_GPU = ""


class Progress(Protocol):
    """Whoever follows a long run. `step` starts something: number so many `of` all, or of those `at_most` to come.

    `note` tells a detail: what has happened, or, with counts, what begins now that `done` of `total` such items are
    finished. `best` tells the best so far.
    """

    def step(
        self, text: str, number: int | None = None, *, of: int | None = None, at_most: int | None = None
    ) -> None: ...

    def note(self, text: str, done: int | None = None, total: int | None = None) -> None: ...

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
    #: seconds from some fixed moment on, for the time budget of a search
    clock: Callable[[], float] = time.monotonic

    def ask(self, question: AnyQuestion, answer_type: type[Answer]) -> Answer:
        """The answer. Raises WorkerError where there is none."""
        return answer_of(self.worker, question, answer_type)

    def describe(self) -> TargetSpec:
        """The target as data, read anew from its file; on replay as recorded, but for the source as it is now.

        Raises PreflightError where it cannot be loaded.
        """
        return described(self.worker, self.target)

    def origin(self, device: DeviceFacts) -> Origin:
        """Where this run's figures come from."""
        if self.request.predicted:
            return Origin(kind=OriginKind.PREDICTED, gpu=device.name)
        return origin_of(device, replayed=self.request.recording is not None)

    def expect_environment_of(self, device: DeviceFacts) -> None:
        """Raises Unavailable where this run was profiled on another GPU or software than there is now."""
        if self.worker.live is None:
            return
        today, then = self.worker.environment(), device.environment
        if changes := today.changes_since(then.model_dump(mode="json")):
            raise Unavailable(
                f"run {self.request.run_id} was profiled with {'; '.join(changes)}: what is measured now would not "
                "compare",
                next_command=f"warpsmith run {self.request.kernel} --fresh",
            )

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
            l2=self.request.l2,
            thresholds=self.config.thresholds,
        )

    def _keep(self, name: str, text: str) -> SourceRef:
        original = read_source(self.workspace.original)
        return kept(self.workspace, name, with_line_endings_of(original, encoded(text, original)))


def described(worker: StoredWorker, target: TargetRef) -> TargetSpec:
    """The target as data, read anew from its file; on replay as recorded, but for the source as it is now.

    Raises PreflightError where it cannot be loaded.
    """
    question = Describe(target=target)
    if worker.live is None:
        recorded = answer_of(worker, question, TargetSpec)
        return recorded.model_copy(update={"source_sha256": file_sha256(Path(target.root) / recorded.source)})
    try:
        spec = answer_of(worker.live, question, TargetSpec)
    except WorkerError as error:
        raise PreflightError(
            f"the target cannot be loaded: {error}", next_command=f"edit {shlex.quote(target.path)}"
        ) from error
    worker.remember(question, spec)
    return spec


def origin_of(device: DeviceFacts, *, replayed: bool) -> Origin:
    kind = OriginKind.RECORDED if replayed else OriginKind.MEASURED
    return Origin(kind=kind, gpu=device.name, date=device.measured_at[:10])


def kept(workspace: Workspace, name: str, content: bytes) -> SourceRef:
    """A source that is measured as it is now, whatever becomes of the file that it was read from."""
    digest = sha256_of(content)
    path = workspace.scratch / f"{name}_{digest[:12]}.py"
    if not path.is_file() or file_sha256(path) != digest:
        write_bytes(path, content)
    return SourceRef(path=str(path), sha256=digest)


def target_ref(root: Path, path: Path) -> TargetRef:
    """A target file by its content. Raises PreflightError where it cannot be read."""
    return TargetRef(path=str(path), root=str(root), sha256=file_sha256(path))


def source_ref(path: Path) -> SourceRef:
    """The file by its content. Raises PreflightError where it cannot be read."""
    return SourceRef(path=str(path), sha256=file_sha256(path))


def text_of(path: Path) -> str:
    """A source as text. Raises PreflightError where it cannot be read, or not as Python would read it."""
    return decoded(read_source(path), str(path))


@contextmanager
def open_session(
    root: Path, config: ProjectConfig, workspace: Workspace, request: Request, progress: Progress
) -> Iterator[Session]:
    """A session that measures on the GPU that the request names, or replays the recording that the run began with.

    Raises Unavailable where there is no such GPU, UsageError where there is no such recording any more.
    """
    target_path = find_target(root, config, request.kernel)
    target = target_ref(root, target_path)
    answers = None
    if request.recording is not None:
        progress.note(replaying_told(request.recording))
        answers = recorded_answers(target_path, request)
    with opened_worker(root, workspace, target, request.device, answers, tell=progress.note) as worker:
        yield Session(root, config, workspace, request, worker, target, progress)


def replaying_told(replayed: RecordingRef) -> str:
    return f"replaying what was recorded on {replayed.gpu}, {replayed.date}; nothing is measured here"


@contextmanager
def opened_worker(
    root: Path,
    workspace: Workspace,
    target: TargetRef,
    device: str,
    answers: MeasurementStore | None,
    *,
    tell: Callable[[str], None],
) -> Iterator[StoredWorker]:
    """A worker that keeps its answers in the workspace: a recording's `answers`, else those of the GPU `device`.

    Tells why stored answers do not count, and who else computes on that GPU; the latter is written down too. Raises
    Unavailable where there is no such GPU.
    """
    store, identify = MeasurementStore(workspace.measurements), Identify(target=target)
    offline = ProcessWorker(root, workspace.worker_log, gpu_uuid=NO_GPU)
    with ExitStack() as stack:
        if answers is not None:
            worker = StoredWorker(store, None, identify, recording=answers, offline=offline)
        else:
            gpu = gpu_for(device)
            stack.enter_context(gpu_lock(gpu.uuid))
            _warn_of_others(gpu_for(gpu.uuid), workspace, tell)  # as it is now that the lock is held
            worker = StoredWorker(store, _live_workers(root, workspace, gpu), identify, offline=offline)
        stack.callback(worker.close)
        worker.told = tell
        yield worker


def _warn_of_others(gpu: Gpu, workspace: Workspace, tell: Callable[[str], None]) -> None:
    if gpu.other_processes:
        pids = ", ".join(map(str, gpu.other_processes))
        tell(f"other processes compute on {gpu.name} ({pids}): figures may be off")
        workspace.log(GPU_SHARED, pids=list(gpu.other_processes))


def recorded_answers(target_path: Path, request: Request) -> MeasurementStore:
    """What the run replays. Raises UsageError where that recording is not there any more."""
    recorded = RecordedRun.of(target_path, request.kernel)
    recording = recorded.read()
    if recording is None or recording.reference != request.recording:
        raise UsageError(
            f"run {request.run_id} of {request.kernel} replays a recording that {recorded.directory} no longer holds",
            next_command=f"warpsmith run {request.kernel} --fresh",
        )
    return recorded.store(recording)


def gpu_for(device: str) -> Gpu:
    """The GPU that a request names. Raises Unavailable where it is not there, or torch is built for another maker's."""
    require_nvidia()
    gpu = choose(device)
    if gpu is None:
        found = gpus()
        told = found.reason or f"NVML lists {', '.join(gpu.name for gpu in found.gpus) or 'none'}"
        asked = "" if device == "auto" else f" {device!r}"
        raise Unavailable(f"no GPU{asked} here: {told}", next_command="warpsmith doctor")
    return gpu


@contextmanager
def worker_without_gpu(root: Path) -> Iterator[ProcessWorker]:
    """A worker for what needs no GPU, outside any run."""
    with worker_outside_runs(root, NO_GPU) as worker:
        yield worker


@contextmanager
def worker_outside_runs(root: Path, gpu_uuid: str, *, interprets: bool = False) -> Iterator[ProcessWorker]:
    """A worker that leaves nothing behind. With `interprets`, Triton's interpreter runs the kernels, on CPU tensors."""
    with tempfile.TemporaryDirectory() as folder:
        worker = ProcessWorker(root, Path(folder) / "worker.log", gpu_uuid=gpu_uuid, interprets=interprets)
        try:
            yield worker
        finally:
            worker.close()


def _live_workers(root: Path, workspace: Workspace, gpu: Gpu) -> LiveWorkers:
    compilers = min(MAX_COMPILE_WORKERS, max(1, (os.cpu_count() or 2) - 1))
    return LiveWorkers(
        measuring=ProcessWorker(root, workspace.worker_log, gpu.uuid),
        compiling=tuple(ProcessWorker(root, workspace.worker_log, gpu.uuid) for _ in range(compilers)),
    )
