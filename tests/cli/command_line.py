"""What the shell sees of one command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Outcome:
    exit_code: int
    out: str
    err: str


class Command(Protocol):
    """Runs `warpsmith ARGUMENTS` in a folder."""

    def __call__(self, folder: Path, *arguments: str) -> Outcome: ...
