"""`report --benchmark-data`: the applied winner's figures in the repository's own benchmark data."""

from __future__ import annotations

import sys
from pathlib import Path

from warpsmith.cli.flow import Flow
from warpsmith.cli.output import print_json
from warpsmith.cli.width import say
from warpsmith.contracts.errors import ExitCode, UsageError
from warpsmith.project.benchmark_data import put_rows
from warpsmith.project.discover import find_target
from warpsmith.stages.benchmark_data import rows_of_the_winner


def put_into(flow: Flow, file: Path, provider: str | None, *, as_json: bool) -> int:
    """Raises UsageError without a provider's name or a CSV of that form, and what `rows_of_the_winner` raises."""
    if not provider:
        raise UsageError(
            f"whose rows are they in {file}? expected the name that it gives this repository's own kernel",
            next_command=f"warpsmith report {flow.kernel} --benchmark-data {file} --provider liger   (for example)",
        )
    rows = rows_of_the_winner(flow.workspace, find_target(flow.root, flow.config, flow.kernel), provider)
    replaced, added = put_rows(file, rows)
    if as_json:
        print_json(
            {"kernel": flow.kernel, "file": str(file), "provider": provider, "replaced": replaced, "added": added}
        )
    else:
        say(f"{file}: {replaced} rows of {provider} replaced, {added} added; all others are as they were", sys.stdout)
    return ExitCode.DONE
