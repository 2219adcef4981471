"""However a run's answers are damaged, `verify` names it, or says in one error what cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from simulated_run import Run
from tampering import Record, double_the_original, edit, edit_answer, records, rewrite, told, verified

from warpsmith.contracts.errors import UsageError
from warpsmith.workspace.store import content_sha256


def no_hash(record: Record) -> None:
    del record["sha256"]


def no_samples_at_all(record: Record) -> None:
    record["answer"]["blocks"] = []


def no_time_at_all(record: Record) -> None:
    for block in record["answer"]["blocks"]:
        block["samples_ms"] = [0.0 for _ in block["samples_ms"]]


def endless_times(record: Record) -> None:
    for block in record["answer"]["blocks"]:
        block["samples_ms"] = [1e308 for _ in block["samples_ms"]]


def answered(**fields: Any) -> Callable[[Record], None]:
    return lambda record: record["answer"].update(fields)


def test_an_answer_without_the_hash_that_its_protocol_has_is_named(profiled: Run) -> None:
    edit_answer(profiled, no_hash)
    (line,) = told(verified(profiled))
    assert line.endswith("has no sha256, which every answer has since protocol 2")


def test_an_answer_that_says_an_older_protocol_than_it_was_asked_by_needs_its_hash_too(profiled: Run) -> None:
    def older(record: Record) -> None:
        no_hash(record)
        record["protocol"] = 1

    edit_answer(profiled, older)
    assert any(
        line.endswith("has no sha256, which every answer has since protocol 2") for line in told(verified(profiled))
    )


def test_an_answer_that_a_later_one_replaced_has_to_be_as_it_was_written_too(profiled: Run) -> None:
    found = records(profiled)
    earlier = json.loads(json.dumps(next(record for record in found if record["kind"] == "time")))
    double_the_original(earlier)
    rewrite(profiled, [earlier, *found])
    (line,) = told(verified(profiled))
    assert line.startswith("measurements.jsonl: answer 1, time (case=")
    assert line.endswith("is not what was written: its own sha256 is of something else")


@pytest.mark.parametrize("change", [no_samples_at_all, no_time_at_all, endless_times])
def test_answers_that_no_figure_follows_from_end_the_stage_and_not_the_command(
    profiled: Run, change: Callable[[Record], None]
) -> None:
    found = records(profiled)
    for record in found:
        if record["kind"] == "time":
            change(record)
            record["sha256"] = content_sha256(record)
    no_hash(next(record for record in found if record["kind"] == "memory"))
    rewrite(profiled, found)
    verification = verified(profiled)
    lines = told(verification)
    assert any(line.endswith("has no sha256, which every answer has since protocol 2") for line in lines)
    assert any(": stage profile: the answers do not lead to where the run says: " in line for line in lines)
    assert verification.stages == ()


@pytest.mark.parametrize(
    "change",
    [
        answered(tests=[5]),
        answered(tests=["a\0b"]),
        answered(tests=["src/warpsmith/kernels/rms_norm.py/x"]),
        answered(source="a\0b.py"),
        answered(source="optimization/rms_norm"),
        answered(failure=3),
    ],
)
def test_a_description_of_the_target_that_cannot_be_is_named(profiled: Run, change: Callable[[Record], None]) -> None:
    edit_answer(profiled, change, kind="describe", signed=True)
    verification = verified(profiled)
    assert any(line.startswith("measurements.jsonl: ") for line in told(verification))
    assert verification.stages == ()


def test_a_description_that_was_asked_of_no_target_is_named(profiled: Run) -> None:
    edit_answer(profiled, lambda record: record["question"].update(target=None), kind="describe", signed=True)
    found = told(verified(profiled))
    assert any(line.startswith("measurements.jsonl: ") and "its identity is not the hash" in line for line in found)


@pytest.mark.parametrize("source", ["", ".", "/etc/x.py", "../x.py", "a\0b.py"])
def test_a_profile_of_a_source_that_is_none_of_the_repository_is_damaged(profiled: Run, source: str) -> None:
    path = profiled.workspace.profile
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "source": source}))
    with pytest.raises(UsageError, match=r"profile\.json is damaged.*source: .*expected a path below"):
        verified(profiled)


def test_a_profile_of_another_source_than_was_measured_is_named(profiled: Run) -> None:
    path = profiled.workspace.profile
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "source": "optimization/rms_norm"}))
    (line,) = told(verified(profiled))
    assert line.startswith('profile.json: source is "optimization/rms_norm", the samples give "src/')


def test_an_event_of_another_form_is_no_harm(profiled: Run) -> None:
    with profiled.workspace.ledger.open("a") as file:
        file.write('{"at": "2030-01-01"}\n{"event": "gpu_shared"}\n')
    assert verified(profiled).stages == ("profile",)


def test_what_no_answer_says_anything_of_is_told(profiled: Run) -> None:
    edit(profiled.workspace.request, '"device": "auto"', '"device": "7"')
    found = verified(profiled)
    assert told(found) == []
    assert [left_out.partition(":")[0] for left_out in found.left_out] == [
        "plots",
        "created_at, device and time_budget_s of request.json",
        "the ledger, the approvals and the logs",
    ]
