"""Whatever stands in the workspace's files, a command ends with one clear message and an exit code of the design."""

from __future__ import annotations

import json
import shutil
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
from warpsmith.workspace.documents import read_document

#: What each command reads of a run that waits for a yes to its winner.
PENDING = ("request.json", "profile.json", "comparison.json", "approvals.json", "rms_norm_v1.json")
READERS = ("next", "status", "run", "optimize", "finalize")
#: What is read of a finished run, by the commands that show it.
SHOWN = (
    ("request.json", ("next", "status", "run", "profile", "optimize", "finalize", "approve")),
    ("report.json", ("next", "status", "run", "finalize", "report")),
    ("profile.json", ("profile",)),
    ("comparison.json", ("optimize",)),
    ("rms_norm_v1.json", ("next", "status")),
)
DAMAGES = {
    "empty": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "zeros": lambda content: bytes(len(content)),
    "newer": lambda content: content.replace(b'"schema_version": 1', b'"schema_version": 2'),
    "another kind": lambda content: b'{"schema_version": 1, "something": "else"}\n',
}
JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.just([]), st.just({}))


@pytest.fixture(scope="module")
def pending_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = Run.begin(make_repository(tmp_path_factory.mktemp("pending")))
    run.ask_for(autonomous=False)
    run.profile()
    approve(run.workspace, Gate.OPTIMIZE, from_terminal=False)
    run.optimize()
    return run.root


