"""Runs a program under one of NVIDIA's tools, in a process of its own, and returns what both printed.

Owns the process and its time limit. Must not know what is printed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Chosen: a tool that tells its version at all does so at once, on a slow file system too.
_VERSION_S = 20.0


def find_tool(name: str, *elsewhere: str | Path) -> str | None:
    """The tool on the path, else the first of the other places where it is a program."""
    candidates = (shutil.which(name), *map(str, elsewhere))
    return next((path for path in candidates if path and os.access(path, os.X_OK)), None)


def printed_by(
    words: Sequence[str], output: Path, time_limit_s: float, environment: Mapping[str, str] | None = None
) -> str:
    """What the command printed, with additions to this process's environment. Raises TimeoutExpired, OSError.

    The output goes to a file: a program that outlives a killed tool would keep a pipe open. It stays in this process's
    group, so that whoever ends the worker ends it too, and it has its own alarm.
    """
    with (
        output.open("wb") as file,
        subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C", **(environment or {})},
        ) as process,
    ):
        try:
            process.wait(time_limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return output.read_text(encoding="utf-8", errors="replace")


def version_of(tool: str) -> str | None:
    """What the tool says its version is; None where it says nothing of the kind in time. Raises OSError."""
    try:
        done = subprocess.run([tool, "--version"], capture_output=True, check=False, timeout=_VERSION_S)
    except subprocess.TimeoutExpired:
        return None
    found = re.search(r"Version (\S+)", done.stdout.decode(errors="replace"))
    return found[1] if found else None
