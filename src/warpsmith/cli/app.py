"""The commands. Each finds the project, opens what it needs, and prints a result; the work is in the stages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.cli.asked import AimText, asked_for
from warpsmith.cli.options import (
    AsJson,
    BenchmarkData,
    Branch,
    BranchName,
    Cache,
    Detach,
    Device,
    Fresh,
    Goal,
    Into,
    Kernel,
    MaxVariants,
    ObjectiveOption,
    OnlyGpu,
    Provider,
    PullRequestOption,
    Quiet,
    Regime,
    RunId,
    TargetGpu,
    TargetMetricOption,
    Weight,
)
from warpsmith.cli.skills import app as skills
from warpsmith.cli.without_run import bench, check
from warpsmith.contracts.approval import Gate
from warpsmith.contracts.errors import ExitCode, Unavailable

if TYPE_CHECKING:
    from warpsmith.cli.flow import Flow

app = typer.Typer(
    name="warpsmith",
    help="Make an existing Triton kernel faster, and prove it: profile, optimize, finalize.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def run(
    kernel: Kernel,
    autonomous: Annotated[bool, typer.Option("--autonomous", help="Go through without asking a person.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="The same as --autonomous.", hidden=True)] = False,
    goal: Goal = None,
    max_variants: MaxVariants = None,
    target_speedup: Annotated[float | None, typer.Option(help="Stop when this speed-up is reached.")] = None,
    device: Device = None,
    target_gpu: TargetGpu = None,
    l2: Cache = None,
    objective: ObjectiveOption = None,
    regime: Regime = None,
    weight: Weight = None,
    target_metric: TargetMetricOption = None,
    fresh: Fresh = False,
    detach: Detach = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Profile, optimize and finalize a kernel; stops where a person must decide, unless --autonomous."""
    options = asked_for(
        kernel,
        goal=goal,
        autonomous=True if autonomous or yes else None,
        max_variants=max_variants,
        target_speedup=target_speedup,
        device=device,
        target_gpu=target_gpu,
        l2=l2,
        aim=AimText(objective, regime, weight, target_metric),
        fresh=fresh,
    )
    return _detached(kernel, as_json) if detach else _flow(kernel, as_json, quiet).run(options)


