"""Which recording a run replays, and how a finished run becomes one."""

from __future__ import annotations

import shlex
import tempfile
from datetime import datetime
from pathlib import Path

from warpsmith import __version__
from warpsmith.contracts.errors import Rejected, Unavailable, UsageError
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.recording import Recording
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalOutcome, FinalResult
from warpsmith.contracts.target import TargetSpec
from warpsmith.device.gpus import choose, gpus
from warpsmith.measure.worker.protocol import Describe, answer_of
from warpsmith.measure.worker.stored import OFFLINE_KINDS, UNBOUND_KINDS, same_environment
from warpsmith.project.demonstration import copy_repository, is_demonstration
from warpsmith.project.recordings import RecordedRun
from warpsmith.project.snapshot import file_sha256, read_source, sha256_of
from warpsmith.stages.in_place import FINISHED
from warpsmith.stages.preflight import preflight_without_gpu
from warpsmith.stages.session import target_ref, worker_without_gpu
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.store import MeasurementStore

#: The device that replays a recording where there is a GPU too.
RECORDED = "recorded"


def recording_to_replay(
    root: Path, target_path: Path, kernel: str, device: str, *, to_bench: bool = False
) -> Recording | None:
    """What a new run replays; None where a GPU measures. "auto" replays where there is no GPU.

    `to_bench` is for the source as it lies there: a demonstration, which ends with the winner in place, is no way to
    that, and what needs no GPU to be seen is looked at first. A run's first stage has a prediction for that.
    Raises Unavailable where there is neither, or where source or target are not those of the recording.
    """
    if device != RECORDED and (device != "auto" or choose("auto") is not None):
        return None
    recorded = RecordedRun.of(target_path, kernel)
    recording = recorded.read()
    if recording is None:
        missing, next_command = f"no recording of {kernel} in {recorded.directory}", "warpsmith doctor"
        if device != RECORDED:
            if to_bench:
                preflight_without_gpu(root, target_path)
            missing = f"no GPU here ({gpus().reason or 'NVML lists none'}), and {missing}"
        if device != RECORDED and not to_bench:
            next_command = f"warpsmith profile {kernel} --target-gpu hopper   (which predicts, and needs neither)"
        raise Unavailable(missing, next_command=next_command)
    told = f"the recording of {kernel} ({recording.origin})"
    if file_sha256(target_path) != recording.target_sha256:
        raise Unavailable(
            f"{told} was made with another {target_path.relative_to(root).as_posix()}",
            next_command=f"warpsmith record {kernel}   (on a machine with a GPU)",
        )
    if (found := file_sha256(root / recording.source)) != recording.source_sha256:
        raise _of_another_source(root, recorded, recording, found, to_bench=to_bench)
    return recording


def _of_another_source(
    root: Path, recorded: RecordedRun, recording: Recording, found: str, *, to_bench: bool
) -> Unavailable:
    """What is recorded is not of the source as it is, with the shortest way to what replays. Edits are not undone."""
    kernel, told = recorded.kernel, f"the recording of {recorded.kernel} ({recording.origin})"
    is_winner = found == recording.result.applied_sha256
    if is_winner:
        told += f" is of the kernel as it was before its run, and {recording.source} is the winner that the run applied"
    else:
        told += f" is of {recording.source} with sha256 {recording.source_sha256[:12]}, here it has {found[:12]}"
    restore = f"cp {shlex.quote(str(recorded.original.relative_to(root)))} {shlex.quote(recording.source)}"
    if is_demonstration(root):
        return Unavailable(f"{told}; put back as it was, it replays", next_command=restore)
    if to_bench and is_winner:
        again = f"{restore} && warpsmith bench {kernel}"
        return Unavailable(f"{told}; put back as it was, it replays", next_command=again)
    if to_bench:
        return Unavailable(told, next_command=f"warpsmith bench {kernel}   (on a machine with a GPU)")
    return Unavailable(
        f"{told}; a demonstration copy replays it on the source as it was", next_command=f"warpsmith demo {kernel}"
    )


