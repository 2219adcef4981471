"""`demo` and `record`: the main job in a scratch copy of the repository, replayed or measured for others to replay."""

from __future__ import annotations

import sys
from pathlib import Path

from warpsmith.cli.flow import EXIT_CODES, Flow
from warpsmith.cli.output import print_json
from warpsmith.contracts.errors import ExitCode
from warpsmith.contracts.result import FinalResult
from warpsmith.project.config import load_config
from warpsmith.project.discover import find_root, find_target
from warpsmith.project.recordings import RecordedRun
from warpsmith.stages.recording import copy_to_record, demonstration_copy, recording_of, source_of
from warpsmith.stages.runs import Options
from warpsmith.stages.session import gpu_for
from warpsmith.workspace.documents import read_document


def demo(start: Path, kernel: str, *, into: Path | None, device: str, as_json: bool, quiet: bool) -> int:
    """Runs the kernel as it was before its recorded run through all stages, in a copy where nothing can be hurt."""
    root = find_root(start)
    target = find_target(root, load_config(root), kernel)
    copy = demonstration_copy(root, target, kernel, into)
    _say(f"demonstration copy of {root}: {copy}", quiet)
    _say(f"interrupted, it goes on with: warpsmith demo {kernel} --into {copy}", quiet)
    flow = Flow.open(copy, kernel, as_json=as_json, quiet=quiet, interactive=False)
    result = _driven(flow, Options(autonomous=True, device=device))
    told = {"copy": copy, "report": flow.workspace.report_html, "plots": flow.workspace.plots}
    if as_json:
        print_json({**told, "result": result.model_dump(mode="json")})
    else:
        flow.tell(result)
        for name, path in told.items():
            print(f"{name}: {path}")
    return EXIT_CODES[result.outcome]


def record(start: Path, kernel: str, *, into: Path | None, device: str, as_json: bool, quiet: bool) -> int:
    """Measures a whole run in a scratch copy and keeps it in this repository, for machines without a GPU to replay."""
    gpu_for(device)
    root = find_root(start)
    target = find_target(root, load_config(root), kernel)
    recorded = RecordedRun.of(target, kernel)
    copy = copy_to_record(root, target, kernel, source_of(root, target), into)
    _say(f"measuring in a scratch copy of {root}: {copy}", quiet)
    _say(f"interrupted, it goes on with: warpsmith record {kernel} --into {copy}", quiet)
    flow = Flow.open(copy, kernel, as_json=as_json, quiet=quiet, interactive=False)
    result = _driven(flow, Options(autonomous=True, device=device))
    recording, answers = recording_of(flow.workspace, target)
    recorded.write(recording, answers, flow.workspace.original.read_bytes())
    if as_json:
        print_json(recording)
    else:
        flow.tell(result)
        print(f"recorded: {recorded.directory} ({recording.answers} answers, {recording.elapsed_s:.0f} s)")
    return ExitCode.DONE


def _driven(flow: Flow, options: Options) -> FinalResult:
    if not flow.workspace.final_result.is_file():
        flow.drive(options)
    return read_document(flow.workspace.final_result, FinalResult)


def _say(text: str, quiet: bool) -> None:
    if not quiet:
        print(text, file=sys.stderr)