@app.command()
def profile(
    kernel: Kernel,
    goal: Goal = None,
    device: Device = None,
    target_gpu: TargetGpu = None,
    l2: Cache = None,
    objective: ObjectiveOption = None,
    regime: Regime = None,
    weight: Weight = None,
    target_metric: TargetMetricOption = None,
    fresh: Fresh = False,
    detach: Detach = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Stage 1: measure the kernel as it is, and find what holds it back."""
    aim = AimText(objective, regime, weight, target_metric)
    options = asked_for(kernel, goal=goal, device=device, target_gpu=target_gpu, l2=l2, aim=aim, fresh=fresh)
    return _detached(kernel, as_json) if detach else _flow(kernel, as_json, quiet).profile(options)


@app.command()
def optimize(
    kernel: Kernel,
    max_variants: MaxVariants = None,
    detach: Detach = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Stage 2: write variants, judge each against the original, keep the best."""
    options = asked_for(kernel, max_variants=max_variants)
    return _detached(kernel, as_json) if detach else _flow(kernel, as_json, quiet).optimize(options)


@app.command()
def finalize(
    kernel: Kernel,
    branch: Branch = False,
    branch_name: BranchName = None,
    pr: PullRequestOption = False,
    detach: Detach = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Stage 3: confirm the winner afresh, apply it behind the kernel's tests, report; hand it over if asked."""
    if detach:
        return _detached(kernel, as_json)
    flow = _flow(kernel, as_json, quiet)
    if not (branch or branch_name or pr):
        return flow.finalize()
    from warpsmith.cli.handover import finalize_and_hand_over

    return finalize_and_hand_over(flow, branch_name, pull_request=pr)


@app.command()
def revert(kernel: Kernel, as_json: AsJson = False) -> int:
    """Put the original back, where the source file is exactly what finalize made of it."""
    from warpsmith.cli.revert import revert

    return revert(Path.cwd(), kernel, as_json=as_json)


@app.command()
def approve(
    kernel: Kernel,
    gate: Annotated[Gate | None, typer.Option(help="Which checkpoint; the one that is waiting, if not given.")] = None,
    as_json: AsJson = False,
) -> int:
    """A person's yes to the step that waits. It is bound to the hashes of what is on disk now."""
    return _flow(kernel, as_json, quiet=True).approve(gate)


@app.command(name="next")
def next_step(kernel: Kernel, as_json: AsJson = False) -> int:
    """The one legal next command of a run, why, and what to read before it."""
    return _flow(kernel, as_json, quiet=True).next()


@app.command()
def status(kernel: Kernel, as_json: AsJson = False) -> int:
    """Where a run stands, how far it is if it is running now, and the runs before it."""
    return _flow(kernel, as_json, quiet=True).status()


@app.command()
def report(
    kernel: Kernel,
    run_id: RunId = None,
    benchmark_data: BenchmarkData = None,
    provider: Provider = None,
    as_json: AsJson = False,
) -> int:
    """The report of the last finished run, or of an earlier one; or its figures, put into benchmark data."""
    flow = _flow(kernel, as_json, quiet=True)
    if benchmark_data is None:
        return flow.report(run_id)
    from warpsmith.cli.benchmark_data import put_into

    return put_into(flow, benchmark_data, provider, as_json=as_json)


@app.command()
def verify(
    kernel: Kernel,
    run_id: RunId = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Recompute every number of a run from its raw samples, and name any that differs. Needs no GPU."""
    from warpsmith.cli.verify import verify

    return verify(Path.cwd(), kernel, run_id, as_json=as_json, quiet=quiet)


@app.command()
def demo(
    kernel: Annotated[str, typer.Argument(help="A kernel with a recording.")] = "rms_norm",
    into: Into = None,
    device: Device = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """The whole job in a scratch copy of this repository, replayed from a recording where there is no GPU."""
    from warpsmith.cli.demonstration import demo

    return demo(Path.cwd(), kernel, into=into, device=device, as_json=as_json, quiet=quiet)


@app.command()
def record(
    kernel: Kernel, into: Into = None, device: OnlyGpu = None, as_json: AsJson = False, quiet: Quiet = False
) -> int:
    """Measure a whole run in a scratch copy, and keep it for machines without a GPU to replay."""
    from warpsmith.cli.demonstration import record

    return record(Path.cwd(), kernel, into=into, device=device, as_json=as_json, quiet=quiet)


app.command()(bench)
app.command()(check)
app.add_typer(skills)


@app.command(name="list")
def list_kernels(as_json: AsJson = False) -> int:
    """The kernels that this project can optimize."""
    from warpsmith.cli.overview import print_targets

    return print_targets(Path.cwd(), as_json=as_json)


@app.command()
def doctor(as_json: AsJson = False) -> int:
    """What is here to work with: GPU, driver, torch, triton, ncu, compute-sanitizer."""
    from warpsmith.cli.overview import print_doctor

    return print_doctor(as_json=as_json)


@app.command()
def mcp() -> int:
    """Serve the commands as tools of the Model Context Protocol, on standard input and output."""
    from importlib.util import find_spec

    from warpsmith.project.discover import find_root

    if find_spec("mcp") is None:
        what = "the server needs the package mcp, which the extra `mcp` installs"
        raise Unavailable(what, next_command="pip install 'warpsmith[mcp]'")
    from warpsmith.cli.mcp_server import serve

    serve(find_root(Path.cwd()))
    return ExitCode.DONE


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from warpsmith import __version__

        print(__version__)
        raise typer.Exit(ExitCode.DONE)


def _flow(kernel: str, as_json: bool, quiet: bool) -> Flow:
    from warpsmith.cli.flow import Flow

    return Flow.open(Path.cwd(), kernel, as_json=as_json, quiet=quiet, interactive=sys.stdin.isatty() and not as_json)


def _detached(kernel: str, as_json: bool) -> int:
    from warpsmith.cli.detached import start

    return start(_flow(kernel, as_json, quiet=True).workspace, sys.argv[1:], as_json=as_json)
