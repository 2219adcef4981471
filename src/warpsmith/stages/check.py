"""The gate by itself: one source file beside the production file, outside any run.

The worker is asked case by case, so that a process that dies costs one case and is known by it. Nothing is written.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from warpsmith.contracts.case import Case
from warpsmith.contracts.errors import PreflightError, Unavailable
from warpsmith.contracts.examination import CheckResult, Examination, Fault
from warpsmith.contracts.measurement import CaseCheck, Correctness, SourceRef
from warpsmith.contracts.sanitizing import SanitizerTool
from warpsmith.contracts.target import TargetSpec
from warpsmith.device.gpus import Gpu
from warpsmith.measure.worker.process import TIME_LIMIT_S
from warpsmith.measure.worker.protocol import Check, Describe, TargetRef, Worker, WorkerError, answer_of
from warpsmith.project.config import ProjectConfig
from warpsmith.project.discover import find_target
from warpsmith.project.snapshot import sha256_of
from warpsmith.source.encoding import decoded
from warpsmith.stages.check_request import INTERPRETER, Asked, cases_of, content_of
from warpsmith.stages.examining import fault_of, findings_of, with_command
from warpsmith.stages.preflight import refuse_unfit, refuse_wrong_reference
from warpsmith.stages.sanitizing import Sanitizer, small_cases
from warpsmith.stages.session import NO_GPU, gpu_for, source_ref, target_ref, text_of, worker_outside_runs
from warpsmith.workspace.lock import gpu_lock

#: Failures that every other case would meet too: of the source itself, or so slow that nobody waits for more of them.
ENDING = frozenset({"import_failed", "timeout"})

IS_THE_ORIGINAL = "the file is the original, byte for byte: it was compared with itself"
INTERPRETED = (
    "a pass in Triton's interpreter is no pass on a GPU: it runs one program after the other, and was asked about "
    "float32 alone"
)


@dataclass(frozen=True)
class Sides:
    """The file under examination and the production file, with their texts."""

    target: TargetRef
    candidate: SourceRef
    original: SourceRef
    candidate_text: str
    original_text: str


def check(root: Path, config: ProjectConfig, kernel: str, asked: Asked, tell: Callable[[str], None]) -> CheckResult:
    """Admission, then the checks at the cases that were asked for.

    Raises UsageError for what is not there, PreflightError where the target or the original is at fault, Unavailable
    where nothing can run what was admitted.
    """
    content = None if asked.file is None else content_of(asked.file)
    target = target_ref(root, find_target(root, config, kernel))
    with _device(root, asked.device) as (worker, gpu, missing):
        spec = described(worker, target)
        file = asked.file or Path(os.path.relpath(root / spec.source))
        asked = replace(asked, file=file)
        cases, left_out = cases_of(asked, kernel, spec)
        content = content_of(file) if content is None else content
        sides = Sides(
            target=target,
            candidate=SourceRef(path=str(file.resolve()), sha256=sha256_of(content)),
            original=source_ref(root / spec.source),
            candidate_text=decoded(content, str(file)),
            original_text=text_of(root / spec.source),
        )
        found = Examination(findings=findings_of(sides.original_text, sides.candidate_text))
        if admitted := not found.findings:
            if missing is not None:
                raise _nothing_to_run_it(missing, kernel, asked, spec)
            found, unanswered = _examined(worker, sides, cases, asked, tell)
            left_out |= unanswered
            refuse_wrong_reference(spec, found.checks)
            if found.passed:
                _expect_kernels(found, kernel, asked)
                _expect_fit(worker, sides, spec, cases, asked)
                found = _sanitized(found, worker, sides, spec, asked, tell) if asked.sanitizes else found
    return CheckResult(
        kernel=kernel,
        source=spec.source,
        source_sha256=sides.original.sha256,
        file=str(file),
        file_sha256=sides.candidate.sha256,
        seed=asked.seed,
        on=_told_device(gpu) if admitted else None,
        cases=tuple(case.name for case in cases if admitted and case.name not in left_out),
        left_out=left_out if admitted else {},
        passed=found.passed,
        examination=_with_command(found, kernel, asked),
        notes=_notes(sides, asked, admitted=admitted),
    )


@contextmanager
def _device(root: Path, device: str) -> Iterator[tuple[Worker, Gpu | None, Unavailable | None]]:
    """A worker; the GPU that it has, if any; and why it can run no kernel, where it cannot."""
    gpu, missing = None, None
    if device != INTERPRETER:
        try:
            gpu = gpu_for(device)
        except Unavailable as error:
            missing = error
    if gpu is None:
        with worker_outside_runs(root, NO_GPU, interprets=device == INTERPRETER) as worker:
            yield worker, None, missing
        return
    with gpu_lock(gpu.uuid), worker_outside_runs(root, gpu.uuid) as worker:
        yield worker, gpu, None


def described(worker: Worker, target: TargetRef) -> TargetSpec:
    """The target as data. Raises PreflightError where it cannot be loaded."""
    try:
        return answer_of(worker, Describe(target=target), TargetSpec)
    except WorkerError as error:
        raise PreflightError(
            f"the target cannot be loaded: {error}", next_command=f"edit {shlex.quote(target.path)}"
        ) from error


def _nothing_to_run_it(missing: Unavailable, kernel: str, asked: Asked, spec: TargetSpec) -> Unavailable:
    """Why what was admitted is not examined, and the way on: the interpreter, where it can run one of the cases."""
    interpreted = replace(asked, device=INTERPRETER)
    try:
        cases_of(interpreted, kernel, spec)
    except Unavailable as error:
        return Unavailable(f"{missing.message}; the file is admitted, not examined", next_command=error.next_command)
    return Unavailable(
        f"{missing.message}; the file is admitted, and float32 cases of it can be tried in Triton's interpreter",
        next_command=asked.interpreted(kernel),
    )


def _examined(
    worker: Worker, sides: Sides, cases: tuple[Case, ...], asked: Asked, tell: Callable[[str], None]
) -> tuple[Examination, dict[str, str]]:
    """The candidate at every case, and why some had no turn."""
    checks: list[CaseCheck] = []
    faults: list[Fault] = []
    tell(f"each case is given {TIME_LIMIT_S['check']:g} s at most")
    for number, case in enumerate(cases, start=1):
        tell(f"{case.name} ({number} of {len(cases)})")
        question = Check(
            target=sides.target, seed=asked.seed, original=sides.original, candidate=sides.candidate, cases=(case,)
        )
        try:
            checks += answer_of(worker, question, Correctness).checks
        except WorkerError as error:
            _expect_its_fault(error, sides, asked)
            faults.append(fault_of(error.failure, case.name))
            if error.failure.status in ENDING:
                break
    correctness = Correctness(source_sha256=sides.candidate.sha256, checks=tuple(checks)) if checks else None
    had_a_turn = len(checks) + len(faults)
    unanswered = {case.name: f"no turn after: {faults[-1].in_a_line}" for case in cases[had_a_turn:]}
    return Examination(faults=tuple(faults), correctness=correctness), unanswered


def _sanitized(
    found: Examination, worker: Worker, sides: Sides, spec: TargetSpec, asked: Asked, tell: Callable[[str], None]
) -> Examination:
    """What passed, after compute-sanitizer's tools: at the cases that were named, else at small ones."""
    assert found.correctness is not None
    cases = tuple(case for case in spec.cases if case.name in asked.cases) or small_cases(spec)
    sanitizer = Sanitizer(worker, sides.target, sides.original, cases, asked.seed, tell)
    correctness = sanitizer.examine(sides.candidate, found.correctness, SanitizerTool)
    return found.model_copy(update={"correctness": correctness})


