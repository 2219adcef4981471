"""Answers the protocol's questions, inside a worker with a GPU: loads sources, leaves the work to the sub-rooms."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, TypeVar

import torch

from warpsmith.contracts.base import Contract, Settings
from warpsmith.contracts.counters import Counters, Durations
from warpsmith.contracts.device import DeviceFacts, Environment
from warpsmith.contracts.measurement import (
    Compilation,
    Contender,
    Correctness,
    HostTime,
    Memories,
    Memory,
    SourceRef,
    Timing,
)
from warpsmith.contracts.mutants import MutantCheck
from warpsmith.contracts.sanitizing import Sanitization
from warpsmith.contracts.target import Target
from warpsmith.device.known_gpus import known_gpu
from warpsmith.measure.compiled.absent_gpu import facts_of
from warpsmith.measure.compiled.cold import measure_compilation
from warpsmith.measure.compiled.launches import compile_settings
from warpsmith.measure.compiled.offline import compile_offline
from warpsmith.measure.contending import contenders_of, unchanged
from warpsmith.measure.correctness.gate import check
from warpsmith.measure.correctness.mutants import mutants
from warpsmith.measure.correctness.surroundings import Surroundings
from warpsmith.measure.counters.ncu import count
from warpsmith.measure.counters.sanitizer import sanitize
from warpsmith.measure.describing import describe
from warpsmith.measure.gpu_memory import leaving_memory
from warpsmith.measure.timing.ceilings import inspect_device, read_environment
from warpsmith.measure.timing.compare import time_contenders
from warpsmith.measure.timing.durations import measure_durations
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
    Identify,
    Inspect,
    MeasureCompilation,
    MeasureDurations,
    MeasureHostTime,
    MeasureMemory,
    Question,
    Sanitize,
    Time,
    WorkerError,
    WorkerFailure,
)

#: What host code is told of the GPU where Triton's interpreter runs the kernels. Chosen.
INTERPRETED_GPU = "H200"

_Failing = TypeVar("_Failing", Memory, HostTime)


def handlers() -> Mapping[str, Callable[[Any], Contract]]:
    """Kind of question -> who answers it."""
    answering: dict[str, Callable[[Any], Contract]] = {
        "describe": describe,
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
        "durations": _durations,
        "sanitize": _sanitize,
    }
    return leaving_memory(answering)


def _identify(question: Identify) -> Environment:
    return read_environment(_device())


def _inspect(question: Inspect) -> DeviceFacts:
    return inspect_device(_device())


def _compile(question: Compile) -> CompiledAnswer:
    target = load_target(question.target.path)

    def implementation(settings: Settings) -> Implementation:
        contender = Contender(name="candidate", source=question.source, settings=settings)
        return load_implementation(target, contender, question.target.root)

    with unchanged(Surroundings.taken((question.target.path,))):
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
    return CompiledAnswer(compiled=compile_offline(question))


def _check(question: Check) -> Correctness:
    device = _device()
    with nullcontext() if device.type == "cuda" else facts_of(known_gpu(INTERPRETED_GPU)):
        target = load_target(question.target.path)
        original = _loaded(question, target, "original", question.original)
        with unchanged(Surroundings.taken((question.target.path, question.original.path))) as surroundings:
            checks = check(
                _loaded(question, target, "candidate", question.candidate),
                original,
                target,
                question.cases,
                device=device,
                seed=question.seed,
                surroundings=surroundings,
            )
        spoiled: tuple[MutantCheck, ...] = ()
        if question.candidate.sha256 == question.original.sha256 and not any(each.failures for each in checks):
            spoiled = mutants(target, question.cases, original, device=device, seed=question.seed)
    return Correctness(source_sha256=question.candidate.sha256, checks=checks, mutants=spoiled)


def _time(question: Time) -> Timing:
    with contenders_of(question, question.contenders) as contenders:
        timing = time_contenders(
            contenders.implementations,
            contenders.target,
            question.case,
            question.mode,
            plan=question.plan,
            method=question.method,
            l2=question.l2,
            seed=question.seed,
            device=_device(),
        )
        failures = {**timing.failures, **contenders.failures()}
    blocks, pilot = (
        tuple(block for block in kept if block.contender not in failures) for kept in (timing.blocks, timing.pilot)
    )
    return timing.model_copy(update={"blocks": blocks, "pilot": pilot, "failures": failures})


def _memory(question: MeasureMemory) -> Memories:
    with contenders_of(question, question.contenders) as contenders:
        sides, target = contenders.implementations, contenders.target
        found = measure_memories(sides, target, question.case, question.modes, seed=question.seed, device=_device())
        failures = contenders.failures()
    return Memories(memories=tuple(_without(failures, each, "peak_bytes") for each in found.memories))


def _compilation(question: MeasureCompilation) -> Compilation:
    load_target(question.target.path)  # what is wrong with the target is no failure of the source
    return measure_compilation(question, _device())


def _host_time(question: MeasureHostTime) -> HostTime:
    with contenders_of(question, question.contenders) as contenders:
        found = measure_host_time(
            contenders.implementations,
            contenders.target,
            question.case,
            question.mode,
            calls=question.calls,
            seed=question.seed,
            device=_device(),
        )
        return _without(contenders.failures(), found, "samples_us")


def _count(question: Count) -> Counters:
    return count(question)


def _durations(question: MeasureDurations) -> Durations:
    profiled = Contender(name="profiled", source=question.source)
    found = Durations(case=question.case, mode=question.mode)
    with contenders_of(question, (profiled,)) as contenders:
        for implementation in contenders.implementations:
            found = measure_durations(
                implementation, contenders.target, question.case, question.mode, seed=question.seed, device=_device()
            )
        failure = contenders.failures().get(profiled.name)
    return found if failure is None else found.model_copy(update={"kernels": (), "unavailable": failure})


def _sanitize(question: Sanitize) -> Sanitization:
    return sanitize(question)


def _without(failures: Mapping[str, str], answer: _Failing, figures: str) -> _Failing:
    """The answer with more failures, and no figures of who failed."""
    told = {**answer.failures, **failures}
    kept = {name: each for name, each in getattr(answer, figures).items() if name not in told}
    return answer.model_copy(update={figures: kept, "failures": told})


def _loaded(question: Question, target: Target, name: str, source: SourceRef) -> Implementation:
    return load_implementation(target, Contender(name=name, source=source), question.target.root)


def _device() -> torch.device:
    """The current GPU. Under Triton's interpreter, and with no GPU, the CPU: it is where that runs kernels."""
    if not torch.cuda.is_available():
        if os.environ.get("TRITON_INTERPRET") == "1":
            return torch.device("cpu")
        raise WorkerError(WorkerFailure(status="no_device", message="torch finds no CUDA device in this process"))
    return torch.device("cuda", torch.cuda.current_device())
