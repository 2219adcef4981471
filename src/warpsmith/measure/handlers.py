"""Answers the protocol's questions, inside a worker with a GPU: loads sources, leaves the work to the sub-rooms."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from warpsmith.contracts.base import Contract, Settings
from warpsmith.contracts.device import DeviceFacts, Environment
from warpsmith.contracts.measurement import (
    Compilation,
    Contender,
    Correctness,
    Counters,
    HostTime,
    Memories,
    SourceRef,
    Timing,
)
from warpsmith.contracts.target import Target, TargetSpec
from warpsmith.measure.compiled.cold import measure_compilation
from warpsmith.measure.compiled.launches import compile_settings
from warpsmith.measure.compiled.offline import compile_offline
from warpsmith.measure.correctness.gate import check
from warpsmith.measure.counters.ncu import count
from warpsmith.measure.timing.ceilings import inspect_device, read_environment
from warpsmith.measure.timing.compare import time_contenders
from warpsmith.measure.timing.host import measure_host_time
from warpsmith.measure.timing.memory import measure_memories
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.loading import load_implementation, load_target
from warpsmith.measure.worker.protocol import (
    Check,
    Compile,
    CompiledAnswer,
    CompileOffline,
    Count,
    Describe,
    Identify,
    Inspect,
    MeasureCompilation,
    MeasureHostTime,
    MeasureMemory,
    Question,
    Time,
    WorkerError,
    WorkerFailure,
)


def handlers() -> Mapping[str, Callable[[Any], Contract]]:
    """Kind of question -> who answers it."""
    return {
        "describe": _describe,
        "identify": _identify,
        "inspect": _inspect,
        "compile": _compile,
        "compile_offline": _compile_offline,
        "check": _check,
        "time": _time,
        "memory": _memory,
        "compilation": _compilation,
        "host_time": _host_time,
        "count": _count,
    }


def _describe(question: Describe) -> TargetSpec:
    target = load_target(question.target.path)
    if Path(target.source).is_absolute() or ".." in Path(target.source).parts:
        raise _bad_target(f"source must be a path below the repository's root, found {target.source!r}")
    source = Path(question.target.root) / target.source
    if not source.is_file():
        raise _bad_target(f"{question.target.path} names the source {target.source}, which is not there")
    names = [case.name for case in target.cases]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise _bad_target(f"{question.target.path} has several cases named {', '.join(repeated)}")
    if lacking := [case.name for case in target.cases if target.plot_axis not in case.axes]:
        raise _bad_target(f"plot_axis {target.plot_axis!r} of {question.target.path} is no axis of {lacking[0]}")
    available, missing = _providers(target)
    return TargetSpec(
        name=target.name,
        source=target.source,
        module=target.module,
        target_file=Path(question.target.path).resolve().relative_to(Path(question.target.root).resolve()).as_posix(),
        source_sha256=hashlib.sha256(source.read_bytes()).hexdigest(),
        cases=target.cases,
        modes=target.modes,
        differentiable=target.differentiable,
        overwrites=target.overwrites,
        costs={case.name: {mode: target.cost(case, mode) for mode in target.modes} for case in target.cases},
        providers=available,
        missing_providers=missing,
        tests=target.tests,
        plot_axis=target.plot_axis,
    )


def _providers(target: Target) -> tuple[tuple[str, ...], dict[str, str]]:
    """Providers whose dependencies are here, and why the others are not."""
    missing: dict[str, str] = {}
    for name, factory in target.providers.items():
        try:
            factory()
        except ImportError as error:
            missing[name] = str(error)
    return tuple(name for name in target.providers if name not in missing), missing


def _identify(question: Identify) -> Environment:
    return read_environment(_device())


def _inspect(question: Inspect) -> DeviceFacts:
    return inspect_device(_device())


def _compile(question: Compile) -> CompiledAnswer:
    target = load_target(question.target.path)

    def implementation(settings: Settings) -> Implementation:
        contender = Contender(name="candidate", source=question.source, settings=settings)
        return load_implementation(target, contender, question.target.root)

    compiled = compile_settings(
        implementation,
        target,
        question.case,
        question.mode,
        question.settings,
        device=_device(),
        seed=question.seed,
        launch=question.launch,
    )
    torch.cuda.empty_cache()  # the workers that compile live beside the one that measures
    return CompiledAnswer(compiled=compiled)


def _compile_offline(question: CompileOffline) -> CompiledAnswer:
    return CompiledAnswer(compiled=(compile_offline(question),))


def _check(question: Check) -> Correctness:
    target = load_target(question.target.path)
    checks = check(
        _loaded(question, target, "candidate", question.candidate),
        _loaded(question, target, "original", question.original),
        target,
        question.cases,
        device=_device(),
        seed=question.seed,
    )
    return Correctness(source_sha256=question.candidate.sha256, checks=checks)


def _time(question: Time) -> Timing:
    target, implementations, failures = _contenders(question, question.contenders)
    timing = time_contenders(
        implementations,
        target,
        question.case,
        question.mode,
        plan=question.plan,
        method=question.method,
        l2=question.l2,
        seed=question.seed,
        device=_device(),
    )
    return timing.model_copy(update={"failures": {**timing.failures, **failures}})


def _memory(question: MeasureMemory) -> Memories:
    target, implementations, failures = _contenders(question, question.contenders)
    found = measure_memories(
        implementations, target, question.case, question.modes, seed=question.seed, device=_device()
    )
    return Memories(
        memories=tuple(each.model_copy(update={"failures": {**each.failures, **failures}}) for each in found.memories)
    )


def _compilation(question: MeasureCompilation) -> Compilation:
    load_target(question.target.path)  # what is wrong with the target is no failure of the source
    return measure_compilation(question, _device())


def _host_time(question: MeasureHostTime) -> HostTime:
    target, implementations, failures = _contenders(question, question.contenders)
    host_time = measure_host_time(
        implementations,
        target,
        question.case,
        question.mode,
        calls=question.calls,
        seed=question.seed,
        device=_device(),
    )
    return host_time.model_copy(update={"failures": {**host_time.failures, **failures}})


def _count(question: Count) -> Counters:
    return count(question)


def _contenders(
    question: Question, contenders: Sequence[Contender]
) -> tuple[Target, list[Implementation], dict[str, str]]:
    """What could be loaded, and why the rest could not."""
    target = load_target(question.target.path)
    implementations: list[Implementation] = []
    failures: dict[str, str] = {}
    for contender in contenders:
        try:
            implementations.append(load_implementation(target, contender, question.target.root))
        except WorkerError as error:
            failures[contender.name] = error.failure.in_a_line
    return target, implementations, failures


def _loaded(question: Question, target: Target, name: str, source: SourceRef) -> Implementation:
    return load_implementation(target, Contender(name=name, source=source), question.target.root)


def _device() -> torch.device:
    if not torch.cuda.is_available():
        raise WorkerError(WorkerFailure(status="no_device", message="torch finds no CUDA device in this process"))
    return torch.device("cuda", torch.cuda.current_device())


def _bad_target(message: str) -> WorkerError:
    return WorkerError(WorkerFailure(status="bad_target", message=message))
