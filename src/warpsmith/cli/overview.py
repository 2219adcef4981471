"""`list` and `doctor`: what there is to work on, and what there is to work with."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from warpsmith.cli.output import os_error_told, print_json
from warpsmith.cli.width import say
from warpsmith.contracts.errors import ExitCode, WarpsmithError
from warpsmith.contracts.printed import ListedKernel
from warpsmith.project.config import load_config
from warpsmith.project.discover import find_root, list_targets, misnamed_told
from warpsmith.stages import checkpoints
from warpsmith.workspace.layout import Workspace


def listed(root: Path) -> list[ListedKernel]:
    """Every kernel of the project, by name. Raises UsageError."""
    config = load_config(root)
    return [
        ListedKernel(
            kernel=name,
            target=path.relative_to(root).as_posix(),
            **_next(Workspace(root, name), terminal_only=config.terminal_only),
        )
        for name, path in list_targets(root, config).items()
    ]


def print_targets(start: Path, *, as_json: bool) -> int:
    root = find_root(start)
    rows = listed(root)
    say(misnamed_told(root, load_config(root)), sys.stderr)
    if as_json:
        print_json([row.model_dump() for row in rows])
        return ExitCode.DONE
    if not rows:
        say(
            "no targets here; a target file is named benchmark/benchmark_<kernel>.py, see `targets` in warpsmith.yaml",
            sys.stdout,
        )
    say(told(rows), sys.stdout)
    return ExitCode.DONE


def told(rows: Sequence[ListedKernel]) -> list[str]:
    """A line a kernel with its target, and what comes next below it, however many kernels there are and how wide."""
    width = max((len(row.kernel) for row in rows), default=0)
    lines = []
    for row in rows:
        lines += [f"{row.kernel:{width}}  {row.target}", f"    next: {_step_of(row)}"]
        if row.problem is not None:
            lines.append(f"    {row.problem}")
    return lines


def _step_of(row: ListedKernel) -> str:
    return f"{row.where}: {row.next}" if row.where else row.next or "-"


def _next(workspace: Workspace, *, terminal_only: bool) -> dict[str, str | None]:
    """The next command of a kernel, and what is wrong with its workspace: that is no reason to hide the others."""
    try:
        workspace.expect_folder()
        step = checkpoints.next_step(workspace, workspace.kernel, terminal_only=terminal_only)
    except WarpsmithError as error:
        return {"next": error.next_command, "where": None, "problem": error.message}
    except OSError as error:
        return {"next": None, "where": None, "problem": os_error_told(error)}
    return {"next": step.command, "where": step.where, "problem": None}


def print_doctor(*, as_json: bool) -> int:
    from warpsmith.stages.doctor import examine

    findings = examine(Path.cwd())
    usable = all(finding.ok for finding in findings if finding.name.startswith(("gpu", "torch", "triton")))
    if as_json:
        print_json([finding.model_dump(mode="json") for finding in findings])
    else:
        for finding in findings:
            say(f"{'ok' if finding.ok else '--':3} {finding.name:18} {finding.found}", sys.stdout)
            if finding.consequence:
                say(f"    {'':18} {finding.consequence}", sys.stdout)
            if finding.remedy:
                say(f"    {'':18} remedy: {finding.remedy}", sys.stdout)
    return ExitCode.DONE if usable else ExitCode.UNAVAILABLE
