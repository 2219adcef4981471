"""Before anything is measured: the files are there, the kernel launches, agrees with its reference, has tests.

Each failure says what, where, and what to do.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from warpsmith.contracts.audit import SourceAudit
from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.device import TargetGpu
from warpsmith.contracts.errors import PreflightError
from warpsmith.contracts.launch import CompiledSettings, LaunchRecord
from warpsmith.contracts.measurement import CaseCheck, Correctness
from warpsmith.contracts.mutants import MEAN, ZEROS, MutantCheck
from warpsmith.contracts.target import TargetSpec
from warpsmith.device.known_gpus import known_gpu
from warpsmith.diagnose.evidence import Launches
from warpsmith.measure.worker.protocol import (
    Check,
    Compile,
    CompiledAnswer,
    CompileOffline,
    Describe,
    WorkerError,
    WorkerFailure,
    answer_of,
)
from warpsmith.project.snapshot import read_source
from warpsmith.source.encoding import decoded
from warpsmith.source.scan import scan
from warpsmith.stages.offline import in_short, offline_question
from warpsmith.stages.session import Session, source_ref, target_ref, worker_without_gpu

#: Machine epsilon, IEEE 754 and bfloat16.
EPSILON = {DType.FLOAT32: 2.0**-23, DType.FLOAT16: 2.0**-10, DType.BFLOAT16: 2.0**-7}

#: Chosen: an original whose typical error is above this many epsilons of its output's scale computes something else.
MAX_ORIGINAL_EPSILONS = 16.0

#: How a failure begins where triton's front end refused the source (measure/compiled/launches.py).
_IN_THE_SOURCE = ("the Triton compiler refused: ", "a static assertion of the kernel failed: ")

#: Failures that are the target's or the source's own, wherever they are met.
_OF_THE_TARGET = frozenset({"bad_target", "import_failed"})


def preflight_files(root: Path, spec: TargetSpec) -> None:
    """The tests that the target names exist. Raises PreflightError."""
    paths = [argument.partition("::")[0] for argument in spec.tests if not argument.startswith("-")]
    missing = [path for path in paths if not (root / path).exists()]
    if missing:
        raise PreflightError(
            f"{spec.target_file} names tests that are not there: {', '.join(missing)}",
            next_command=f"edit {shlex.quote(spec.target_file)}",
        )
    if not paths:
        raise PreflightError(
            f"{spec.target_file} names no tests: without them a winner could not be applied safely; add tests=(...)",
            next_command=f"edit {shlex.quote(spec.target_file)}",
        )


def odd_names(spec: TargetSpec, kernel: str) -> list[str]:
    """What the target calls the kernel and its module, where file names say otherwise. Nothing is refused for it."""
    told, file = [], spec.target_file
    if spec.name != kernel:
        told.append(f"{file} names its target {spec.name!r}; the kernel goes by the file: {kernel!r}")
    path = PurePosixPath(spec.source).with_suffix("")
    parts = path.parent.parts if path.name == "__init__" else path.parts
    named = tuple(spec.module.split("."))
    if parts[-len(named) :] != named:
        told.append(
            f"{file} says that {spec.source} is the module {spec.module!r}, which its path is not: by that name tests "
            "would see a variant, and relative imports would work"
        )
    return told


def preflight_source(content: bytes, spec: TargetSpec) -> SourceAudit:
    """What the source says. Raises PreflightError naming file and line where it is no Python."""
    text = decoded(content, spec.source)
    edit = f"edit {shlex.quote(spec.source)}"
    if not text.strip():
        raise PreflightError(f"{spec.source}, line 1: the file is empty; expected a Triton kernel", next_command=edit)
    try:
        return scan(text)
    except PreflightError as error:
        raise PreflightError(f"{spec.source}, {error.message}", next_command=edit) from error


def preflight_without_gpu(root: Path, target_path: Path) -> None:
    """What needs no GPU to be seen: the target loads, its files are there, its source is Python, its call launches.

    Raises PreflightError for what a GPU would not mend either.
    """
    target, spec = target_ref(root, target_path), None
    with worker_without_gpu(root) as worker:
        try:
            spec = answer_of(worker, Describe(target=target), TargetSpec)
            preflight_files(root, spec)
            preflight_source(read_source(root / spec.source), spec)
            case, mode, source = spec.tuning_cases[0], spec.passes[0], source_ref(root / spec.source)
            question = CompileOffline(target=target, source=source, case=case, mode=mode, gpu=known_gpu("H200"))
            (compiled,) = answer_of(worker, question, CompiledAnswer).compiled
        except WorkerError as error:
            if spec is not None and not _is_of_the_target(error.failure):
                return  # what a process without a GPU cannot do says nothing of the target
            raise _unusable(error, target_path) from error
    refuse_unusable_call(spec, case, mode, compiled)


def refuse_unusable_call(spec: TargetSpec, case: Case, mode: Mode, compiled: CompiledSettings) -> None:
    """Raises PreflightError where the call fails by itself before it launches anything, or launches nothing."""
    if compiled.failure is not None and compiled.at_fault is not None:
        file = spec.source if compiled.at_fault == "source" else spec.target_file
        raise PreflightError(
            f"{spec.name} cannot be called at {case.name}, {mode.value}: {in_short(compiled.failure)}",
            next_command=f"edit {shlex.quote(file)}",
        )
    if compiled.failure is None and not compiled.launches:
        raise _launched_nothing(spec, case, mode)


def preflight_without_running(session: Session, spec: TargetSpec, gpu: TargetGpu) -> None:
    """Target and source load and are called, as far as one call is compiled. Raises PreflightError for what a GPU would
    not mend."""
    case, mode = spec.tuning_cases[0], spec.passes[0]
    try:
        (compiled,) = session.ask(offline_question(session, session.original, case, mode, gpu), CompiledAnswer).compiled
    except WorkerError as error:
        if _is_of_the_target(error.failure):
            raise _unusable(error, Path(session.target.path)) from error
        return
    refuse_unusable_call(spec, case, mode, compiled)


def refuse_uncompilable(session: Session, spec: TargetSpec, gpu: TargetGpu) -> None:
    """Raises PreflightError where a call fails by itself or launches nothing, and, in the compiler's words, where that
    refuses the source in a pass at every tuning case.

    What the GPU has too little of, or an older triton cannot do, is no fault of the source.
    """
    for mode in spec.passes:
        compiled = [_compiled(session, case, mode, gpu) for case in spec.tuning_cases]
        for case, each in zip(spec.tuning_cases, compiled, strict=True):
            if each is not None:
                refuse_unusable_call(spec, case, mode, each)
        refused = [_refusal(each) for each in compiled]
        if refused[0] is not None and all(refused):
            raise PreflightError(
                f"{spec.source} does not compile for {gpu.name}, {mode.value}: {refused[0]}",
                next_command=f"edit {shlex.quote(spec.source)}",
            )


def _compiled(session: Session, case: Case, mode: Mode, gpu: TargetGpu) -> CompiledSettings | None:
    """What was asked before is stored; None where there was no answer, which is not waited for again."""
    question = offline_question(session, session.original, case, mode, gpu)
    if not session.worker.has_answer_to(question):
        return None
    try:
        return session.ask(question, CompiledAnswer).compiled[0]
    except WorkerError:
        return None


def _refusal(compiled: CompiledSettings | None) -> str | None:
    """Why the compiler's front end refuses the source; None where it does not."""
    failure = None if compiled is None else compiled.failure
    return in_short(failure) if failure is not None and failure.startswith(_IN_THE_SOURCE) else None