def _expect_fit(worker: Worker, sides: Sides, spec: TargetSpec, cases: tuple[Case, ...], asked: Asked) -> None:
    """A pass means something: spoiled results of the original do not pass. Raises PreflightError or Unavailable."""
    question = Check(
        target=sides.target, seed=asked.seed, original=sides.original, candidate=sides.original, cases=cases
    )
    try:
        refuse_unfit(spec, answer_of(worker, question, Correctness))
    except WorkerError as error:
        _expect_its_fault(error, sides, asked)
        raise PreflightError(
            f"the original fails beside itself: {error.failure.in_short}",
            next_command=f"edit {shlex.quote(sides.target.path)}",
        ) from error


def _expect_kernels(found: Examination, kernel: str, asked: Asked) -> None:
    """In the interpreter tensors are on the CPU, where a kernel may be left out. Raises Unavailable."""
    if asked.interprets and all("own kernels" in check.skipped for check in found.checks):
        raise Unavailable(
            "the original launches no kernel on CPU tensors, so that Triton's interpreter had nothing to run and the "
            "file is not examined",
            next_command=asked.on_a_gpu(kernel),
        )


def _expect_its_fault(error: WorkerError, sides: Sides, asked: Asked) -> None:
    """Raises PreflightError or Unavailable for what says nothing against the candidate."""
    status, message = error.failure.status, error.failure.message
    if asked.interprets and status in {"bad_target", "timeout"}:
        raise Unavailable(f"Triton's interpreter is no way to examine this kernel: {error.failure.in_short}") from error
    if status == "no_device":
        raise Unavailable(message, next_command="warpsmith doctor") from error
    of_another = status == "import_failed" and not message.startswith(sides.candidate.path)
    if status == "bad_target" or of_another:
        raise PreflightError(error.failure.in_short, next_command=f"edit {shlex.quote(sides.target.path)}") from error


def _with_command(found: Examination, kernel: str, asked: Asked) -> Examination:
    return with_command(found, kernel, str(asked.file), seed=asked.seed, device=asked.device)


def _told_device(gpu: Gpu | None) -> str:
    return "a CPU, in Triton's interpreter" if gpu is None else gpu.name


def _notes(sides: Sides, asked: Asked, *, admitted: bool) -> tuple[str, ...]:
    notes = [IS_THE_ORIGINAL] if sides.candidate.sha256 == sides.original.sha256 else []
    return (*notes, INTERPRETED) if asked.interprets and admitted else tuple(notes)
