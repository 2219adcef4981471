"""`warpsmith mcp`: the commands as tools of the Model Context Protocol, for clients that have no shell.

Knows how an answer, an error, progress and a checkpoint look there; the work is the commands'. A step that takes long
is run detached and followed, so that a client that gives up waiting ends nothing. Only a person opens a gate: the
client asks them, and where it cannot, they do it in a terminal.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import datetime, timezone
from io import StringIO
from pathlib import Path
from typing import Literal, TypeVar

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

from warpsmith import __version__
from warpsmith.cli import interruption
from warpsmith.cli.detached import start
from warpsmith.cli.flow import QUESTIONS, Flow
from warpsmith.cli.meanwhile import as_it_stands
from warpsmith.cli.overview import listed
from warpsmith.cli.profile_page import deciding_part
from warpsmith.cli.screen import step_line, trying_line
from warpsmith.cli.status import as_data, standing
from warpsmith.contracts.approval import Approval, Gate
from warpsmith.contracts.case import Mode
from warpsmith.contracts.detached import DetachedNow
from warpsmith.contracts.errors import WarpsmithError
from warpsmith.contracts.printed import ListedKernel, Status
from warpsmith.contracts.result import NextStep
from warpsmith.stages import checkpoints
from warpsmith.stages.pages import page_text
from warpsmith.workspace.detached import read_detached
from warpsmith.workspace.progress import read_progress

#: Chosen: as often as progress is written.
LOOK_EVERY_S = 0.5

INSTRUCTIONS = """\
Makes an existing Triton kernel faster, and proves it. Call next_step, do the one thing it names, and call it again
until the state is done. Where the state is new, start with run_pipeline; autonomous only if the user asked not to be
asked. Report only speed-ups that these tools return, with their origin. Edit nothing in optimization/, nor tests,
target or source while a run is open."""

#: The pages of a run, by the name that read_page takes.
Page = Literal["profile", "comparison", "report"]
Told = TypeVar("Told")


class Decision(BaseModel):
    """A person's answer at a checkpoint."""

    approve: bool = Field(description="Yes, go on with exactly this.")


@dataclass(frozen=True)
class Tools:
    """The tools of one project. An error of the commands is an error of the tool, with the command that mends it."""

    root: Path

    def list_kernels(self) -> list[ListedKernel]:
        """The kernels that this project can optimize, and the next command of each."""
        return _told(lambda: listed(self.root))

    def next_step(self, kernel: str) -> NextStep:
        """The one legal next step of a kernel's run, why, what to read before it, and what is known so far."""
        return _told(lambda: self._next_step(self._flow(kernel)))

    def status(self, kernel: str) -> Status:
        """Where a kernel's run stands, how far it is if it is running now, and the runs before it."""
        return _told(lambda: self._status(self._flow(kernel)))

    def read_page(self, kernel: str, page: Page) -> str:
        """A page of a kernel's run as Markdown: its profile, the comparison of its variants, or its report."""
        workspace = _told(lambda: self._flow(kernel)).workspace
        paths = {"profile": workspace.profile_page, "comparison": workspace.comparison, "report": workspace.report_page}
        return _told(lambda: page_text(workspace, paths[page]))

    async def run_pipeline(
        self,
        kernel: str,
        context: Context,
        autonomous: bool = False,
        goal: Mode | None = None,
        max_variants: int | None = None,
        fresh: bool = False,
    ) -> NextStep:
        """Profile, optimize and finalize, up to the next checkpoint; without one only where autonomous is true."""
        options = [] if goal is None else ["--goal", goal.value]
        options += [] if max_variants is None else ["--max-variants", str(max_variants)]
        options += [name for name, given in (("--autonomous", autonomous), ("--fresh", fresh)) if given]
        return await self._step(context, "run", kernel, *options)

    async def profile(self, kernel: str, context: Context) -> NextStep:
        """Stage 1 alone: measure the kernel as it is, and find what holds it back."""
        return await self._step(context, "profile", kernel)

    async def optimize(self, kernel: str, context: Context) -> NextStep:
        """Stage 2 alone: write variants and judge each. Needs an approval, or an autonomous run."""
        return await self._step(context, "optimize", kernel)

    async def finalize(self, kernel: str, context: Context) -> NextStep:
        """Stage 3 alone: apply the winner behind the kernel's tests. Needs an approval, or an autonomous run."""
        return await self._step(context, "finalize", kernel)

    async def approve(self, kernel: str, gate: Gate, context: Context) -> Approval:
        """Ask the person, through the client, whether the run may go on past a checkpoint, and record a yes."""
        flow, text = _told(lambda: self._to_decide(kernel, gate))
        in_a_terminal = f"the person has to run it in a terminal: warpsmith approve {kernel} --gate {gate.value}"
        if flow.config.terminal_only:
            raise ToolError(f"approval: tty in warpsmith.yaml; {in_a_terminal}")
        capabilities = context.client_capabilities
        if capabilities is None or capabilities.elicitation is None:
            raise ToolError(f"this client cannot ask a person; {in_a_terminal}")
        shown = _told(lambda: checkpoints.evidence(flow.workspace, gate))
        answer = await context.elicit(f"{text}\n\n{QUESTIONS[gate]}", Decision)
        if answer.action != "accept" or not answer.data.approve:
            raise ToolError("the person did not approve; the run waits")
        if _told(lambda: checkpoints.evidence(flow.workspace, gate)) != shown:
            raise ToolError("what the person saw has changed since; ask again")
        return _told(lambda: checkpoints.approve(flow.workspace, gate, from_terminal=False))

    def _flow(self, kernel: str) -> Flow:
        return Flow.open(self.root, kernel, as_json=True, quiet=True, interactive=False)

    def _next_step(self, flow: Flow) -> NextStep:
        step = checkpoints.next_step(flow.workspace, flow.kernel, terminal_only=flow.config.terminal_only)
        return as_it_stands(step, flow.workspace)

    def _status(self, flow: Flow) -> Status:
        now = datetime.now(timezone.utc)
        return as_data(standing(flow.workspace, now, terminal_only=flow.config.terminal_only))

    def _to_decide(self, kernel: str, gate: Gate) -> tuple[Flow, str]:
        """What a person reads before they decide."""
        flow = self._flow(kernel)
        checkpoints.expect_measured(flow.workspace, kernel)
        page = flow.workspace.profile_page if gate is Gate.OPTIMIZE else flow.workspace.comparison
        return flow, deciding_part(page_text(flow.workspace, page))

    async def _step(self, context: Context, *words: str) -> NextStep:
        """Starts a command, follows it to its end, and tells what comes next. Raises ToolError where it failed."""
        flow = _told(lambda: self._flow(words[1]))
        _told(lambda: _start_quietly(flow, words))
        while (found := read_detached(flow.workspace)) is not None and found.running:
            await _report(context, flow)
            await anyio.sleep(LOOK_EVERY_S)
        if found is not None and not found.ended_well:
            raise ToolError(_failure(self.root, found))
        return _told(lambda: self._next_step(flow))


