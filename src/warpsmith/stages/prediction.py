"""Where nothing is run: a session whose worker sees no GPU, and what it compiles beside a profile that is there.

Its store is its own run's and holds a description and compilations alone: no prediction stands beside a measurement.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warpsmith.contracts.device import TargetGpu
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.request import Request
from warpsmith.device.known_gpus import known_gpu
from warpsmith.device.notes import device_notes
from warpsmith.measure.worker.process import ProcessWorker
from warpsmith.measure.worker.protocol import Identify
from warpsmith.measure.worker.stored import StoredWorker
from warpsmith.project.config import ProjectConfig
from warpsmith.project.discover import find_target
from warpsmith.stages.offline import compile_offline
from warpsmith.stages.session import NO_GPU, Progress, Session, source_ref, target_ref
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.store import MeasurementStore

#: What a profile is predicted for where no GPU is named.
DEFAULT_GPU = "hopper"


@contextmanager
def open_prediction(
    root: Path, config: ProjectConfig, workspace: Workspace, request: Request, progress: Progress
) -> Iterator[Session]:
    """A session that can describe and compile and run nothing, whatever there is on this machine."""
    target = target_ref(root, find_target(root, config, request.kernel))
    process = ProcessWorker(root, workspace.worker_log, gpu_uuid=NO_GPU)
    store = MeasurementStore(workspace.measurements)
    worker = StoredWorker(store, process, Identify(target=target), offline=process, told=progress.note)
    try:
        yield Session(root, config, workspace, request, worker, target, progress)
    finally:
        worker.close()


def compiled_beside(
    root: Path, config: ProjectConfig, workspace: Workspace, gpu: TargetGpu, progress: Progress
) -> Profile:
    """The profile that is there, with what its original compiles to for another GPU. Writes nothing of the run.

    Raises PreflightError where the target cannot be loaded.
    """
    request, profile = read_document(workspace.request, Request), read_document(workspace.profile, Profile)
    asked = request.model_copy(update={"target_gpu": gpu.name})
    with tempfile.TemporaryDirectory(prefix="warpsmith-beside-") as folder:
        apart = Workspace(Path(folder).resolve(), workspace.kernel)
        apart.create()
        with open_prediction(root, config, apart, asked, progress) as session:
            progress.step(f"compiling for {gpu.name}, with no GPU", 1, of=1)
            offline = compile_offline(session, session.describe(), source_ref(workspace.original), gpu)
    notes = dict.fromkeys((*profile.device_notes, *device_notes(gpu, profile.device, None)))
    return profile.model_copy(update={"offline": offline, "device_notes": tuple(notes)})


def gpu_of(request: Request) -> TargetGpu:
    """The GPU that is predicted for. Raises UsageError where it is not known any more."""
    return known_gpu(request.target_gpu or DEFAULT_GPU)
