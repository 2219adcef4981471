"""A run that is interrupted over and over, and what has to hold whenever it was."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpsmith.contracts.approval import Approvals
from warpsmith.contracts.base import Contract
from warpsmith.contracts.guarded import GuardedFiles
from warpsmith.contracts.handover import HandOver
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalResult, SearchResult
from warpsmith.contracts.variant import Variant
from warpsmith.measure.worker.stored import FAILURE
from warpsmith.project.commands import import_path
from warpsmith.project.guarded_files import guarded_files
from warpsmith.project.recordings import RecordedRun
from warpsmith.workspace.documents import read_document, write_document
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.lines import read_lines

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
RECORDED = RecordedRun(REPOSITORY / "benchmark" / "data" / "rms_norm", "rms_norm")

#: Chosen: what was killed is gone in milliseconds; a machine that is busy may need a moment.
GONE_WITHIN_S = 20.0

#: Tests that pass at once, told as pytest tells it.
TEST_COMMAND = """test_command: [python, -I, -S, -c, "print('1 passed in 0.01s')"]\n"""

MARK = "WARPSMITH_TEST_MARK"

#: What differs between two runs that measured the same: ids, times of day, how long the tests took.
UNREPEATABLE = frozenset({"run_id", "created_at", "duration_s", "output_tail", "at", "recorded_at"})


#: An event: its kind ("" for any) and number; see launcher.py.
At = tuple[str, int]
NEVER: At = ("", 0)


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (negative for the signal that killed it), what it said, events until then.

    `changes` are the events that change something, and `writes` the middles of what is written.
    """

    code: int
    output: str
    events: int
    changes: int
    writes: int


class Launcher:
    """The process that forks the commands; see launcher.py."""

    def __init__(self, *options: str) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": import_path(REPOSITORY, str(HERE)),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "launcher.py"), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def order(self, **order: Any) -> dict[str, int]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        reply: dict[str, int] = json.loads(self._process.stdout.readline())
        return reply

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


