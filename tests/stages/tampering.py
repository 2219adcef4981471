"""Changes to what a run has on disk, and what `verify` says of it then."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simulated_run import TARGET_FILE, Run

from warpsmith.contracts.verification import Verification
from warpsmith.project.config import load_config
from warpsmith.stages.verify import verify
from warpsmith.workspace.layout import Workspace
from warpsmith.workspace.store import content_sha256

Record = dict[str, Any]


def verified(run: Run, workspace: Workspace | None = None) -> Verification:
    config = load_config(run.root)
    return verify(workspace or run.workspace, config, run.root / TARGET_FILE, run.told.lines.append)


def told(found: Verification) -> list[str]:
    return [str(difference) for difference in found.differences]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def records(run: Run) -> list[Record]:
    return [json.loads(line) for line in run.workspace.measurements.read_bytes().splitlines()]


def rewrite(run: Run, records: list[Record]) -> None:
    run.workspace.measurements.write_text("".join(f"{json.dumps(record)}\n" for record in records))


def edit_answer(run: Run, change: Callable[[Record], None], *, kind: str = "time", signed: bool = False) -> None:
    """Changes the first answer of that kind that is stored; `signed`, with a hash that fits."""
    found = records(run)
    record = next(record for record in found if record["kind"] == kind)
    change(record)
    if signed:
        record["sha256"] = content_sha256(record)
    rewrite(run, found)


def double_the_original(record: Record) -> None:
    for block in record["answer"]["blocks"]:
        if block["contender"] == "original":
            block["samples_ms"] = [2 * sample_ms for sample_ms in block["samples_ms"]]
