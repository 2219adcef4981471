"""The JSON Schemas of what `--json` prints: `python -m warpsmith.cli.schemas FOLDER` writes one file a command.

Made from the contracts that the commands print, so that they cannot differ. A test holds docs/schemas/ against them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from warpsmith.contracts.approval import Approval
from warpsmith.contracts.bench import BenchResult
from warpsmith.contracts.compiled_change import CompiledChange
from warpsmith.contracts.detached import DetachedNow
from warpsmith.contracts.examination import CheckResult
from warpsmith.contracts.printed import Failure, HandedOver, ListedKernel, Status
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.result import FinalResult, NextStep, SearchResult, TakenBack
from warpsmith.contracts.skill import InstalledSkills, SkillChecks
from warpsmith.contracts.verification import Verification
from warpsmith.stages.doctor.finding import Finding
from warpsmith.workspace.documents import write_text

DIALECT = "https://json-schema.org/draft/2020-12/schema"

#: What is printed, by the command and what tells its answers apart -> (the command line, the form of its answer).
PRINTED: dict[str, tuple[str, TypeAdapter[Any]]] = {
    "approve": ("approve", TypeAdapter(Approval)),
    "bench": ("bench", TypeAdapter(BenchResult)),
    "check": ("check", TypeAdapter(CheckResult)),
    "check-base": ("check --base", TypeAdapter(CompiledChange)),
    "check-list": ("check --list", TypeAdapter(dict[str, str])),
    "detach": ("run, profile, optimize and finalize with --detach", TypeAdapter(DetachedNow)),
    "doctor": ("doctor", TypeAdapter(list[Finding])),
    "failure": ("every command that fails", TypeAdapter(Failure)),
    "finalize": ("finalize", TypeAdapter(FinalResult)),
    "finalize-branch": ("finalize --branch or --pr", TypeAdapter(HandedOver)),
    "list": ("list", TypeAdapter(list[ListedKernel])),
    "next": ("next", TypeAdapter(NextStep)),
    "optimize": ("optimize", TypeAdapter(SearchResult)),
    "profile": ("profile", TypeAdapter(Profile)),
    "report": ("report", TypeAdapter(FinalResult)),
    "revert": ("revert", TypeAdapter(TakenBack)),
    "run": ("run, at its end or at a checkpoint", TypeAdapter(FinalResult | NextStep)),
    "skills-check": ("skills check", TypeAdapter(SkillChecks)),
    "skills-install": ("skills install", TypeAdapter(InstalledSkills)),
    "status": ("status", TypeAdapter(Status)),
    "verify": ("verify", TypeAdapter(Verification)),
}


def schema(name: str) -> str:
    """The schema of that name as the text of its file. Raises KeyError."""
    command, adapter = PRINTED[name]
    head = {"$schema": DIALECT, "$comment": "Written by `make schemas`."}
    told = {"title": f"What warpsmith prints with --json: {command}"}
    return json.dumps({**head, **adapter.json_schema(), **told}, indent=2, ensure_ascii=False) + "\n"


def write(folder: Path) -> None:
    """Writes every schema, and takes away what is none any more. Raises Unavailable."""
    for name in PRINTED:
        write_text(folder / f"{name}.json", schema(name))
    for path in folder.glob("*.json"):
        if path.stem not in PRINTED:
            path.unlink()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