def _is_of_the_target(failure: WorkerFailure) -> bool:
    """Also what ends its process, or does not end: on tensors without values nothing takes that long."""
    return failure.status in _OF_THE_TARGET or failure.status == "timeout" or failure.exit_status is not None


def _unusable(error: WorkerError, target_path: Path) -> PreflightError:
    return PreflightError(
        f"the target cannot be used: {error.failure.in_short}",
        next_command=f"edit {shlex.quote(str(target_path))}",
    )


def preflight_launches(session: Session, spec: TargetSpec) -> Launches:
    """The original's launches at every tuning case. Raises PreflightError where it launches nothing."""
    launches: Launches = {}
    for case in spec.tuning_cases:
        for mode in spec.passes:
            launches.setdefault(case.name, {})[mode] = _launches(session, spec, case, mode)
    return launches


def _launches(session: Session, spec: TargetSpec, case: Case, mode: Mode) -> tuple[LaunchRecord, ...]:
    question = Compile(
        target=session.target, seed=session.request.seed, source=session.original, case=case, mode=mode, launch=True
    )
    (compiled,) = session.ask(question, CompiledAnswer).compiled
    if compiled.failure is not None:
        raise PreflightError(
            f"{spec.source} fails at {case.name}, {mode.value}: {compiled.failure}",
            next_command=f"edit {shlex.quote(spec.target_file if compiled.at_fault == 'target' else spec.source)}",
        )
    if not compiled.launches:
        raise _launched_nothing(spec, case, mode)
    return compiled.launches


