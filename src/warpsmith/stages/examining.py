"""What the gate found of a source, as one document: admission's findings in their lines, faults, and the command.

Pure: whoever asks the worker hands in the answers.
"""

from __future__ import annotations

import shlex

from warpsmith.contracts.examination import Examination, Fault, SourceFinding
from warpsmith.contracts.sanitizing import SanitizerTool
from warpsmith.measure.worker.protocol import WorkerFailure
from warpsmith.source.admit import refusals
from warpsmith.source.interface import LINE_OF_ORIGINAL
from warpsmith.stages.session import Session


def findings_of(original: str, candidate: str) -> tuple[SourceFinding, ...]:
    """What admission has against a candidate, with the lines themselves. Raises PreflightError where the original is
    no Python."""
    return tuple(_located(line, message, original, candidate) for line, message in refusals(original, candidate))


def _located(line: int, message: str, original: str, candidate: str) -> SourceFinding:
    of_original = message.endswith(LINE_OF_ORIGINAL)
    lines = (original if of_original else candidate).split("\n")
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return SourceFinding(message=message, line=line, text=text or None, of_original=of_original)


def fault_of(failure: WorkerFailure, case: str | None = None) -> Fault:
    return Fault(status=failure.status, message=failure.message, case=case)


def with_command(found: Examination, kernel: str, file: str, *, seed: int, device: str = "auto") -> Examination:
    """The examination with the line that makes it again, for a shell.

    What only goes wrong after the gate, where a source is timed, takes a measurement to be seen again.
    """
    if found.went_wrong_later:
        words = ["bench", kernel, "--with", file]
    else:
        case = [] if found.first_case is None else ["--case", found.first_case]
        words = ["check", kernel, file, *case, "--seed", str(seed)]
        words += ["--sanitize"] if _by_sanitizer(found) else []
    words += [] if device == "auto" else ["--device", device]
    return found.model_copy(update={"command": shlex.join(["warpsmith", *words])})


def _by_sanitizer(found: Examination) -> bool:
    return found.first_failure is not None and found.first_failure[1].check in {tool.value for tool in SanitizerTool}


def reproducible(found: Examination | None, session: Session, number: int) -> Examination | None:
    """What the gate found of a variant, with the line that finds it again from the repository's root."""
    if found is None:
        return None
    workspace, request = session.workspace, session.request
    return with_command(found, request.kernel, workspace.relative(workspace.variant(number)), seed=request.seed)