@dataclass
class InterruptedRun:
    """One kernel's run in a repository of its own. `scratch` is a folder beside the repository.

    `style` is what the style command adds to a winner, where there is one. `compiled_before` is the store of a run of
    the same source, for a replay that need not compile and draw as that one did; see launcher.py.
    """

    launcher: Launcher
    root: Path
    scratch: Path
    kernel: str
    source: str
    arguments: tuple[str, ...]
    compiled_before: Path | None = None
    style: bytes = b""
    mark: str = field(default_factory=lambda: secrets.token_hex(8))

    def __post_init__(self) -> None:
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.original = self.production.read_bytes()

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.root, self.kernel)

    def configure(self, text: str) -> None:
        """Makes this warpsmith.yaml, as though it had been so from the start."""
        (self.root / "warpsmith.yaml").write_text(text)
        path = self.workspace.guarded
        if path.is_file():
            then = read_document(path, GuardedFiles)
            files = guarded_files(self.root, then.target_file, then.tests, source=then.source)
            write_document(path, then.model_copy(update={"files": files}))

    @property
    def production(self) -> Path:
        return self.root / self.source

    @property
    def asked(self) -> Path:
        """Every question that was asked of the GPU, its kind and identity a line."""
        return self.scratch / "asked"

    def go_on(
        self,
        at: At = NEVER,
        signal_number: int = signal.SIGKILL,
        *,
        again: bool = False,
        within_s: float | None = None,
    ) -> Ended:
        """The command that begins, and goes on with, the run; interrupted at an event, or after so many seconds.

        It asks nothing that is answered already, and keeps what it asked, but for what was asked last.
        """
        stored, before = set(self.identities()), len(self.questions())
        ended = self._command(self.arguments, at, signal_number, again=again, within_s=within_s)
        asked = self.questions()[before:]
        assert stored.isdisjoint(asked), "asked again"
        stored.update(self.identities())
        kept = [identity in stored for identity in asked]
        assert kept == sorted(kept, reverse=True), "an answer was not kept, and later ones were"
        return ended

    def command(self, *arguments: str, at: At = NEVER) -> Ended:
        """Any command, killed at an event or not at all."""
        return self._command(arguments, at, signal.SIGKILL, again=False, within_s=None)

    def _command(
        self, arguments: tuple[str, ...], at: At, signal_number: int, *, again: bool, within_s: float | None
    ) -> Ended:
        output = self.scratch / "output"
        environment = {MARK: self.mark, "XDG_CACHE_HOME": str(self.scratch / "cache")}
        reply = self.launcher.order(
            folder=str(self.root),
            arguments=arguments,
            at=at,
            signal=signal_number,
            again=again,
            within_s=within_s,
            output=str(output),
            asked=str(self.asked),
            compiled_before=None if self.compiled_before is None else str(self.compiled_before),
            environment=environment,
        )
        return Ended(output=output.read_text(encoding="utf-8", errors="replace"), **reply)

    def check(self) -> None:
        """What holds after any interruption."""
        self.check_nothing_is_running()
        self.check_production()
        self.read()
        identities = self.identities()
        assert len(identities) == len(set(identities)), "an answer is stored twice"
        for command in ("next", "status"):
            told = self.command(command, self.kernel, "--json")
            assert told.code == 0, told.output

    def check_production(self) -> None:
        content, winner = self.production.read_bytes(), self.winner() or self.original
        assert content in (self.original, winner, winner + self.style), "the production file is neither"

    def winner(self) -> bytes | None:
        if not self.workspace.search_result.is_file():
            return None
        number = read_document(self.workspace.search_result, SearchResult).winner
        return None if number is None else self.workspace.variant(number).read_bytes()

    def check_nothing_is_running(self) -> None:
        deadline_s = time.monotonic() + GONE_WITHIN_S
        while left := running_with(self.mark):
            assert time.monotonic() < deadline_s, f"still running: {left}"
            time.sleep(0.01)

    def documents(self) -> dict[str, Any]:
        """Every document that is there, without what no two runs share. Raises UsageError for a damaged one."""
        return {name: repeatable(document.model_dump(mode="json")) for name, document in self.read().items()}

    def read(self) -> dict[str, Contract]:
        """Every document that is there. Raises UsageError for a damaged one."""
        workspace = self.workspace
        types: dict[Path, type[Contract]] = {
            workspace.request: Request,
            workspace.profile: Profile,
            workspace.search_result: SearchResult,
            workspace.final_result: FinalResult,
            workspace.approvals: Approvals,
            workspace.guarded: GuardedFiles,
            workspace.handover: HandOver,
            **dict.fromkeys(workspace.variant_records(), Variant),
        }
        found = {path.name: read_document(path, kind) for path, kind in types.items() if path.is_file()}
        unknown = {path.name for path in workspace.directory.glob("[!.]*.json")} - found.keys()
        assert unknown == set(), f"files that are taken for documents: {unknown}"
        return found

    def identities(self) -> list[str]:
        """Of every answer in the store, in order. A torn last line is no answer, nor is a failure.

        Raises UsageError where any other line is torn.
        """
        records = read_lines(self.workspace.measurements)
        return [record["identity"] for record in records if FAILURE not in record["answer"]]

    def questions(self) -> list[str]:
        """The identity of every question that the GPU was asked, in order, but for what each session asks anew."""
        lines = self.asked.read_text().splitlines() if self.asked.is_file() else []
        asked = [line.split() for line in lines]
        return [identity for kind, identity in asked if kind not in ("describe", "identify")]

    def leftovers(self) -> list[str]:
        """What warpsmith left beside the production file."""
        return sorted(path.name for path in self.production.parent.glob("*warpsmith-*"))


NewRun = Callable[[], InterruptedRun]


def running_with(mark: str) -> list[str]:
    """The processes whose environment holds the mark, as "pid command"."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(f"{entry.name} {(entry / 'cmdline').read_bytes()[:200]!r}")
        except OSError:
            continue  # another user's, or gone
    return found


def repeatable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: repeatable(each) for key, each in value.items() if key not in UNREPEATABLE}
    if isinstance(value, list):
        return [repeatable(each) for each in value]
    if isinstance(value, str):
        return re.sub(r"\bin [\d.]+ ?s\b", "in a while", value)
    return value
