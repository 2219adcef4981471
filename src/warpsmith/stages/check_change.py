"""The compiled code of a kernel beside that of its base, with no GPU: what continuous integration asks of a change.

Both sides are compiled at every case and pass for each GPU. Nothing is run and nothing is written.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.compiled_change import CallGap, ComparedOn, CompiledChange, LaunchPair
from warpsmith.contracts.device import Origin, OriginKind, TargetGpu
from warpsmith.contracts.errors import PreflightError, Unavailable
from warpsmith.contracts.launch import LaunchRecord
from warpsmith.contracts.measurement import SourceRef
from warpsmith.device.architecture import limits_of
from warpsmith.device.known_gpus import known_gpu
from warpsmith.diagnose.compiled_change import paired
from warpsmith.measure.worker.protocol import CompiledAnswer, CompileOffline, WorkerError, answer_of
from warpsmith.project.config import ProjectConfig
from warpsmith.project.discover import find_target
from warpsmith.project.snapshot import sha256_of
from warpsmith.stages.bench_request import named_of
from warpsmith.stages.change_base import Base, Side, opened_base
from warpsmith.stages.check import described
from warpsmith.stages.check_request import ChangeAsked, content_of
from warpsmith.stages.offline import in_short
from warpsmith.stages.prediction import DEFAULT_GPU
from warpsmith.stages.session import target_ref, worker_without_gpu
from warpsmith.verdict.compiled import CompiledLimits, compiled_regressions, specializations

#: A case and a pass of it.
Call = tuple[Case, Mode]
#: What keeps one call from an answer keeps them all.
_OF_ALL_CALLS = frozenset({"bad_target", "import_failed"})


@dataclass(frozen=True)
class Compiled:
    """What one side launches at each call, or why that is not known; and what qualifies that."""

    calls: tuple[tuple[LaunchRecord, ...] | str, ...]
    notes: tuple[str, ...]


def compare(
    root: Path, config: ProjectConfig, kernel: str, asked: ChangeAsked, tell: Callable[[str], None]
) -> CompiledChange:
    """Raises UsageError for what is not there, PreflightError where the target is at fault or nothing of the base
    compiles, Unavailable where triton does not compile for a GPU.
    """
    gpus = [known_gpu(name) for name in dict.fromkeys(asked.gpus or (DEFAULT_GPU,))]
    target = target_ref(root, find_target(root, config, kernel))
    with tempfile.TemporaryDirectory() as scratch, worker_without_gpu(root) as worker:
        spec = described(worker, target)
        names = named_of("--case", asked.cases, [case.name for case in spec.cases], spec)
        todo = [(case, mode) for case in spec.cases if case.name in names for mode in spec.passes]
        file = asked.file or Path(os.path.relpath(root / spec.source))
        source = SourceRef(path=str(file.resolve()), sha256=sha256_of(content_of(file)))
        change = Side("the change", worker, target, source)
        with opened_base(asked.base, spec, change, Path(scratch)) as base:
            on = tuple(_compared(base, change, todo, gpu, asked.seed, config.compiled_limits, tell) for gpu in gpus)
    return CompiledChange(
        kernel=kernel,
        file=str(file),
        file_sha256=source.sha256,
        base=base.ref,
        seed=asked.seed,
        triton=metadata.version("triton"),
        origin=Origin(kind=OriginKind.PREDICTED, gpu=", ".join(gpu.name for gpu in gpus)),
        limits=config.compiled_limits.model_dump(),
        cases=tuple(dict.fromkeys(case.name for case, _ in todo)),
        on=on,
        passed=not any(each.regressions for each in on),
        notes=base.notes,
    )


def _compared(
    base: Base,
    change: Side,
    todo: Sequence[Call],
    gpu: TargetGpu,
    seed: int,
    limits: CompiledLimits,
    tell: Callable[[str], None],
) -> ComparedOn:
    now = _compiled(change, todo, gpu, seed, tell)
    before = None if base.side is None else _compiled(base.side, todo, gpu, seed, tell)
    _expect_launches(before or now, base.side or change, gpu)
    pairs, gaps = _side_by_side(todo, before, now, gpu)
    most_shared_bytes = limits_of(gpu.capability).shared_memory_per_block_bytes
    return ComparedOn(
        gpu=gpu.name,
        pairs=pairs,
        gaps=gaps,
        specializations=specializations(pairs),
        regressions=compiled_regressions(pairs if before else (), gaps, limits, most_shared_bytes),
        notes=tuple(dict.fromkeys((*now.notes, *(before.notes if before else ())))),
    )


def _compiled(side: Side, todo: Sequence[Call], gpu: TargetGpu, seed: int, tell: Callable[[str], None]) -> Compiled:
    """Raises Unavailable where triton does not compile for that GPU at all."""
    tell(f"{side.name} for {gpu.name}: {len(todo)} calls")
    calls: list[tuple[LaunchRecord, ...] | str] = []
    notes: dict[str, None] = {}
    for case, mode in todo:
        question = CompileOffline(target=side.target, seed=seed, source=side.source, case=case, mode=mode, gpu=gpu)
        try:
            (compiled,) = answer_of(side.worker, question, CompiledAnswer).compiled
        except WorkerError as error:
            if error.failure.status == "compile_failed":
                raise Unavailable(error.failure.message) from error
            calls.append(error.failure.in_short)
            if error.failure.status in _OF_ALL_CALLS:
                break
            continue
        calls.append(compiled.launches if compiled.failure is None else in_short(compiled.failure))
        notes.update(dict.fromkeys(compiled.notes))
    return Compiled((*calls, *calls[-1:] * (len(todo) - len(calls))), tuple(notes))


def _expect_launches(compiled: Compiled, side: Side, gpu: TargetGpu) -> None:
    """Raises PreflightError where there is nothing to compare with, or of a new kernel nothing to tell."""
    if any(isinstance(call, tuple) and call for call in compiled.calls):
        return
    reason = next((call for call in compiled.calls if isinstance(call, str)), "no call launches a jit function")
    raise PreflightError(
        f"nothing of {side.name} compiles for {gpu.name}, so that nothing can be compared: {reason}",
        next_command=f"edit {shlex.quote(side.target.path)}",
    )


def _side_by_side(
    todo: Sequence[Call], before: Compiled | None, now: Compiled, gpu: TargetGpu
) -> tuple[tuple[LaunchPair, ...], tuple[CallGap, ...]]:
    """Pairs where both sides have an answer, gaps where one has none. No base has nothing against any call."""
    pairs: list[LaunchPair] = []
    gaps: list[CallGap] = []
    sides = zip(before.calls if before else [()] * len(todo), now.calls, strict=True)
    for (case, mode), (base, change) in zip(todo, sides, strict=True):
        if isinstance(base, str) or isinstance(change, str):
            against = {"base": base, "change": change}
            reasons = {side: call if isinstance(call, str) else None for side, call in against.items()}
            gaps.append(CallGap(case=case.name, mode=mode, **reasons))
        else:
            pairs += paired(case.name, mode, base, change, gpu)
    return tuple(pairs), tuple(gaps)