def _launched_nothing(spec: TargetSpec, case: Case, mode: Mode) -> PreflightError:
    return PreflightError(
        f"calling {spec.name} at {case.name}, {mode.value}, launched no Triton kernel of {spec.source}; "
        "does `call` in the target take the kernel from the module it is handed?",
        next_command=f"edit {shlex.quote(spec.target_file)}",
    )


def preflight_correctness(session: Session, spec: TargetSpec) -> Correctness:
    """The original through the gate itself, near its reference, and told from null mutants of its results.

    Raises PreflightError. A recorded answer may have no mutants, and is accepted.
    """
    question = Check(
        target=session.target,
        seed=session.request.seed,
        original=session.original,
        candidate=session.original,
        cases=spec.cases,
    )
    correctness = session.ask(question, Correctness)
    refuse_unfit(spec, correctness)
    return correctness


def refuse_unfit(spec: TargetSpec, of_original: Correctness) -> None:
    """Of the original through its own gate. Raises PreflightError where nothing can be told by such a target."""
    if not of_original.passed:
        raise PreflightError(
            f"the original does not pass its own gate: {of_original.failures_told}",
            next_command=f"edit {shlex.quote(spec.target_file)}",
        )
    refuse_wrong_reference(spec, of_original.checks)
    _refuse_holes(spec, of_original.mutants)


def refuse_wrong_reference(spec: TargetSpec, checks: Sequence[CaseCheck]) -> None:
    """Raises PreflightError where the original is too far from its reference. Checks of any candidate tell."""
    for check in checks:
        for error in check.errors:
            allowed = MAX_ORIGINAL_EPSILONS * EPSILON[check.case.dtype] * max(error.scale, 1e-30)
            if error.original_rms > allowed:
                raise PreflightError(
                    f"the reference disagrees with the original at {check.case.name}, {error.output}: "
                    f"root mean square error {error.original_rms:.3g}, expected below {allowed:.3g}",
                    next_command=f"edit {shlex.quote(spec.target_file)}",
                )


def _refuse_holes(spec: TargetSpec, mutants: Sequence[MutantCheck]) -> None:
    """Raises PreflightError where wrong results pass, or where an output is the same everywhere at every case."""
    edit = f"edit {shlex.quote(spec.target_file)}"
    if holes := [each for each in mutants if each.passed]:
        first, more = holes[0], f" (and {len(holes) - 1} more)" if len(holes) > 1 else ""
        raise PreflightError(
            f"the gate cannot tell wrong results of {spec.name} from right ones: at {first.case}, {first.part}: "
            f"{first.mutant}, passes{more}; make_inputs should give random values, whose results differ from element "
            "to element, and the reference be so near to the original that its tolerance is small",
            next_command=edit,
        )
    for part in dict.fromkeys(each.part for each in mutants if each.part.startswith("output")):
        for mutant in (ZEROS, MEAN):
            tried = [each for each in mutants if (each.part, each.mutant) == (part, mutant)]
            if tried and all(each.skipped is not None for each in tried):
                raise PreflightError(
                    f"{part} of {spec.name} is the same as {mutant} at every case, first at {tried[0].case}, so that "
                    "nothing can be told from it; make_inputs should give random values, never constants",
                    next_command=edit,
                )
