"""`verify`: a run against its raw samples, told in a few lines or as JSON."""

from __future__ import annotations

import sys
from pathlib import Path

from warpsmith.cli.output import print_json
from warpsmith.cli.width import say
from warpsmith.contracts.errors import ExitCode
from warpsmith.contracts.verification import Verification
from warpsmith.project.config import load_config
from warpsmith.project.discover import find_root, find_target
from warpsmith.stages.history import find_run
from warpsmith.workspace.layout import Workspace

_SHOWN_DIFFERENCES = 40


def verify(start: Path, kernel: str, run_id: str | None, *, as_json: bool, quiet: bool) -> int:
    """Exit status 0 where everything agrees, 5 where anything differs."""
    root = find_root(start)
    config = load_config(root)
    target_path = find_target(root, config, kernel)
    run = Workspace(root, kernel)
    if run_id is not None:
        run = find_run(run, run_id)
    from warpsmith.stages.verify import verify as verified  # slow to load: it reaches all stages

    found = verified(run, config, target_path, lambda text: None if quiet else print(text, file=sys.stderr))
    if as_json:
        print_json(found)
    else:
        say(told(found), sys.stdout)
    return ExitCode.DONE if found.agrees else ExitCode.REJECTED


def told(found: Verification) -> list[str]:
    """The result line by line, for a person."""
    recomputed = f"{found.numbers:,} numbers and {found.lines:,} lines in {found.documents} files"
    answers = f"{found.answers:,} raw answers ({found.samples})"
    head = f"{found.kernel}: run {found.run_id}"
    if found.agrees:
        lines = [f"{head} agrees: {recomputed} follow from {answers}"]
    else:
        count = len(found.differences)
        lines = [f"{head} differs in {count} {'place' if count == 1 else 'places'}; {recomputed}, {answers}:"]
        lines += [f"  {difference}" for difference in found.differences[:_SHOWN_DIFFERENCES]]
        if count > _SHOWN_DIFFERENCES:
            more = count - _SHOWN_DIFFERENCES
            lines.append(f"  and {more} more; `warpsmith verify {found.kernel} --json` lists all")
    lines.append(f"  gone through again: {', '.join(found.stages) or 'no stage to its end'}")
    return [*lines, *(f"  not compared: {left_out}" for left_out in found.left_out)]
