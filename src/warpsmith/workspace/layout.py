"""Where everything under optimization/<kernel>/ lies. No other module spells these names; no stage's logic is here."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsmith.contracts.errors import UsageError
from warpsmith.workspace.atomic import unwritable
from warpsmith.workspace.documents import write_text
from warpsmith.workspace.ledger import Ledger

FOLDER = "optimization"

_KERNEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True)
class Workspace:
    """One kernel's workspace in a repository. Properties are paths; whether a file is there is the caller's question.

    Raises UsageError for a kernel name that is no identifier.
    """

    root: Path
    kernel: str

    def __post_init__(self) -> None:
        if not _KERNEL_NAME.fullmatch(self.kernel):
            raise UsageError(f"a kernel's name is letters, digits and underscores; found {self.kernel!r}")

    def create(self) -> None:
        """Makes the folder, and keeps workspaces out of git unless the repository has its own rule there.

        Raises Unavailable where the disk is full or not writable.
        """
        ignore = self.directory.parent / ".gitignore"
        if not ignore.exists():
            write_text(ignore, "*\n")
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(self.directory, error) from error

    def expect_folder(self) -> None:
        """Raises UsageError where something else stands in the place of the folder that runs write to."""
        for path in (self.root / FOLDER, Workspace(self.root, self.kernel).directory):
            if (path.exists() or path.is_symlink()) and not path.is_dir():
                raise UsageError(
                    f"{path} is no folder; expected the one that runs write to",
                    next_command=shlex.join(["mv", str(path), f"{path}.damaged"]),
                )

    def relative(self, path: Path) -> str:
        """A path as it is told to people: from the repository's root, with forward slashes."""
        return path.relative_to(self.root).as_posix()

    def log(self, event: str, **fields: Any) -> None:
        """Appends an event to the ledger."""
        Ledger(self.ledger).append(event, **fields)

    def events(self) -> list[dict[str, Any]]:
        """The ledger's events, oldest first. Raises UsageError where the ledger is damaged."""
        return Ledger(self.ledger).events()

    def last_event(self) -> dict[str, Any] | None:
        """The ledger's newest event. Raises UsageError where the ledger is damaged."""
        events = self.events()
        return events[-1] if events else None

    @property
    def directory(self) -> Path:
        return self.root / FOLDER / self.kernel

    @property
    def request(self) -> Path:
        return self.directory / "request.json"

    @property
    def original(self) -> Path:
        return self.directory / f"original_{self.kernel}.py"

    @property
    def profile_page(self) -> Path:
        return self.directory / "profile.md"

    @property
    def profile(self) -> Path:
        return self.directory / "profile.json"

    def variant(self, number: int) -> Path:
        """A variant's source; number 0 is the original."""
        return self.original if number == 0 else self.directory / f"{self.kernel}_v{number}.py"

    def variant_notes(self, number: int) -> Path:
        return self.directory / f"{self.kernel}_v{number}_notes.md"

    def variant_record(self, number: int) -> Path:
        return self.directory / f"{self.kernel}_v{number}.json"

    def variant_records(self) -> tuple[Path, ...]:
        """The records that are there, by variant number."""
        pattern = re.compile(rf"{self.kernel}_v(\d+)\.json", re.ASCII)
        found = [
            (int(match[1]), path) for path in self.directory.glob("*.json") if (match := pattern.fullmatch(path.name))
        ]
        return tuple(path for _, path in sorted(found))

    @property
    def baseline_csv(self) -> Path:
        return self.directory / "benchmarks" / "v0_baseline.csv"

    def results_csv(self, number: int) -> Path:
        return self.directory / "benchmarks" / f"v{number}_results.csv"

    def samples_csv(self, number: int) -> Path:
        """The raw samples of a variant's comparisons; number 0 has those of the profile."""
        return self.directory / "benchmarks" / f"v{number}_samples.csv"

    @property
    def confirmation_csv(self) -> Path:
        """The raw samples of the winner measured afresh."""
        return self.directory / "benchmarks" / "confirmation_samples.csv"

    @property
    def measurements(self) -> Path:
        return self.directory / "measurements.jsonl"

    @property
    def sweep_csv(self) -> Path:
        return self.directory / "sweep.csv"

    @property
    def comparison(self) -> Path:
        return self.directory / "comparison.md"

    @property
    def search_result(self) -> Path:
        return self.directory / "comparison.json"

    @property
    def plots(self) -> Path:
        """A folder."""
        return self.directory / "plots"

    @property
    def report_page(self) -> Path:
        return self.directory / "report.md"

    @property
    def report_html(self) -> Path:
        return self.directory / "report.html"

    @property
    def final_result(self) -> Path:
        return self.directory / "report.json"

    @property
    def handover(self) -> Path:
        return self.directory / "handover.json"

    @property
    def pull_request(self) -> Path:
        return self.directory / "pull-request.md"

    @property
    def ledger(self) -> Path:
        return self.directory / "ledger.jsonl"

    @property
    def approvals(self) -> Path:
        return self.directory / "approvals.json"

    @property
    def guarded(self) -> Path:
        return self.directory / "guarded.json"

    @property
    def worker_log(self) -> Path:
        return self.directory / "worker.log"

    @property
    def tests_log(self) -> Path:
        return self.directory / "tests.log"

    @property
    def scratch(self) -> Path:
        """A folder for sources that are measured and not kept as variants."""
        return self.directory / "scratch"

    @property
    def history(self) -> Path:
        """A folder with a folder for each finished run that made way for a new one."""
        return self.directory / "history"

    @property
    def lock(self) -> Path:
        return self.directory / ".lock"

    @property
    def progress(self) -> Path:
        """Hidden, so that it stays when a run moves to history: it belongs to whoever works here now."""
        return self.directory / ".progress.json"

    @property
    def detached(self) -> Path:
        """Hidden, as `progress`; so are its log and its lock."""
        return self.directory / ".detached.json"

    @property
    def detached_log(self) -> Path:
        return self.directory / ".detached.log"

    @property
    def detached_lock(self) -> Path:
        return self.directory / ".detached.lock"

    def past(self) -> tuple[PastRun, ...]:
        """The runs in the history, newest first."""
        try:
            folders = [path.name for path in self.history.iterdir() if path.is_dir() and not path.name.startswith(".")]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise UsageError(f"{self.history} cannot be read: {error.strerror}") from error
        return tuple(PastRun(self.root, self.kernel, run_id) for run_id in sorted(folders, reverse=True))


@dataclass(frozen=True)
class PastRun(Workspace):
    """A run that made way for another one: the same files, in a folder of the history. Only to be read."""

    run_id: str

    @property
    def directory(self) -> Path:
        return super().directory / "history" / self.run_id
