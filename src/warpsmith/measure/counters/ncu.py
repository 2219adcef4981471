"""Counts one call of a kernel with ncu, in a process of its own. Trouble with the tool is told, never raised."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from warpsmith.contracts.measurement import Counters
from warpsmith.measure.counters.metrics import METRICS
from warpsmith.measure.counters.raw_csv import parse_raw_csv
from warpsmith.measure.counters.refusals import explain_refusal
from warpsmith.measure.worker.protocol import Count

#: Chosen: counting replays each kernel some tens of times; more than this is a hang.
TIME_LIMIT_S = 180.0


def find_ncu() -> str | None:
    """The ncu on the path, else the one of a CUDA toolkit where it is usually installed."""
    installed = sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu"), reverse=True)
    candidates = (shutil.which("ncu"), "/usr/local/cuda/bin/ncu", *map(str, installed))
    return next((path for path in candidates if path and os.access(path, os.X_OK)), None)


def count(question: Count) -> Counters:
    """One row a kernel launch of the asked case and mode, or why there is none and what would mend it."""
    ncu = find_ncu()
    if ncu is None:
        return _refused(question, "ncu is not installed", "install NVIDIA Nsight Compute and put ncu on the path")
    with tempfile.TemporaryDirectory(prefix="warpsmith-ncu-") as folder:
        asked = Path(folder) / "question.json"
        asked.write_text(question.model_dump_json(), encoding="utf-8")
        output, finished = _run([*_command(ncu), str(asked)])
    if not finished:
        return _refused(question, f"ncu did not finish within {TIME_LIMIT_S:.0f} s", "try a smaller case")
    try:
        rows, missing = parse_raw_csv(output, METRICS)
    except ValueError:
        rows, missing = (), ()
    if not rows:
        return _refused(question, *explain_refusal(output))
    return Counters(
        case=question.case, mode=question.mode, rows=rows, ncu_version=_version(ncu), missing_metrics=missing
    )


def _command(ncu: str) -> list[str]:
    """ncu around the runner, counting only between the runner's profiler start and stop.

    That range is the process's, so it holds what autograd launches from its own thread.
    """
    return [
        ncu,
        *("--target-processes", "application-only"),
        *("--profile-from-start", "off"),
        *("--clock-control", "none"),
        *("--cache-control", "all"),
        *("--csv", "--page", "raw", "--print-units", "base"),
        *("--metrics", ",".join(METRICS)),
        *(sys.executable, "-m", "warpsmith.measure.counters.runner"),
    ]


def _run(command: list[str]) -> tuple[str, bool]:
    """What the command printed, and whether it ended by itself."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "", False
    return output, True


def _version(ncu: str) -> str | None:
    output = subprocess.run([ncu, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Version (\S+)", output)
    return found[1] if found else None


def _refused(question: Count, reason: str, remedy: str) -> Counters:
    return Counters(case=question.case, mode=question.mode, unavailable=reason, remedy=remedy)
