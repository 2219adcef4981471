"""`bench`: the kernel beside other sources and the baseline providers, outside any run."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from warpsmith.cli.output import print_json
from warpsmith.cli.progress import shown
from warpsmith.contracts.errors import ExitCode
from warpsmith.project.config import load_config
from warpsmith.project.discover import find_root
from warpsmith.stages.bench_request import Asked
from warpsmith.workspace.bench_layout import BenchWorkspace
from warpsmith.workspace.lock import run_lock
from warpsmith.workspace.runs import new_run_id


def bench(start: Path, kernel: str, asked: Asked, *, into: Path | None, as_json: bool, quiet: bool) -> int:
    """Prints the comparison as a table, or as bench.json has it. Raises WarpsmithError, WorkerError."""
    from warpsmith.report.bench_view import bench_lines
    from warpsmith.stages.bench import bench as measured
    from warpsmith.stages.bench import expect_answerable

    root = find_root(start)
    config = load_config(root)
    workspace = BenchWorkspace(root, kernel, None if into is None else into.resolve())
    workspace.expect_outside_runs()
    expect_answerable(root, config, kernel, asked)
    with (
        run_lock(workspace),
        shown(workspace, new_run_id(datetime.now(timezone.utc)), "bench", quiet=quiet) as progress,
    ):
        result = measured(root, config, workspace, asked, progress)
    if as_json:
        print_json(result)
        return ExitCode.DONE
    print("\n".join(bench_lines(result)))
    for name, path in (("figures", workspace.csv), ("plots", workspace.plots), ("samples", workspace.measurements)):
        print(f"{name}: {path.relative_to(root) if path.is_relative_to(root) else path}")
    return ExitCode.DONE