@pytest.fixture(scope="module")
def finished_tree(pending_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("finished") / "repository"
    run = Run.of(Path(shutil.copytree(pending_tree, root)))
    approve(run.workspace, Gate.FINALIZE, from_terminal=False)
    run.finalize()
    return root


@pytest.fixture
def pending(pending_tree: Path, tmp_path: Path) -> Run:
    """A run whose winner waits for a person."""
    return Run.of(Path(shutil.copytree(pending_tree, tmp_path / "pending")))


@pytest.fixture
def finished(finished_tree: Path, tmp_path: Path) -> Run:
    """A run that has ended with its winner applied."""
    return Run.of(Path(shutil.copytree(finished_tree, tmp_path / "finished")))


def expect_named(command: Command, run: Run, name: str, damage: str, readers: tuple[str, ...]) -> None:
    """Each of the commands ends with the code for damaged files, names this one, and leaves everything as it is."""
    path = run.workspace.directory / name
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    before = files_of(run.root)
    for each in readers:
        ended = command(run.root, each, "rms_norm", "--json")
        error = json.loads(ended.out)["error"]
        assert (ended.exit_code, error["exit_code"]) == (ExitCode.USAGE, ExitCode.USAGE), (each, ended.err)
        assert str(path) in error["message"]
        wanted = "pip install --upgrade warpsmith" if damage == "newer" else f"mv {path} {path}.damaged"
        assert error["next_command"] == wanted
        assert files_of(run.root) == before


def files_of(root: Path) -> dict[str, bytes]:
    """Every file but the locks."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.name.startswith(".lock")
    }


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", PENDING)
def test_a_damaged_document_of_an_unfinished_run_is_named_by_every_command(
    pending: Run, command: Command, name: str, damage: str
) -> None:
    readers = READERS if name != "rms_norm_v1.json" else ("next", "status")
    expect_named(command, pending, name, damage, readers)


@pytest.mark.parametrize("damage", ["truncated", "newer"])
@pytest.mark.parametrize(("name", "readers"), SHOWN)
def test_a_damaged_document_of_a_finished_run_is_named_by_the_commands_that_show_it(
    finished: Run, command: Command, name: str, readers: tuple[str, ...], damage: str
) -> None:
    expect_named(command, finished, name, damage, readers)


def test_one_damaged_workspace_hides_no_other_kernel_in_the_list(pending: Run, command: Command) -> None:
    (pending.root / "benchmark" / "benchmark_softmax.py").write_text("")
    pending.workspace.profile.write_text("{")

    ended = command(pending.root, "list", "--json")

    assert ended.exit_code == ExitCode.DONE
    damaged, whole = json.loads(ended.out)
    path = pending.workspace.profile
    assert (damaged["kernel"], damaged["next"]) == ("rms_norm", f"mv {path} {path}.damaged")
    assert damaged["problem"].startswith(f"{path} is damaged: expected a Profile as JSON")
    assert (whole["kernel"], whole["next"], whole["problem"]) == ("softmax", "warpsmith profile softmax", None)
    shown = command(pending.root, "list").told
    assert f"{path} is damaged" in shown and "warpsmith profile softmax" in shown


@pytest.mark.parametrize(
    "arguments", [("next",), ("status",), ("run",), ("finalize",), ("approve", "--gate", "finalize")]
)
def test_a_winner_whose_file_is_gone_is_told_by_its_name(
    pending: Run, command: Command, arguments: tuple[str, ...]
) -> None:
    winner = read_document(pending.workspace.search_result, SearchResult).winner
    assert winner is not None
    pending.workspace.variant(winner).unlink()

    name, *rest = arguments
    ended = command(pending.root, name, "rms_norm", *rest)

    assert ended.exit_code == ExitCode.USAGE
    assert f"optimization/rms_norm/rms_norm_v{winner}.py is not there" in ended.err
    assert not pending.workspace.final_result.exists()


@pytest.mark.parametrize(
    ("stage", "page"), [("profile", "profile.md"), ("optimize", "comparison.md"), ("approve", "comparison.md")]
)
def test_a_lost_page_is_made_again_by_the_command_that_shows_it(
    pending: Run, command: Command, stage: str, page: str
) -> None:
    path = pending.workspace.directory / page
    before = path.read_text(encoding="utf-8")
    path.unlink()

    ended = command(pending.root, stage, "rms_norm")

    assert (ended.exit_code, path.read_text(encoding="utf-8")) == (ExitCode.DONE, before)
    assert stage == "approve" or before in ended.out


def test_a_lost_report_is_told_by_its_name(finished: Run, command: Command) -> None:
    finished.workspace.report_page.unlink()
    ended = command(finished.root, "report", "rms_norm")
    assert ended.exit_code == ExitCode.USAGE
    assert ended.err.startswith("warpsmith: optimization/rms_norm/report.md is not there")
    assert "&& warpsmith finalize rms_norm" in ended.err
    assert json.loads(command(finished.root, "report", "rms_norm", "--json").out)["outcome"] == "applied"


def test_a_damaged_request_that_was_put_aside_gives_way_to_a_new_run(pending: Run, command: Command) -> None:
    pending.workspace.request.rename(f"{pending.workspace.request}.damaged")
    assert json.loads(command(pending.root, "next", "rms_norm", "--json").out)["state"] == "new"


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


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_gives_a_clean_exit_code_and_json(
    data: st.DataObject, pending_tree: Path, finished_tree: Path, command: Command
) -> None:
    root = data.draw(st.sampled_from([pending_tree, finished_tree]), label="tree")
    workspace = root / "optimization" / "rms_norm"
    name = data.draw(st.sampled_from(sorted(path.name for path in workspace.glob("[!.]*.json"))), label="file")
    arguments = data.draw(st.sampled_from(["next", "status", "optimize", "finalize", "profile", "report", "list"]))
    whole = files_of(root)
    damaged = mutated(data, (workspace / name).read_bytes())
    try:
        (workspace / name).write_bytes(damaged)
        ended = command(root, arguments, *(() if arguments == "list" else ("rms_norm",)), "--json")
        assert ended.exit_code in set(ExitCode) - {ExitCode.INTERNAL}, ended.err
        json.loads(ended.out)
        found = files_of(root)
        assert {path for path in found if found[path] != whole.get(path)} <= {f"optimization/rms_norm/{name}"}
        assert found.keys() == whole.keys()
    finally:
        for path, content in whole.items():
            (root / path).write_bytes(content)