def server(root: Path) -> MCPServer:
    """The server of the project at `root`."""
    tools = Tools(root)
    made = MCPServer("warpsmith", version=__version__, instructions=INSTRUCTIONS)
    for tool in (
        *(tools.list_kernels, tools.next_step, tools.status, tools.read_page),
        *(tools.run_pipeline, tools.profile, tools.optimize, tools.finalize, tools.approve),
    ):
        made.add_tool(tool)
    return made


def serve(root: Path) -> None:
    """Serves on standard input and output until the client closes them or a signal comes.

    A signal ends the process at once: there is nothing to clean up, and what waits for a line could not be woken.
    """
    interruption.leaves = "a step that was begun goes on by itself"
    interruption.end_at_a_signal()
    server(root).run()


def _told(ask: Callable[[], Told]) -> Told:
    """What a command's function returns; its error as one that the client's model can read."""
    try:
        return ask()
    except WarpsmithError as error:
        raise ToolError(_sentence(error.message, error.next_command)) from error


def _sentence(message: str, next_command: str | None) -> str:
    return message if next_command is None else f"{message} (next: {next_command})"


def _start_quietly(flow: Flow, words: tuple[str, ...]) -> None:
    """Standard output is the protocol's."""
    with redirect_stdout(StringIO()):
        start(flow.workspace, [*words, "--json"], as_json=True)


async def _report(context: Context, flow: Flow) -> None:
    """Progress counts steps, of which the last may be told late: what is done now stands in the message."""
    if (told := read_progress(flow.workspace)) is None:
        return
    text = " — ".join(part for part in (step_line(told), trying_line(told)) if part)
    done = (told.number or 0) + (told.done or 0) / (told.total or 1)
    await context.report_progress(done, told.of or told.at_most, text)


def _failure(root: Path, found: DetachedNow) -> str:
    """What the command said at its end, which with --json is the last line of its log."""
    try:
        last = (root / found.log).read_text(encoding="utf-8", errors="replace").splitlines()[-1]
        error = json.loads(last)["error"]
        return f"{_sentence(error['message'], error['next_command'])} [exit code {found.exit_code}]"
    except (OSError, ValueError, LookupError, TypeError):
        return f"{found.told}; its output: {shlex.quote(found.log)}"
