"""However a file of a workspace is damaged, reading it gives a value or one error of ours, and changes nothing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import EXAMPLES, damaged_bytes, damaged_document

from warpsmith.contracts.approval import Approvals
from warpsmith.contracts.base import Document
from warpsmith.contracts.errors import UsageError, WarpsmithError
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.progress import RunProgress
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalResult, SearchResult
from warpsmith.contracts.variant import Variant
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.ledger import Ledger
from warpsmith.workspace.lines import append_line, read_lines
from warpsmith.workspace.lock import holder, run_lock
from warpsmith.workspace.progress import read_progress
from warpsmith.workspace.store import MeasurementStore

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLE = REPOSITORY / "optimization" / "rms_norm"
LINES = {
    "measurements.jsonl": gzip.decompress(
        (REPOSITORY / "benchmark" / "data" / "rms_norm" / "measurements.jsonl.gz").read_bytes()
    ),
    "ledger.jsonl": b"".join(
        json.dumps({"event": event, "at": "2026-01-31T00:00:00+00:00", "number": number}).encode() + b"\n"
        for number, event in enumerate(("begun", "profiled", "variant", "optimized", "applying", "applied"))
    ),
}
APPROVALS = Approvals.model_validate(
    {
        "approvals": [
            {
                "gate": "optimize",
                "run_id": "r",
                "evidence_sha256": "0" * 64,
                "from_terminal": True,
                "approved_at": "2026-01-31T00:00:00+00:00",
            }
        ]
    }
)
DOCUMENTS: dict[str, type[Document]] = {
    "request.json": Request,
    "profile.json": Profile,
    "comparison.json": SearchResult,
    "report.json": FinalResult,
    "rms_norm_v1.json": Variant,
    "rms_norm_v4.json": Variant,
}

bounded = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def first_lines(name: str, count: int) -> bytes:
    return b"".join(LINES[name].splitlines(keepends=True)[:count])


@pytest.mark.parametrize("name", [*DOCUMENTS, "approvals.json"])
@bounded
@given(data=st.data())
def test_a_damaged_document_is_a_document_or_our_error_that_names_it(
    data: st.DataObject, name: str, tmp_path: Path
) -> None:
    whole = APPROVALS.model_dump_json().encode() if name == "approvals.json" else (EXAMPLE / name).read_bytes()
    content = data.draw(damaged_document(whole))
    path = tmp_path / name
    path.write_bytes(content)

    try:
        read_document(path, DOCUMENTS.get(name, Approvals))
    except UsageError as error:
        assert str(path) in error.message and len(error.message) < 2000
        assert error.next_command
    assert path.read_bytes() == content


@pytest.mark.parametrize("name", list(LINES))
@bounded
@given(data=st.data())
def test_damaged_lines_are_records_or_our_error_and_can_be_told_and_added_to(
    data: st.DataObject, name: str, tmp_path: Path
) -> None:
    whole = first_lines(name, 6)
    content = data.draw(damaged_bytes(whole) | st.just(whole.replace(b'"kind"', b'"kin\\ud800"')))
    path = tmp_path / name
    path.write_bytes(content)

    try:
        found = read_lines(path)
    except UsageError as error:
        assert str(path) in error.message and error.next_command
        return
    finally:
        assert path.read_bytes() == content
    for record in found:
        json.dumps(record, ensure_ascii=False).encode()
    append_line(path, {"after": "the damage"})
    assert read_lines(path) == [*found, {"after": "the damage"}]


@bounded
@given(data=st.data())
def test_a_damaged_store_or_ledger_answers_or_raises_our_error(data: st.DataObject, tmp_path: Path) -> None:
    store, ledger = tmp_path / "measurements.jsonl", tmp_path / "ledger.jsonl"
    store.write_bytes(data.draw(damaged_bytes(first_lines(store.name, 3))))
    ledger.write_bytes(data.draw(damaged_bytes(first_lines(ledger.name, 3))))
    before = store.read_bytes(), ledger.read_bytes()

    for read in (lambda: list(MeasurementStore(store).records()), Ledger(ledger).events):
        try:
            assert all(isinstance(record, dict) for record in read())
        except WarpsmithError as error:
            assert error.next_command
    assert (store.read_bytes(), ledger.read_bytes()) == before


@settings(bounded, max_examples=30)
@given(content=damaged_document(b'{"pid": 17, "started": "2026-01-31T00:00:00+00:00"}'))
def test_a_damaged_name_of_a_holder_keeps_nobody_from_working(content: bytes, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "rms_norm")
    workspace.create()
    name = workspace.lock.with_name(f"{workspace.lock.name}-holder.json")
    with run_lock(workspace):
        name.write_bytes(content)
        assert "process" in str(holder(workspace))
    with run_lock(workspace):
        pass
    assert holder(workspace) is None


@bounded
@given(content=damaged_document(b'{"schema_version": 1, "run_id": "r", "stage": "optimize", "step": "x"}'))
def test_a_damaged_progress_file_is_progress_or_nothing(content: bytes, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "rms_norm")
    workspace.create()
    workspace.progress.write_bytes(content)

    assert isinstance(read_progress(workspace), RunProgress | None)
    assert workspace.progress.read_bytes() == content
