"""What the shell sees of one command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Outcome:
    """`told` and `told_err` are the same texts in one line, however wide they were shown."""

    exit_code: int
    out: str
    err: str

    @property
    def told(self) -> str:
        return " ".join(self.out.split())

    @property
    def told_err(self) -> str:
        return " ".join(self.err.split())


class Command(Protocol):
    """Runs `warpsmith ARGUMENTS` in a folder."""

    def __call__(self, folder: Path, *arguments: str) -> Outcome: ...
