"""A source compiled for a GPU that need not be there, at every tuning case: stored and resumed as any answer is."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.device import Origin, OriginKind, TargetGpu
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.contracts.measurement import SourceRef
from warpsmith.contracts.profile import OfflineCompilation
from warpsmith.contracts.target import TargetSpec
from warpsmith.measure.worker.protocol import CompiledAnswer, CompileOffline, WorkerError
from warpsmith.stages.session import Session
from warpsmith.stages.timings import pairs


def offline_question(session: Session, source: SourceRef, case: Case, mode: Mode, gpu: TargetGpu) -> CompileOffline:
    return CompileOffline(
        target=session.target, seed=session.request.seed, source=source, case=case, mode=mode, gpu=gpu
    )


def compile_offline(session: Session, spec: TargetSpec, source: SourceRef, gpu: TargetGpu) -> OfflineCompilation:
    """What the source launches and compiles to on that GPU, a prediction. What cannot be told is a reason, no error."""
    launches: dict[str, dict[Mode, tuple[LaunchRecord, ...]]] = {}
    reasons: dict[str, list[str]] = {}
    notes: dict[str, None] = {}
    todo = pairs(spec.tuning_cases, spec.passes)
    for index, (case, mode) in enumerate(todo):
        session.progress.note(f"{case.name} {mode.value} for {gpu.name}", index, len(todo))
        try:
            (compiled,) = session.ask(offline_question(session, source, case, mode, gpu), CompiledAnswer).compiled
        except WorkerError as error:
            reasons.setdefault(error.failure.in_a_line, [])
            if error.failure.status in ("compile_failed", "bad_target", "import_failed"):
                break  # what keeps one case from an answer keeps them all
            continue
        if compiled.launches:
            launches.setdefault(case.name, {})[mode] = compiled.launches
            notes.update(dict.fromkeys(compiled.notes))
        else:
            reason = compiled.failure or "the call launches no jit function"
            reasons.setdefault(in_short(reason), []).append(f"{case.name} {mode.value}")
    return OfflineCompilation(
        gpu=gpu,
        triton=session.worker.triton(),
        origin=Origin(kind=OriginKind.PREDICTED, gpu=gpu.name),
        launches=launches,
        unavailable="; ".join(_told(reason, places) for reason, places in reasons.items()) or None,
        notes=tuple(notes),
    )


def in_short(failure: str) -> str:
    """Its first line and, as compilers quote the source between and what is wrong comes last, its last with words."""
    first, *rest = [line.strip() for line in failure.splitlines() if any(map(str.isalnum, line))] or [""]
    return " ".join([first, *rest[-1:]])


def _told(reason: str, places: Sequence[str]) -> str:
    if not places:
        return reason
    more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
    return f"{places[0]}{more}: {reason}"
