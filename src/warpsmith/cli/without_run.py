"""The commands that need no run and touch none: a comparison with other sources, and a look at one source."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsmith.cli.options import (
    AsJson,
    Base,
    BenchCache,
    Cases,
    Device,
    Kernel,
    Method,
    Providers,
    Quiet,
    Sources,
    TargetGpus,
)
from warpsmith.contracts.case import Mode
from warpsmith.contracts.errors import UsageError


def bench(
    kernel: Kernel,
    providers: Providers = None,
    mode: Annotated[list[Mode] | None, typer.Option(help="A pass, or both; may be repeated; else all.")] = None,
    case: Cases = None,
    sources: Sources = None,
    l2: BenchCache = None,
    method: Method = None,
    device: Device = None,
    device_time_only: Annotated[
        bool, typer.Option("--device-time-only", help="Neither host time nor peak memory, which take longest.")
    ] = False,
    into: Annotated[Path | None, typer.Option(help="The folder for it all; else optimization/KERNEL/bench.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Compare the kernel as it is with other sources and with the baselines. Needs no run and touches none."""
    from warpsmith.cli.bench import bench as compare_with
    from warpsmith.stages.bench_request import Asked

    asked = Asked(
        providers=tuple(name.strip() for name in (providers or "").split(",") if name.strip()),
        modes=tuple(mode or ()),
        cases=tuple(case or ()),
        l2=l2,
        method=method,
        files=tuple(sources or ()),
        device=device or "auto",
        device_time_only=device_time_only,
    )
    return compare_with(Path.cwd(), kernel, asked, into=into, as_json=as_json, quiet=quiet)


def check(
    kernel: Annotated[str | None, typer.Argument(help="The kernel's name, as `warpsmith list` shows it.")] = None,
    file: Annotated[Path | None, typer.Argument(help="What would stand in its place; itself, if not given.")] = None,
    case: Cases = None,
    seed: Annotated[int, typer.Option(help="What random inputs are made from.")] = 0,
    device: Annotated[str | None, typer.Option(help="A GPU or `interpreter`: small fp32 cases, or any --case.")] = None,
    sanitize: Annotated[bool, typer.Option("--sanitize", help="Then under compute-sanitizer, as a winner is.")] = False,
    base: Base = None,
    target_gpu: TargetGpus = None,
    list_all: Annotated[bool, typer.Option("--list", help="Only tell what is checked.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Examine one source file as a run would, and tell why it may not stand in the kernel's place, if it may not.

    With --base, compare what it compiles to with a base instead: for continuous integration, where there is no GPU.
    """
    from warpsmith.cli.check import check as examine
    from warpsmith.cli.check import compare, list_checks
    from warpsmith.stages.check_request import Asked, ChangeAsked

    if list_all:
        return list_checks(as_json=as_json)
    if kernel is None:
        raise UsageError("expected a kernel: warpsmith check KERNEL [FILE]", next_command="warpsmith list")
    if base is not None:
        if device is not None or sanitize:
            raise UsageError("--base compiles and runs nothing: it excludes --device and --sanitize")
        change = ChangeAsked(base, file, tuple(target_gpu or ()), tuple(case or ()), seed)
        return compare(Path.cwd(), kernel, change, as_json=as_json, quiet=quiet)
    if target_gpu:
        raise UsageError("--target-gpu is for --base: what is examined without a base is run, by --device")
    asked = Asked(file, tuple(case or ()), seed, device or "auto", sanitize)
    if asked.sanitizes and asked.interprets:
        raise UsageError("compute-sanitizer looks at a GPU: --sanitize and --device interpreter exclude each other")
    return examine(Path.cwd(), kernel, asked, as_json=as_json, quiet=quiet)