def recording_of(workspace: Workspace, target_path: Path) -> tuple[Recording, bytes]:
    """A finished, measured run as a recording, and its answers as they are stored.

    Raises UsageError where the run is not finished, Rejected where it was not measured, or not all of it on one kind of
    GPU and by one set of software.
    """
    if not workspace.final_result.is_file():
        raise UsageError(f"no finished run of {workspace.kernel}", next_command=f"warpsmith next {workspace.kernel}")
    request, result = read_document(workspace.request, Request), read_document(workspace.final_result, FinalResult)
    profile = read_document(workspace.profile, Profile)
    if request.recording is not None:
        raise Rejected("this run replayed a recording; only a measured run can be recorded")
    if result.outcome is FinalOutcome.REVERTED:
        raise Rejected(f"a run that ended {result.outcome.value} is not worth showing: {result.reason}")
    environment = profile.device.environment
    for record in MeasurementStore(workspace.measurements).records():
        bound = record["kind"] not in OFFLINE_KINDS | UNBOUND_KINDS
        if bound and not same_environment(record["environment"], environment):
            raise Rejected(f"an answer to {record['kind']!r} was not measured on what the profile was measured on")
    answers = workspace.measurements.read_bytes()
    recording = Recording(
        kernel=workspace.kernel,
        source=profile.source,
        source_sha256=profile.source_sha256,
        target_sha256=file_sha256(target_path),
        request=request,
        environment=environment,
        measured_at=profile.device.measured_at,
        elapsed_s=_elapsed_s(workspace, request),
        answers=answers.count(b"\n"),
        answers_sha256=sha256_of(answers),
        result=result,
        warpsmith=__version__,
    )
    return recording, answers


def _elapsed_s(workspace: Workspace, request: Request) -> float:
    """From the request to the report, by the ledger."""
    finished = next(event for event in reversed(workspace.events()) if event["event"] == FINISHED)
    began, ended = (datetime.fromisoformat(text) for text in (request.created_at, str(finished["at"])))
    return (ended - began).total_seconds()


def demonstration_copy(root: Path, target_path: Path, kernel: str, into: Path | None) -> Path:
    """A scratch copy of the repository with the kernel as it was before the recorded run; one that is there is kept.

    `into` None is a new folder among the temporary files. Raises UsageError where nothing is recorded.
    """
    recorded = RecordedRun.of(target_path, kernel)
    recording = recorded.read()
    if recording is None:
        raise UsageError(
            f"nothing to demonstrate: no recording of {kernel} in {recorded.directory}",
            next_command=f"warpsmith record {kernel}   (on a machine with a GPU)",
        )
    return _copy(root, kernel, into, recording.source, recorded.original_bytes(recording))


def source_of(root: Path, target_path: Path) -> str:
    """The source file that a target names. Raises WorkerError where the target cannot be loaded."""
    with worker_without_gpu(root) as worker:
        return answer_of(worker, Describe(target=target_ref(root, target_path)), TargetSpec).source


def copy_to_record(root: Path, target_path: Path, kernel: str, source: str, into: Path | None) -> Path:
    """A scratch copy to measure in, with the kernel as it is.

    Where that is the winner of the run on record, the copy has the kernel as it was before that run: a recording is
    renewed, not continued.
    """
    original = read_source(root / source)
    recorded = RecordedRun.of(target_path, kernel)
    recording = recorded.read()
    if recording is not None and sha256_of(original) == recording.result.applied_sha256:
        original = recorded.original_bytes(recording)
    return _copy(root, kernel, into, source, original)


def _copy(root: Path, kernel: str, into: Path | None, source: str, original: bytes) -> Path:
    destination = into or Path(tempfile.mkdtemp(prefix=f"warpsmith-{kernel}-")) / root.name
    if not is_demonstration(destination, of=root):
        copy_repository(root, destination, source=source, original=original)
    return destination.resolve()
