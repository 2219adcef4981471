"""The raw answers that a run's figures are made of, and whether they are still what was written.

Goes by no hash or identity that the worker computed: they are computed here anew. Reads only.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from warpsmith.contracts.device import Environment
from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.recording import Recording
from warpsmith.contracts.request import Request
from warpsmith.contracts.verification import Difference
from warpsmith.measure.worker.misses import asked_for
from warpsmith.measure.worker.protocol import ANSWER_TYPES, PROTOCOL_VERSION, WorkerFailure
from warpsmith.measure.worker.stored import FAILURE, OFFLINE_KINDS, UNBOUND_KINDS
from warpsmith.project.recordings import RecordedRun
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.store import MeasurementStore, content_sha256


@dataclass(frozen=True)
class Samples:
    """The file of answers, by the name that it is told by. `recording` is set where it is one; `notes` are told."""

    store: MeasurementStore
    name: str
    recording: Recording | None = None
    notes: tuple[str, ...] = ()


def samples_of(workspace: Workspace, request: Request, recorded: RecordedRun) -> Samples:
    """What a run's figures were made of: its own answers, or the recording's where it replayed one or became one.

    Raises UsageError where they are gone or cannot be read.
    """
    own = Samples(MeasurementStore(workspace.measurements), workspace.measurements.name)
    has_own = workspace.measurements.is_file()
    if request.recording is None and has_own:
        return own
    recording = recorded.read()
    if recording is not None and _is_of(recording, request):
        name = recorded.answers.relative_to(workspace.root).as_posix()
        return Samples(MeasurementStore(recorded.answers), name, recording)
    if has_own:
        note = "the recording that was replayed is not there any more: its answers as the run had copied them were used"
        return Samples(own.store, own.name, notes=(note,))
    raise UsageError(
        f"nothing to verify run {request.run_id} of {request.kernel} with: its raw answers, "
        f"{workspace.relative(workspace.measurements)}, are not there, and no recording in "
        f"{recorded.directory} is of it",
        next_command=f"warpsmith run {request.kernel} --fresh",
    )


def _is_of(recording: Recording, request: Request) -> bool:
    if request.recording is not None:
        return recording.reference == request.recording
    return recording.request.run_id == request.run_id


def damage_of(samples: Samples) -> Iterator[Difference]:
    """What shows by itself that it is not as it was written. Raises UsageError where the file cannot be read."""
    if samples.recording is not None:
        yield from _damage_of_recording(samples.store.path, samples.name, samples.recording)
    for number, record in enumerate(samples.store.records(), start=1):
        for found in _damage(record):
            yield Difference(document=samples.name, place=told(record, number), found=found)


def _damage_of_recording(path: Path, name: str, recording: Recording) -> Iterator[Difference]:
    answers = gzip.decompress(path.read_bytes())
    if (found := hashlib.sha256(answers).hexdigest()) != recording.answers_sha256:
        yield Difference(
            document=name, found=f"has sha256 {found[:12]}, recording.json says {recording.answers_sha256[:12]}"
        )
    if (count := answers.count(b"\n")) != recording.answers:
        yield Difference(document=name, found=f"has {count} answers, recording.json says {recording.answers}")


def _damage(record: Mapping[str, Any]) -> Iterator[str]:
    """Identity, hash of the whole, and form of one record. One of another protocol counts nowhere."""
    question, answer, kind = record["question"], record["answer"], record["kind"]
    if not any(_identity(question, version) == record["identity"] for version in range(1, PROTOCOL_VERSION + 1)):
        yield "its identity is not the hash of its question: the question was changed after it was asked"
    if record.get("sha256") not in (None, content_sha256(record)):
        yield "is not what was written: its own sha256 is of something else"
    if _identity(question, PROTOCOL_VERSION) != record["identity"]:
        return
    try:
        expected = WorkerFailure if FAILURE in answer else ANSWER_TYPES[kind]
        expected.model_validate(answer.get(FAILURE, answer))
    except (ValidationError, KeyError, TypeError, AttributeError):
        yield f"its answer is none to {kind!r}"
        return
    for name in ("case", "mode"):
        if name in question and name in answer and question[name] != answer[name]:
            yield f"its answer is of another {name} than its question"


def _identity(question: object, protocol: int) -> str:
    content = {"protocol": protocol, "question": question}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def elsewhere(asked: Iterable[Mapping[str, Any]], name: str, environment: Environment) -> Iterator[Difference]:
    """Answers that a run's figures follow from and that were not measured on what its profile says."""
    for record in asked:
        if record["kind"] in OFFLINE_KINDS | UNBOUND_KINDS:
            continue
        changes = environment.changes_since(record["environment"] or {})
        if changes:
            found = f"was not measured on what the profile says: {', '.join(changes)}".replace(", now ", ", there ")
            yield Difference(document=name, place=told(record), found=found)


def otherwise_copied(
    workspace: Workspace, samples: Samples, asked: Mapping[str, Mapping[str, Any]]
) -> Iterator[Difference]:
    """Where a replay's own copy of the recorded answers is not the recording's."""
    if samples.recording is None or not workspace.measurements.is_file():
        return
    name = workspace.measurements.name
    copies = {record["identity"]: record for record in MeasurementStore(workspace.measurements).records()}
    for identity, record in asked.items():
        copy = copies.get(identity)
        if record["kind"] in OFFLINE_KINDS:
            continue
        if copy is None:
            yield Difference(document=name, place=told(record), found="is not there, though the run follows from it")
        elif {**copy, "replayed": True} != {**record, "replayed": True}:
            yield Difference(document=name, place=told(record), found="is not what the recording has")


def told(record: Mapping[str, Any], number: int | None = None) -> str:
    """A record in a few words: its kind, and what was asked."""
    try:
        asked = ", ".join(f"{key}={value}" for key, value in asked_for(record["question"]).items())
    except (ValidationError, KeyError, TypeError, AttributeError):
        asked = ""
    of = "" if number is None else f"answer {number}, "
    return f"{of}{record['kind']}" + (f" ({asked})" if asked else "")
