"""The commands as tools of the Model Context Protocol, asked by its own client."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from simulated_run import KERNEL, REPOSITORY, make_repository

import warpsmith
from warpsmith.contracts.approval import Approval, Approvals, Gate
from warpsmith.contracts.errors import ExitCode
from warpsmith.contracts.printed import ListedKernel, Status
from warpsmith.contracts.progress import RunProgress
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import NextStep, RunState
from warpsmith.workspace.detached import take
from warpsmith.workspace.documents import read_document, write_document
from warpsmith.workspace.layout import Workspace

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
AT = "2026-01-31T00:00:00+00:00"


mcp = pytest.importorskip("mcp", reason="the package mcp is there by the extras `mcp` and `dev`")


def ask(root: Path, question: Callable[[Any], Awaitable[Any]], **options: Any) -> Any:
    """What a client in this process is answered."""
    from warpsmith.cli.mcp_server import server

    async def asked() -> Any:
        async with mcp.Client(server(root), **options) as client:
            return await question(client)

    return asyncio.run(asked())


def call(root: Path, tool: str, arguments: dict[str, Any], **options: Any) -> Any:
    return ask(root, lambda client: client.call_tool(tool, arguments), **options)


def error_of(result: Any) -> str:
    assert result.is_error
    return str(result.content[0].text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path)


@pytest.fixture
def waiting(root: Path) -> Workspace:
    """A run with a profile, which a person has not seen yet."""
    workspace = Workspace(root, KERNEL)
    workspace.create()
    for name in ("request.json", "profile.json", "profile.md", f"original_{KERNEL}.py"):
        shutil.copy(REPOSITORY / "optimization" / KERNEL / name, workspace.directory / name)
    request = read_document(workspace.request, Request)
    write_document(workspace.request, request.model_copy(update={"autonomous": False}))
    return workspace


def test_every_step_is_a_tool_with_a_description_and_a_typed_answer(root: Path) -> None:
    tools = {tool.name: tool for tool in ask(root, lambda client: client.list_tools()).tools}

    assert set(tools) == {
        *("list_kernels", "next_step", "status", "read_page"),
        *("run_pipeline", "profile", "optimize", "finalize", "approve"),
    }
    assert all(tool.description and tool.output_schema for tool in tools.values())
    assert set(tools["run_pipeline"].input_schema["properties"]) == {
        *("kernel", "autonomous", "goal", "max_variants", "fresh")
    }


def test_what_only_reads_answers_as_the_commands_do(root: Path) -> None:
    (listed,) = call(root, "list_kernels", {}).structured_content["result"]
    step = NextStep.model_validate(call(root, "next_step", {"kernel": KERNEL}).structured_content)
    status = Status.model_validate(call(root, "status", {"kernel": KERNEL}).structured_content)

    assert ListedKernel.model_validate(listed).next == step.command == "warpsmith profile rms_norm"
    assert step.state is RunState.NEW and status.next == step


def test_a_page_is_read_without_a_shell(waiting: Workspace) -> None:
    page = call(waiting.root, "read_page", {"kernel": KERNEL, "page": "profile"})

    assert page.structured_content["result"] == waiting.profile_page.read_text()
    assert "is not there" in error_of(call(waiting.root, "read_page", {"kernel": KERNEL, "page": "report"}))


def test_an_error_says_what_to_do_and_is_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY / "src"))
    unknown = error_of(call(root, "next_step", {"kernel": "rms_nrom"}))
    refused = error_of(call(root, "optimize", {"kernel": KERNEL}))

    assert "nearest: rms_norm" in unknown and "(next: warpsmith list)" in unknown
    assert "no run of rms_norm has begun (next: warpsmith profile rms_norm) [exit code 2]" in refused


def test_a_step_is_followed_with_its_progress_to_what_comes_next(
    waiting: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step itself is a detached command: here one that ends while the server looks for the second time."""
    progress = RunProgress(
        run_id="r", pid=1, stage="profile", started_at=AT, updated_at=AT, step="baselines", number=4, of=5
    )
    write_document(waiting.progress, progress)
    running = [take(waiting, "warpsmith profile rms_norm")]
    monkeypatch.setattr("warpsmith.cli.mcp_server.start", lambda *_, **__: None)
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(done: float, total: float | None, message: str | None) -> None:
        heard.append((done, total, message))

    async def end_it(_: float) -> None:
        os.close(running.pop())
        waiting.detached.unlink()

    monkeypatch.setattr("warpsmith.cli.mcp_server.anyio.sleep", end_it)
    result = ask(waiting.root, lambda client: client.call_tool("profile", {"kernel": KERNEL}, progress_callback=hear))

    assert heard == [(4, 5, "baselines (4 of 5)")]
    assert NextStep.model_validate(result.structured_content).state is RunState.WAITING_OPTIMIZE


@pytest.mark.parametrize("approves", [True, False])
def test_a_checkpoint_is_the_person_s_through_the_client(waiting: Workspace, approves: bool) -> None:
    asked: list[str] = []

    async def person(_: Any, question: Any) -> Any:
        asked.append(question.message)
        return mcp.types.ElicitResult(action="accept", content={"approve": approves})

    result = call(
        waiting.root,
        "approve",
        {"kernel": KERNEL, "gate": "optimize"},
        elicitation_callback=person,
        mode="legacy",
    )

    (text,) = asked
    assert text.startswith("# Profile of rms_norm") and text.endswith("Search for a faster version?")
    if approves:
        assert Approval.model_validate(result.structured_content).gate is Gate.OPTIMIZE
        assert len(read_document(waiting.approvals, Approvals).approvals) == 1
    else:
        assert "did not approve" in error_of(result) and not waiting.approvals.exists()


def test_a_client_that_cannot_ask_a_person_opens_no_gate(waiting: Workspace) -> None:
    refused = error_of(call(waiting.root, "approve", {"kernel": KERNEL, "gate": "optimize"}))

    assert "in a terminal: warpsmith approve rms_norm --gate optimize" in refused
    assert not waiting.approvals.exists()


def test_what_changed_while_the_person_read_is_not_approved(waiting: Workspace) -> None:
    async def person(*_: Any) -> Any:
        waiting.profile.write_text(waiting.profile.read_text() + "\n")
        return mcp.types.ElicitResult(action="accept", content={"approve": True})

    arguments = {"kernel": KERNEL, "gate": "optimize"}
    refused = error_of(call(waiting.root, "approve", arguments, elicitation_callback=person, mode="legacy"))

    assert "changed since; ask again" in refused and not waiting.approvals.exists()


def test_where_only_a_terminal_counts_nobody_is_asked(waiting: Workspace) -> None:
    with (waiting.root / "warpsmith.yaml").open("a") as file:
        file.write("approval: tty\n")
    arguments = {"kernel": KERNEL, "gate": "optimize"}

    async def person(*_: Any) -> Any:
        raise AssertionError("asked")

    assert "approval: tty" in error_of(call(waiting.root, "approve", arguments, elicitation_callback=person))


def test_a_signal_ends_the_server_while_it_waits_for_its_client(root: Path) -> None:
    """Over standard input and output, as a client starts it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "warpsmith", "mcp"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), *sys.path])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        process.terminate()
        code = process.wait()

    assert answer["result"]["serverInfo"] == {"name": "warpsmith", "version": warpsmith.__version__}
    assert code == ExitCode.INTERRUPTED
