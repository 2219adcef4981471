"""`demo` and `record`: the main job in a scratch copy of the repository, replayed or measured for others to replay."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

from warpsmith.cli import interruption
from warpsmith.cli.flow import Flow
from warpsmith.cli.output import print_json
from warpsmith.cli.result import EXIT_CODES, tell
from warpsmith.contracts.errors import ExitCode
from warpsmith.contracts.result import FinalResult
from warpsmith.project.config import load_config
from warpsmith.project.discover import find_root, find_target
from warpsmith.project.recordings import RecordedRun
from warpsmith.stages.recording import RECORDED, copy_to_record, demonstration_copy, recording_of, source_of
from warpsmith.stages.runs import Options
from warpsmith.stages.session import gpu_for
from warpsmith.workspace.documents import read_document


def demo(start: Path, kernel: str, *, into: Path | None, device: str | None, as_json: bool, quiet: bool) -> int:
    """Runs the kernel as it was before its recorded run through all stages, in a copy where nothing can be hurt."""
    root = find_root(start)
    target = find_target(root, load_config(root), kernel)
    if device not in (None, "auto", RECORDED):
        gpu_for(device)
    copy = demonstration_copy(root, target, kernel, into)
    _say(f"demonstration copy of {root}: {copy}", quiet)
    _goes_on_with("demo", kernel, copy)
    flow = _flow(copy, kernel, quiet=quiet)
    result = _driven(flow, device)
    told = {"copy": copy, "report": flow.workspace.report_html, "plots": flow.workspace.plots}
    if as_json:
        print_json({**told, "result": result.model_dump(mode="json")})
    else:
        tell(flow.workspace, result)
        for name, path in told.items():
            print(f"{name}: {path}")
    return EXIT_CODES[result.outcome]


def record(start: Path, kernel: str, *, into: Path | None, device: str | None, as_json: bool, quiet: bool) -> int:
    """Measures a whole run in a scratch copy and keeps it in this repository, for machines without a GPU to replay."""
    gpu_for(device or "auto")
    root = find_root(start)
    target = find_target(root, load_config(root), kernel)
    recorded = RecordedRun.of(target, kernel)
    copy = copy_to_record(root, target, kernel, source_of(root, target), into)
    _say(f"measuring in a scratch copy of {root}: {copy}", quiet)
    _goes_on_with("record", kernel, copy)
    flow = _flow(copy, kernel, quiet=quiet)
    result = _driven(flow, device)
    recording, answers = recording_of(flow.workspace, find_target(flow.root, flow.config, kernel))
    recorded.write(recording, answers, flow.workspace.original.read_bytes())
    if as_json:
        print_json(recording)
    else:
        tell(flow.workspace, result)
        print(f"recorded: {recorded.directory} ({recording.answers} answers, {recording.elapsed_s:.0f} s)")
    return ExitCode.DONE


def _flow(copy: Path, kernel: str, *, quiet: bool) -> Flow:
    """In a copy there is nobody whose approval counts."""
    flow = Flow.open(copy, kernel, as_json=False, quiet=quiet, interactive=False)
    return replace(flow, config=flow.config.model_copy(update={"approval": "any"}))


def _driven(flow: Flow, device: str | None) -> FinalResult:
    if not flow.workspace.final_result.is_file():
        flow.drive(Options(autonomous=True, device=device))
    return read_document(flow.workspace.final_result, FinalResult)


def _goes_on_with(command: str, kernel: str, copy: Path) -> None:
    again = f"warpsmith {command} {kernel} --into {shlex.quote(str(copy))}"
    interruption.leaves = f"what was measured is kept; it goes on with: {again}"


def _say(text: str, quiet: bool) -> None:
    if not quiet:
        print(text, file=sys.stderr)
