"""What git says of the repository. Read-only; no git, or no repository, is an answer and no error."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

#: Chosen: a status of one file takes milliseconds; longer is a network disk that hangs.
_TIME_LIMIT_S = 30.0


def is_dirty(root: Path, path: Path) -> bool | None:
    """Whether a file differs from the last commit (an untracked one does). None where git cannot say."""
    told = _git(root, "status", "--porcelain", "--untracked-files=all", "--ignored", "--", str(path))
    return None if told is None else bool(told.strip())


def head(root: Path) -> str | None:
    """The commit that is checked out, as 40 hexadecimal digits. None where git cannot say."""
    told = _git(root, "rev-parse", "--verify", "HEAD")
    return None if told is None else told.strip()


def _git(root: Path, *arguments: str) -> str | None:
    # Optional locks would make a concurrent git command of the user's fail.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        finished = subprocess.run(
            ["git", *arguments], cwd=root, env=environment, capture_output=True, text=True, timeout=_TIME_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return finished.stdout if finished.returncode == 0 else None
