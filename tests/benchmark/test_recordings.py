"""What a change has made stale in a recording that others replay, by name. The remedy is always `make record`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from warpsmith.contracts.recording import Recording
from warpsmith.measure.worker.identity import PROTOCOL_VERSION
from warpsmith.measure.worker.protocol import ANSWER_TYPES, AnyQuestion
from warpsmith.measure.worker.stored import FAILURE, OFFLINE_KINDS, UNBOUND_KINDS, same_environment
from warpsmith.project.recordings import RecordedRun
from warpsmith.project.snapshot import file_sha256
from warpsmith.workspace.documents import read_document

REPOSITORY = Path(__file__).resolve().parents[2]
TARGETS = REPOSITORY / "benchmark"
KERNELS = sorted(path.parent.name for path in TARGETS.glob("data/*/recording.json"))

QUESTIONS = {question.model_fields["kind"].default: question for question in get_args(get_args(AnyQuestion)[0])}
#: A path of some machine: what is recorded travels.
ABSOLUTE = re.compile(rb'[" ](/(?:home|root|usr|opt|tmp|var|mnt|work)/[^" ]*)')


def recorded_run(kernel: str) -> RecordedRun:
    return RecordedRun.of(TARGETS / f"benchmark_{kernel}.py", kernel)


def stale_in(record: dict[str, Any]) -> Iterator[str]:
    """Why the program would no longer ask this question, or no longer understand its answer."""
    kind, question = record["kind"], record["question"]
    if kind not in QUESTIONS:
        yield f"{kind}: no such question any more"
        return
    fields = set(QUESTIONS[kind].model_fields)
    if set(question) != fields:
        yield f"{kind}: its fields are {sorted(fields)}, recorded were {sorted(question)}"
    content = {"protocol": PROTOCOL_VERSION, "question": question}
    if hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest() != record["identity"]:
        yield f"{kind}: recorded by another version of the protocol than {PROTOCOL_VERSION}"
    if FAILURE not in record["answer"]:
        try:
            ANSWER_TYPES[kind].model_validate(record["answer"])
        except ValidationError as error:
            yield f"{kind}: the answer is no {ANSWER_TYPES[kind].__name__}: {error.errors()[0]['msg']}"


def test_the_run_that_the_readme_shows_is_recorded() -> None:
    assert "rms_norm" in KERNELS


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_target_is_the_one_that_was_recorded(kernel: str) -> None:
    recording = read_document(recorded_run(kernel).document, Recording)
    assert file_sha256(TARGETS / f"benchmark_{kernel}.py") == recording.target_sha256, (
        f"benchmark_{kernel}.py has changed since it was recorded: `make record` on a GPU"
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_recorded_question_would_still_be_asked_and_its_answer_understood(kernel: str) -> None:
    recorded = recorded_run(kernel)
    store = recorded.store(read_document(recorded.document, Recording))
    stale = sorted({reason for record in store.records() for reason in stale_in(record)})
    assert stale == [], "`make record` on a GPU"


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_recording_is_of_one_kind_of_gpu_and_one_set_of_software_and_counts_right(kernel: str) -> None:
    recorded = recorded_run(kernel)
    recording = read_document(recorded.document, Recording)
    records = list(recorded.store(recording).records())
    measured = [r for r in records if r["kind"] not in OFFLINE_KINDS | UNBOUND_KINDS]
    assert [r["kind"] for r in measured if not same_environment(r["environment"], recording.environment)] == []
    compiled = [r["environment"] for r in records if r["kind"] in OFFLINE_KINDS]
    assert all(each == {"triton": recording.environment.triton} for each in compiled)
    assert len(records) == recording.answers


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_path_of_the_machine_is_in_a_recording(kernel: str) -> None:
    recorded = recorded_run(kernel)
    records = recorded.store(read_document(recorded.document, Recording)).records()
    texts = [recorded.document.read_bytes(), *(json.dumps(record).encode() for record in records)]
    found = {match[1].decode() for text in texts for match in ABSOLUTE.finditer(text)}
    assert found == set()


def a_record(**changes: Any) -> dict[str, Any]:
    recorded = recorded_run("rms_norm")
    records = recorded.store(read_document(recorded.document, Recording)).records()
    return {**next(record for record in records if record["kind"] == "time"), **changes}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"kind": "divine"}, "divine: no such question any more"),
        ({"identity": "0" * 64}, f"time: recorded by another version of the protocol than {PROTOCOL_VERSION}"),
        ({"answer": {}}, "time: the answer is no Timing: Field required"),
        ({"question": {}}, "time: its fields are"),
    ],
)
def test_what_is_stale_is_named(changes: dict[str, Any], reason: str | None) -> None:
    reasons = list(stale_in(a_record(**changes)))
    assert reasons == [] if reason is None else any(each.startswith(reason) for each in reasons)
