"""The raw answers that a run's figures are made of, and whether they are still what was written.

Goes by no hash or identity that the worker computed: they are computed here anew. Reads only.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from warpsmith.contracts.device import Environment
from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.recording import Recording
from warpsmith.contracts.request import Request
from warpsmith.contracts.verification import Difference
from warpsmith.measure.worker.identity import PROTOCOL_VERSION
from warpsmith.measure.worker.misses import asked_for
from warpsmith.measure.worker.protocol import ANSWER_TYPES, WorkerFailure
from warpsmith.measure.worker.stored import FAILURE, OFFLINE_KINDS, UNBOUND_KINDS
from warpsmith.project.recordings import RecordedRun
from warpsmith.project.snapshot import sha256_of
from warpsmith.stages.differences import compare_documents
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.store import HASHED_SINCE_PROTOCOL, MeasurementStore, content_sha256


@dataclass(frozen=True)
class Samples:
    """The file of answers, by the name that it is told by. `recording` is set where it is one; `notes` are told.

    `another` says that a recording lies there which is not the one that the run replayed.
    """

    store: MeasurementStore
    name: str
    recording: Recording | None = None
    notes: tuple[str, ...] = ()
    another: Difference | None = None


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
        if not recorded.answers.is_file():
            raise UsageError(
                f"{recorded.answers} is not there, though {recorded.document.name} beside it is",
                next_command=f"git checkout -- {shlex.quote(str(recorded.answers))}",
            )
        name = recorded.answers.relative_to(workspace.root).as_posix()
        return Samples(MeasurementStore(recorded.answers), name, recording)
    if has_own:
        note = "the recording that was replayed is not there any more: its answers as the run had copied them were used"
        another = None if recording is None else _another(workspace.relative(recorded.document), recording, request)
        return Samples(own.store, own.name, notes=(note,), another=another)
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


def _another(name: str, recording: Recording, request: Request) -> Difference:
    there, replayed = (
        "none" if each is None else f"{each.answers_sha256[:12]} ({each.gpu}, {each.date})"
        for each in (recording.reference, request.recording)
    )
    found = f"is of answers {there}, and request.json says that {replayed} were replayed"
    return Difference(document=name, found=found)


def damage_of(samples: Samples) -> Iterator[Difference]:
    """What shows by itself that it is not as it was written. Raises UsageError where the file cannot be read."""
    if samples.another is not None:
        yield samples.another
    if samples.recording is not None:
        yield from _damage_of_recording(samples.store.path, samples.name, samples.recording)
    for number, record in enumerate(samples.store.written(), start=1):
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


def otherwise_recorded(
    run: Workspace, recorded: RecordedRun, recording: Recording, request: Request, profile: Profile
) -> Iterator[Difference]:
    """Where the rest of a recording is not what its answers give as `profile`, nor what the run has that became it."""
    name = run.relative(recorded.document)
    for field, found, expected in (
        ("kernel", recording.kernel, profile.kernel),
        ("source", recording.source, profile.source),
        ("source_sha256", recording.source_sha256, profile.source_sha256),
        ("measured_at", recording.measured_at, profile.device.measured_at),
    ):
        if found != expected:
            yield Difference(document=name, place=field, found=found, expected=expected)
    if changes := profile.device.environment.changes_since(recording.environment.model_dump(mode="json")):
        found = f"is another than the answers were measured on: {', '.join(changes)}".replace(", now ", ", there ")
        yield Difference(document=name, place="environment", found=found)
    original = sha256_of(recorded.original.read_bytes()) if recorded.original.is_file() else "not there"
    if original != recording.source_sha256:
        expected = recording.source_sha256
        yield Difference(
            document=run.relative(recorded.original), place="its sha256", found=original, expected=expected
        )
    if request.recording is not None:
        return
    for path, document in ((run.request, recording.request), (run.final_result, recording.result)):
        if path.is_file():
            as_recorded = document.model_dump_json().encode()
            yield from compare_documents(path.name, path.read_bytes(), as_recorded, type(document)).differences
        else:
            yield Difference(document=path.name, found=f"is not there, and {name} has it")


def _damage(record: Mapping[str, Any]) -> Iterator[str]:
    """Identity, hash of the whole, and form of one record. One of another protocol counts nowhere."""
    question, answer, kind = record["question"], record["answer"], record["kind"]
    versions = range(1, PROTOCOL_VERSION + 1)
    protocol = next((each for each in versions if _identity(question, each) == record["identity"]), None)
    if protocol is None:
        yield "its identity is not the hash of its question: the question was changed after it was asked"
    if "sha256" in record and record["sha256"] != content_sha256(record):
        yield "is not what was written: its own sha256 is of something else"
    if "sha256" not in record and max(protocol or 0, record.get("protocol", 0)) >= HASHED_SINCE_PROTOCOL:
        yield f"has no sha256, which every answer has since protocol {HASHED_SINCE_PROTOCOL}"
    if protocol != PROTOCOL_VERSION:
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
    copies: dict[str, list[Mapping[str, Any]]] = {}
    for copy in MeasurementStore(workspace.measurements).written():
        copies.setdefault(copy["identity"], []).append(copy)
    for identity, record in asked.items():
        if record["kind"] in OFFLINE_KINDS:
            continue
        if identity not in copies:
            yield Difference(document=name, place=told(record), found="is not there, though the run follows from it")
        elif any({**copy, "replayed": True} != {**record, "replayed": True} for copy in copies[identity]):
            yield Difference(document=name, place=told(record), found="is not what the recording has")


def told(record: Mapping[str, Any], number: int | None = None) -> str:
    """A record in a few words: its kind, and what was asked."""
    try:
        asked = ", ".join(f"{key}={value}" for key, value in asked_for(record["question"]).items())
    except (ValidationError, KeyError, TypeError, AttributeError):
        asked = ""
    of = "" if number is None else f"answer {number}, "
    return f"{of}{record['kind']}" + (f" ({asked})" if asked else "")
