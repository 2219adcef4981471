"""A command that was started with --detach: what it is, and how it ended."""

from __future__ import annotations

from warpsmith.contracts.base import Contract, Document

#: Exit code -> what it means, as a person is told.
MEANINGS = {
    0: "done",
    2: "wrong call or configuration",
    3: "pre-flight failed",
    4: "waiting for approval",
    5: "rejected, or taken back",
    6: "device or tool not available",
    7: "interrupted",
    70: "internal error",
}
#: What calls for nothing but the next step.
ENDED_WELL = (0, 4)


class Detached(Document):
    """optimization/<kernel>/.detached.json, until another command takes up the run. Times are UTC, ISO 8601.

    `log` has what it prints, from the repository's root. `pid` is None until the process is up. `exit_code` and
    `ended_at` are None while it runs, and for ever where it was killed.
    """

    command: str
    log: str
    started_at: str
    pid: int | None = None
    exit_code: int | None = None
    ended_at: str | None = None


class DetachedNow(Contract):
    """The same as it stands now. `follow` is the command that tells how far it is."""

    kernel: str
    running: bool
    command: str
    log: str
    started_at: str
    pid: int | None
    exit_code: int | None
    ended_at: str | None
    follow: str

    @property
    def ended_well(self) -> bool:
        return not self.running and self.exit_code in ENDED_WELL

    @property
    def told(self) -> str:
        """As "`warpsmith run rms_norm`, detached, ended with exit code 7 (interrupted)"."""
        what = f"`{self.command}`, detached,"
        if self.running:
            return f"{what} runs since {self.started_at}"
        if self.exit_code is None:
            return f"{what} ended without a word, as a killed process does"
        return f"{what} ended with exit code {self.exit_code} ({MEANINGS.get(self.exit_code, 'unknown')})"
