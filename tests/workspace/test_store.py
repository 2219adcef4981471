"""Answers survive a kill, and a torn line never swallows the next one."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.contracts.errors import Unavailable, UsageError
from warpsmith.workspace.lines import append_line, read_lines
from warpsmith.workspace.store import MeasurementStore, content_sha256


def keep(store: MeasurementStore, identity: str, value: float) -> None:
    store.append(
        identity=identity,
        kind="time",
        protocol=2,
        environment={"gpu_name": "H200"},
        question={"kind": "time"},
        answer={"samples_ms": [value]},
    )


def test_an_answer_is_found_by_a_store_opened_later(tmp_path: Path) -> None:
    path = tmp_path / "measurements.jsonl"
    keep(MeasurementStore(path), "a", 0.1)

    record = MeasurementStore(path).get("a")

    assert record is not None
    assert {key: value for key, value in record.items() if key not in ("recorded_at", "sha256")} == {
        "identity": "a",
        "kind": "time",
        "protocol": 2,
        "environment": {"gpu_name": "H200"},
        "question": {"kind": "time"},
        "answer": {"samples_ms": [0.1]},
    }
    assert record["recorded_at"].endswith("+00:00")


def test_a_store_without_a_file_is_empty_and_makes_none(tmp_path: Path) -> None:
    store = MeasurementStore(tmp_path / "none.jsonl")

    assert store.get("a") is None
    assert list(store.records()) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("reopen", [False, True])
def test_of_two_answers_the_last_counts_and_both_are_kept(tmp_path: Path, reopen: bool) -> None:
    store = MeasurementStore(tmp_path / "measurements.jsonl")
    keep(store, "a", 1.0)
    keep(store, "b", 2.0)
    keep(store, "a", 3.0)
    if reopen:
        store = MeasurementStore(store.path)

    assert {record["identity"]: record["answer"]["samples_ms"] for record in store.records()} == {
        "a": [3.0],
        "b": [2.0],
    }
    assert len(store.path.read_bytes().splitlines()) == 3


def test_the_file_is_read_once(tmp_path: Path) -> None:
    store = MeasurementStore(tmp_path / "measurements.jsonl")
    keep(store, "a", 1.0)
    store.path.unlink()

    assert store.get("a") is not None


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_torn_last_line_is_left_out_and_mended_by_the_next_append(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "measurements.jsonl"
    keep(MeasurementStore(path), "a", 1.0)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:cut])

    store = MeasurementStore(path)
    assert len(list(store.records())) == 1
    keep(store, "b", 2.0)

    assert path.read_bytes().startswith(whole)
    assert [record["identity"] for record in MeasurementStore(path).records()] == ["a", "b"]
    assert len(path.read_bytes().splitlines()) == 2


def test_a_last_line_that_lacks_only_its_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "measurements.jsonl"
    keep(MeasurementStore(path), "a", 1.0)
    path.write_bytes(path.read_bytes().rstrip(b"\n"))

    store = MeasurementStore(path)
    keep(store, "b", 2.0)

    assert [record["identity"] for record in MeasurementStore(path).records()] == ["a", "b"]


@settings(deadline=None)
@given(records=st.lists(st.dictionaries(st.text(), st.text()), min_size=1, max_size=4), data=st.data())
def test_cut_anywhere_the_file_yields_the_lines_before_and_every_line_after(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, str]], data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.jsonl"
    path.unlink(missing_ok=True)
    for record in records:
        append_line(path, record)
    content = path.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])

    append_line(path, {"after": "the cut"})

    survivors = content[:cut].count(b"\n")
    found = read_lines(path)
    assert found[-1] == {"after": "the cut"}
    assert found[:survivors] == records[:survivors]
    assert len(found) - 1 in (survivors, survivors + 1)


def test_a_long_torn_line_is_cut_off_whole(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    append_line(path, {"first": 1})
    with path.open("ab") as file:
        file.write(b'{"torn": "' + b"x" * 200_000)

    append_line(path, {"second": 2})

    assert path.read_bytes() == b'{"first": 1}\n{"second": 2}\n'


def test_damage_in_the_middle_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "measurements.jsonl"
    keep(MeasurementStore(path), "a", 1.0)
    path.write_bytes(b'{"torn": \n' + path.read_bytes())

    with pytest.raises(UsageError, match=r"measurements\.jsonl, line 1: expected one JSON object") as caught:
        MeasurementStore(path).get("a")

    assert caught.value.next_command is not None
    subprocess.run(caught.value.next_command, shell=True, check=True)
    assert MeasurementStore(path).get("a") is not None
    assert path.with_name(f"{path.name}.damaged").read_bytes().startswith(b'{"torn": \n')


ZEROS = bytes(4096)


@pytest.mark.parametrize(
    "damaged",
    [
        lambda a, b: a + b + ZEROS,
        lambda a, b: a + b + ZEROS + b"\n",
        lambda a, b: a + ZEROS + b"\n" + b,
        lambda a, b: a + ZEROS + b,
        lambda a, b: ZEROS + b"\n" + a + b,
        lambda a, b: a + b"\n\n" + b,
        lambda a, b: a + b[:30] + ZEROS + b"\n" + b,
        lambda a, b: a + b[:30] + ZEROS[: len(b) - 35] + b[-5:] + b,
    ],
    ids=["end", "line", "middle", "before a line", "start", "blank", "torn", "hole"],
)
def test_what_a_power_cut_leaves_is_no_line_and_costs_no_other(
    tmp_path: Path, damaged: Callable[[bytes, bytes], bytes]
) -> None:
    path = tmp_path / "measurements.jsonl"
    keep(MeasurementStore(path), "a", 1.0)
    first = path.read_bytes()
    keep(MeasurementStore(path), "b", 2.0)
    path.write_bytes(damaged(first, path.read_bytes()[len(first) :]))
    before = path.read_bytes()

    assert [record["identity"] for record in MeasurementStore(path).records()] == ["a", "b"]
    assert path.read_bytes() == before
    keep(MeasurementStore(path), "c", 3.0)
    assert [record["identity"] for record in MeasurementStore(path).records()] == ["a", "b", "c"]


def test_a_record_of_another_form_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "measurements.jsonl"
    path.write_text(json.dumps({"identity": "a"}) + "\n")

    with pytest.raises(UsageError, match="a record that is no measurement"):
        MeasurementStore(path).get("a")


def test_a_record_carries_the_hash_of_what_was_written_and_keeps_it_when_it_is_taken_over(tmp_path: Path) -> None:
    store, copy = MeasurementStore(tmp_path / "measurements.jsonl"), MeasurementStore(tmp_path / "copy.jsonl")
    keep(store, "a", 0.1 + 0.2)
    (written,) = MeasurementStore(store.path).records()
    copy.take_over(written)
    (taken_over,) = MeasurementStore(copy.path).records()

    assert written["sha256"] == content_sha256(written) == content_sha256(taken_over)
    assert content_sha256({**written, "answer": {"samples_ms": [0.3]}}) != written["sha256"]


def test_a_record_from_before_protocol_and_hash_were_stored_is_read_as_it_is(tmp_path: Path) -> None:
    older = {"identity": "a", "kind": "time", "environment": None, "recorded_at": "", "question": {}, "answer": {}}
    path = tmp_path / "measurements.jsonl"
    append_line(path, older)

    assert list(MeasurementStore(path).records()) == [older]


def test_a_half_written_record_is_taken_back_and_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MeasurementStore(tmp_path / "measurements.jsonl")
    keep(store, "a", 1.0)
    before = store.path.read_bytes()
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:10]))

    with pytest.raises(Unavailable, match="the disk is full"):
        keep(store, "b", 2.0)

    assert store.path.read_bytes() == before
    assert store.get("b") is None


def test_a_failed_flush_is_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "fsync", fail)

    path = tmp_path / "measurements.jsonl"
    with pytest.raises(Unavailable, match="the disk quota is used up"):
        keep(MeasurementStore(path), "a", 1.0)
    assert path.read_bytes() == b""


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("identity", 5, "a string"),
        ("kind", ["time"], "a string"),
        ("protocol", "x", "a whole number"),
        ("protocol", [], "a whole number"),
        ("environment", "x", "an object or null"),
        ("environment", [], "an object or null"),
        ("question", None, "an object"),
        ("answer", None, "an object"),
        ("sha256", 5, "a string"),
    ],
)
def test_a_record_with_something_else_under_a_key_is_damage(
    tmp_path: Path, key: str, value: object, expected: str
) -> None:
    path = tmp_path / "measurements.jsonl"
    keep(MeasurementStore(path), "a", 0.1)
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}) + "\n")

    with pytest.raises(UsageError) as caught:
        list(MeasurementStore(path).records())

    assert f"expected {expected} as its {key}, found {value!r}; without the file" in caught.value.message
    assert caught.value.next_command == f"mv {path} {path}.damaged"


def test_what_was_replaced_is_still_among_what_was_written(tmp_path: Path) -> None:
    store = MeasurementStore(tmp_path / "measurements.jsonl")
    for value in (1.0, 2.0):
        keep(store, "a", value)

    assert [record["answer"] for record in store.written()] == [{"samples_ms": [1.0]}, {"samples_ms": [2.0]}]
