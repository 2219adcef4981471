"""Whatever stands in the workspace's files, a command ends with one clear message and an exit code of the design."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulated_run import Run, make_repository

from warpsmith.contracts.approval import Gate
from warpsmith.contracts.errors import ExitCode
from warpsmith.contracts.result import SearchResult
from warpsmith.stages.checkpoints import approve
from warpsmith.workspace.documents import write_document

FILES = ("request.json", "profile.json", "approvals.json")
COMMANDS = (
    ("next", "rms_norm", "--json"),
    ("status", "rms_norm", "--json"),
    ("approve", "rms_norm", "--gate", "optimize", "--json"),
    ("optimize", "rms_norm", "--json", "--quiet"),
    ("list", "--json"),
)
JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.just([]), st.just({}))


@pytest.fixture(scope="module")
def profiled_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    run = Run.begin(make_repository(tmp_path_factory.mktemp("damaged")))
    run.profile()
    approve(run.workspace, Gate.OPTIMIZE, from_terminal=False)
    return run.root, {name: (run.workspace.directory / name).read_bytes() for name in FILES}


def mutated(data: st.DataObject, content: bytes) -> bytes:
    """The file cut short, not JSON at all, or with one value replaced or removed somewhere."""
    if data.draw(st.booleans(), label="as bytes"):
        cut = data.draw(st.integers(0, len(content) - 1), label="cut")
        return content[:cut] + data.draw(st.binary(max_size=4), label="tail")
    document: Any = json.loads(content)
    place = document
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))), label="key")
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans(), label="here"):
            break
        place = place[key]
    if data.draw(st.booleans(), label="remove"):
        del place[key]
    else:
        place[key] = data.draw(JUNK, label="value")
    return json.dumps(document).encode()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_gives_a_clean_exit_code_and_json(
    data: st.DataObject, profiled_files: tuple[Path, dict[str, bytes]], command: Command
) -> None:
    root, files = profiled_files
    workspace = root / "optimization" / "rms_norm"
    for name, content in files.items():
        (workspace / name).write_bytes(content)
    damaged = data.draw(st.sampled_from(FILES), label="file")
    (workspace / damaged).write_bytes(mutated(data, files[damaged]))

    ended = command(root, *data.draw(st.sampled_from(COMMANDS), label="command"))

    assert ended.exit_code in set(ExitCode) - {ExitCode.INTERNAL}, ended.err
    json.loads(ended.out)


def test_a_winner_whose_file_is_gone_is_told_by_its_name(begun: Run, command: Command) -> None:
    begun.profile()
    begun.ask_for(autonomous=False)
    result = SearchResult(
        run_id="r", winner=1, winner_sha256="0" * 64, stop_reason="r", noise_floor=None, variants=(1,)
    )
    write_document(begun.workspace.search_result, result)
    begun.workspace.comparison.write_text("# Comparison\n")
    begun.workspace.variant(1).write_text("")
    approve(begun.workspace, Gate.FINALIZE, from_terminal=True)
    begun.workspace.variant(1).unlink()
    ended = command(begun.root, "next", "rms_norm")
    assert ended.exit_code not in (ExitCode.DONE, ExitCode.INTERNAL)
    assert "rms_norm_v1.py" in ended.err
