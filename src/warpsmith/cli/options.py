"""The arguments and options that several commands have, with their words of help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsmith.contracts.aim import REGIME_EXAMPLE, TARGET_EXAMPLE, WEIGHT_EXAMPLE, Objective
from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import L2, TimingMethod

Kernel = Annotated[str, typer.Argument(help="The kernel's name, as `warpsmith list` shows it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress on standard error.")]
Goal = Annotated[Mode | None, typer.Option(help="What is to get faster: one pass, or forward then backward.")]
Device = Annotated[
    str | None,
    typer.Option(help="GPU: auto (a recording is replayed where there is none), an index, a UUID, or `recorded`."),
]
OnlyGpu = Annotated[str | None, typer.Option("--device", help="GPU: auto, an index, or a UUID.")]
TargetGpu = Annotated[
    str | None,
    typer.Option(
        help="A GPU to compile for without having it, or to predict for: a name such as H200 or RTX 4090, or a family: "
        "volta, turing, ampere, ada, hopper, blackwell. Beside a profile that is there, its code for that GPU is shown."
    ),
]
TargetGpus = Annotated[
    list[str] | None,
    typer.Option("--target-gpu", help="With --base: a GPU to compile for, such as H200; may be repeated; else hopper."),
]
Base = Annotated[
    str | None,
    typer.Option(
        help="Compare the compiled code with that of a git revision, a file, or where HEAD left the default branch "
        "(auto). Needs no GPU and runs nothing; exit code 5 where a fact is over a limit of warpsmith.yaml."
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Move the run that is there to history and begin anew.")]
Detach = Annotated[
    bool, typer.Option("--detach", help="Run in a process of its own, print its id and end; `status` follows it.")
]
Branch = Annotated[
    bool, typer.Option("--branch", help="Then make a git branch with one commit, of the kernel's change alone.")
]
BranchName = Annotated[
    str | None, typer.Option("--branch-name", help="The same, on a branch of this name; else warpsmith/KERNEL.")
]
PullRequestOption = Annotated[
    bool, typer.Option("--pr", help="The same, and open a pull request with `gh`; its body is kept in the workspace.")
]
Cache = Annotated[
    L2 | None, typer.Option("--l2", help="What timed calls find in L2: nothing of their inputs (cold), or them (warm).")
]
RunId = Annotated[
    str | None, typer.Option("--run", help="An earlier run, by its id or how it begins; `status` lists them.")
]
BenchmarkData = Annotated[
    Path | None,
    typer.Option(help="A CSV in Liger-Kernel's columns that takes the applied winner's rows; others stay as they are."),
]
Provider = Annotated[str | None, typer.Option(help="What that CSV calls this repository's own kernel, such as liger.")]
Cases = Annotated[
    list[str] | None,
    typer.Option("--case", help="A case by its name, such as 8192x4096-bf16; may be repeated; else all."),
]
MaxVariants = Annotated[int | None, typer.Option(min=1, help="How many variants to try at most (8).")]
ObjectiveOption = Annotated[
    Objective | None,
    typer.Option("--objective", help="What is to get better: speed, peak memory, or either with the other not worse."),
]
Regime = Annotated[
    list[str] | None,
    typer.Option(help=f"Only the tuning cases that meet it count, such as {REGIME_EXAMPLE!r}; may be repeated."),
]
Weight = Annotated[
    list[str] | None,
    typer.Option(help=f"How much cases count: CASE=2, or such as {WEIGHT_EXAMPLE!r}; may be repeated."),
]
TargetMetricOption = Annotated[
    str | None,
    typer.Option(
        "--target-metric",
        help=f"Stop when the best variant has it, such as {TARGET_EXAMPLE!r}, 'speedup > 1.5', 'peak memory < 1.2 GB'.",
    ),
]
Into = Annotated[Path | None, typer.Option(help="The folder of the copy; a new temporary one, if not given.")]
Providers = Annotated[str | None, typer.Option(help="Baselines to compare with, such as torch,liger; else all.")]
Sources = Annotated[
    list[Path] | None, typer.Option("--with", help="A source to compare, if it is right; may be repeated.")
]
BenchCache = Annotated[
    L2 | None, typer.Option("--l2", help="What calls find in L2; else cold, and warm too where it fits.")
]
Method = Annotated[TimingMethod | None, typer.Option(help="How device time is read; else the most exact way there is.")]
