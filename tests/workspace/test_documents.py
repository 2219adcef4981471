"""A document comes back as it was written, or as an error that says what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.contracts.case import Mode
from warpsmith.contracts.errors import UsageError, WarpsmithError
from warpsmith.contracts.request import Request
from warpsmith.workspace.documents import read_document, write_document, write_text

REQUEST = Request(kernel="rms_norm", run_id="r1", created_at="2026-01-31T00:00:00+00:00", goal=Mode.FORWARD)
CONTENT = REQUEST.model_dump_json(indent=2).encode()


def test_a_document_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "request.json"

    write_document(path, REQUEST)

    assert read_document(path, Request) == REQUEST
    assert path.read_text(encoding="utf-8").endswith("}\n")


def test_text_keeps_its_line_endings(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"

    write_text(path, "a = 'é'\r\nb = 1\n")

    assert path.read_bytes() == b"a = '\xc3\xa9'\r\nb = 1\n"


def test_a_missing_document_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"request\.json is not there; expected a Request"):
        read_document(tmp_path / "request.json", Request)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "found an empty file"),
        (CONTENT[:-5], "found text that is not JSON"),
        (b"\xff\xfe{}", "found text that is not JSON"),
        (b"[" * 100_000, "found text that is not JSON"),
        (b"[1]", "found a JSON list"),
        (b"{}", r"found kernel: Field required; run_id: Field required; created_at: Field required$"),
        (CONTENT.replace(b'"forward"', b'"sideways"'), "found goal: Input should be 'forward', 'backward' or 'full'"),
        (CONTENT.replace(b'"seed"', b'"sede"'), "found sede: Extra inputs are not permitted"),
    ],
)
def test_a_damaged_document_says_what_was_expected_and_found(tmp_path: Path, content: bytes, found: str) -> None:
    path = tmp_path / "request.json"
    path.write_bytes(content)

    with pytest.raises(UsageError, match=rf"request\.json is damaged: expected a Request as JSON, {found}") as caught:
        read_document(path, Request)

    assert caught.value.next_command is not None
    assert caught.value.next_command.startswith(f"mv {path} {path}.damaged")


def test_a_document_of_a_newer_warpsmith_is_refused_even_where_it_would_fit(tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_text(json.dumps({**json.loads(CONTENT), "schema_version": 2, "unknown": 1}))

    with pytest.raises(UsageError, match="written by a newer warpsmith: schema_version 2, expected at most 1"):
        read_document(path, Request)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None)
@given(start=st.integers(0, len(CONTENT)), length=st.integers(0, 40), replacement=st.binary(max_size=8))
def test_no_change_of_bytes_gives_anything_but_a_document_or_our_error(
    tmp_path_factory: pytest.TempPathFactory, start: int, length: int, replacement: bytes
) -> None:
    _read_or_refuse(tmp_path_factory, CONTENT[:start] + replacement + CONTENT[start + length :])


@settings(deadline=None)
@given(key=st.sampled_from([*Request.model_fields, "other"]), value=JSON_VALUES)
def test_no_change_of_a_value_gives_anything_but_a_document_or_our_error(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: object
) -> None:
    _read_or_refuse(tmp_path_factory, json.dumps({**json.loads(CONTENT), key: value}).encode())


def _read_or_refuse(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "mutated.json"
    path.write_bytes(content)
    try:
        document = read_document(path, Request)
    except WarpsmithError as error:
        assert str(path) in error.message
    else:
        assert isinstance(document, Request)
