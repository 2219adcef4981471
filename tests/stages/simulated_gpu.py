"""A worker that plays a GPU: it answers every question from arithmetic, the same way each time, and can misbehave.

What it is asked it keeps. The hooks are functions of the work, so that a test can break one thing at a time.
"""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from simulated_kernel import CAPABILITY, CEILING_GB_S, KERNELS, SM_COUNT, Work, duration_us, launches

from warpsmith.contracts.base import Contract
from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.counters import Counters, Durations, KernelDuration
from warpsmith.contracts.device import CopyCeiling, DeviceFacts, Environment
from warpsmith.contracts.launch import CompiledSettings
from warpsmith.contracts.measurement import (
    Block,
    CaseCheck,
    CheckFailure,
    Compilation,
    Contender,
    Correctness,
    HostTime,
    Memories,
    Memory,
    OutputError,
    SourceRef,
    Timing,
    TimingMethod,
)
from warpsmith.contracts.mutants import MutantCheck
from warpsmith.contracts.sanitizing import Sanitization, SanitizerTool
from warpsmith.contracts.target import Target, TargetSpec
from warpsmith.measure.worker.loading import load_target
from warpsmith.measure.worker.protocol import (
    AnyQuestion,
    Check,
    Compile,
    CompiledAnswer,
    CompileOffline,
    Count,
    Describe,
    Identify,
    Inspect,
    MeasureCompilation,
    MeasureDurations,
    MeasureHostTime,
    MeasureMemory,
    Sanitize,
    Time,
    WorkerError,
    WorkerFailure,
)
from warpsmith.source.encoding import decoded

REPOSITORY = Path(__file__).resolve().parents[2]
TARGET_FILE = "benchmark/benchmark_rms_norm.py"
TORCH = "torch"

#: Enough of the real target's cases: two widths tuned, one between them, one outside the hull, another dtype.
CASES = ("2048x2048-bf16", "8192x4096-bf16", "8192x8192-bf16", "8192x2048-bf16", "64x8192-bf16", "8192x4096-fp16")

ENVIRONMENT = Environment(
    gpu_name="Simulated H200",
    gpu_uuid="GPU-0",
    driver="580",
    cuda="13.0",
    torch="2.11",
    triton="3.6",
    ptxas=None,
    fp_fusion=True,
    harness="1",
)
DEVICE = DeviceFacts(
    name="Simulated H200",
    uuid="GPU-0",
    capability=CAPABILITY,
    architecture="Hopper",
    sm_count=SM_COUNT,
    memory_bytes=141 << 30,
    l2_bytes=50 << 20,
    shared_memory_per_sm_bytes=233472,
    shared_memory_per_block_bytes=232448,
    registers_per_sm=65536,
    max_threads_per_sm=2048,
    max_sm_clock_mhz=1980,
    copy_ceilings=(CopyCeiling(footprint_bytes=1 << 30, gb_s=CEILING_GB_S, kernel="copy"),),
    matmul_tflops={DType.BFLOAT16: 700.0},
    environment=ENVIRONMENT,
    measured_at="2026-01-31T00:00:00+00:00",
)


def no_failure(work: Work) -> str | None:
    return None


def no_change(work: Work) -> float:
    return 1.0


def killed_by_torch(question: AnyQuestion) -> str | None:
    """A `worker_failure`: whatever the provider takes part in comes down with it."""
    return "signal 11" if any(c.name == TORCH for c in getattr(question, "contenders", ())) else None


@functools.cache
def real_target() -> Target:
    return load_target(str(REPOSITORY / TARGET_FILE))


def described(root: Path) -> TargetSpec:
    """The real target as data, at CASES, with one baseline provider."""
    target = real_target()
    cases = tuple(case for case in target.cases if case.name in CASES)
    return TargetSpec(
        name=target.name,
        source=target.source,
        module=target.module,
        target_file=TARGET_FILE,
        source_sha256=hashlib.sha256((root / target.source).read_bytes()).hexdigest(),
        cases=cases,
        modes=target.modes,
        differentiable=target.differentiable,
        overwrites=target.overwrites,
        costs={case.name: {mode: target.cost(case, mode) for mode in target.modes} for case in cases},
        providers=(TORCH,),
        missing_providers={"liger": "No module named 'liger_kernel'"},
        tests=target.tests,
        plot_axis=target.plot_axis,
    )


def no_ncu(question: Count) -> Counters:
    return Counters(case=question.case, mode=question.mode, unavailable="ncu is not on the path")


def kernels_of_a_call(question: MeasureDurations) -> Durations:
    """What zeroes the partial sums before a pass backward, then each kernel that the mode launches, 10 µs long."""
    zeroing = () if question.mode is Mode.FORWARD else ("Memset (Device)",)
    kernels = tuple(KernelDuration(name=name, samples_us=(10.0,) * 3) for name in (*zeroing, *KERNELS[question.mode]))
    return Durations(case=question.case, mode=question.mode, kernels=kernels)


@dataclass
class SimulatedGpu:
    """`slowdown` multiplies a duration; `also_in_code` is what the machine code depends on besides; the
    other hooks return what goes wrong, or None. `watch` sees each question.
    """

    root: Path
    slowdown: Callable[[Work], float] = no_change
    compile_failure: Callable[[Work], str | None] = no_failure
    run_failure: Callable[[Work], str | None] = no_failure
    wrong_result: Callable[[Work], str | None] = no_failure
    worker_failure: Callable[[AnyQuestion], str | None] = lambda question: None
    cold_s: Callable[[str], float] = lambda text: 0.5
    peak_bytes: Callable[[str], int] = lambda text: 1 << 20
    target_failure: str | None = None
    also_in_code: Callable[[Work], object] = lambda work: None
    launches_nothing: bool = False
    original_rms: float = 1e-4
    mutants: tuple[MutantCheck, ...] = ()
    #: what checks leave out, by their names
    skipped: dict[str, str] = field(default_factory=dict)
    counted: Callable[[Count], Counters] = no_ncu
    profiled: Callable[[MeasureDurations], Durations] = kernels_of_a_call
    sanitizer_says: Callable[[str, SanitizerTool], Sanitization | None] = lambda text, tool: None
    watch: Callable[[AnyQuestion], None] = lambda question: None
    asked: list[AnyQuestion] = field(default_factory=list)

    def ask(self, question: AnyQuestion) -> Contract:
        self.watch(question)
        if not isinstance(question, Describe | Identify):
            self.asked.append(question)
        if failure := self.worker_failure(question):
            raise WorkerError(WorkerFailure(status="died", message=failure))
        answers: dict[type, Callable[..., Contract]] = {
            Describe: self._describe,
            Identify: lambda question: ENVIRONMENT,
            Inspect: lambda question: DEVICE,
            Compile: self._compile,
            CompileOffline: self._compile,
            Check: self._check,
            Time: self._time,
            MeasureMemory: self._memory,
            MeasureCompilation: self._compilation,
            MeasureHostTime: self._host_time,
            Count: self.counted,
            MeasureDurations: self.profiled,
            Sanitize: self._sanitize,
        }
        return answers[type(question)](question)

    def ask_all(self, questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
        answers: list[Contract | WorkerFailure] = []
        for question in questions:
            try:
                answers.append(self.ask(question))
            except WorkerError as error:
                answers.append(error.failure)
        return answers

    def close(self) -> None:
        """Nothing to close."""

    def _describe(self, question: Describe) -> TargetSpec:
        if self.target_failure is not None:
            raise WorkerError(WorkerFailure(status="bad_target", message=self.target_failure))
        return described(self.root)

    def _compile(self, question: Compile | CompileOffline) -> CompiledAnswer:
        return CompiledAnswer(compiled=tuple(self._compiled(question, settings) for settings in question.settings))

    def _compiled(self, question: Compile | CompileOffline, settings: dict[str, int]) -> CompiledSettings:
        work = Work(question.case, question.mode, text_of(question.source), settings)
        if failure := self.compile_failure(work):
            return CompiledSettings(settings=settings, failure=failure)
        launched = () if self.launches_nothing else launches(work, self.also_in_code(work))
        return CompiledSettings(settings=settings, launches=launched)

    def _check(self, question: Check) -> Correctness:
        text = text_of(question.candidate)
        checks = []
        for case in question.cases:
            failure = self.wrong_result(Work(case, Mode.FULL, text))
            checks.append(
                CaseCheck(
                    case=case,
                    errors=(self._error(),),
                    failures=() if failure is None else (CheckFailure(check="values", message=failure),),
                    skipped=self.skipped,
                )
            )
        return Correctness(source_sha256=question.candidate.sha256, checks=tuple(checks), mutants=self.mutants)

    def _error(self) -> OutputError:
        rms = self.original_rms
        return OutputError(
            output="dx",
            rms=rms,
            p9999=4 * rms,
            max=6 * rms,
            original_rms=rms,
            original_p9999=4 * rms,
            original_max=6 * rms,
            scale=1.0,
            floor=1e-6,
            elements=1000,
        )

    def _time(self, question: Time) -> Timing:
        costs = described(self.root).costs[question.case.name]
        failures: dict[str, str] = {}
        times_us: dict[str, float] = {}
        for contender in question.contenders:
            work = self._work(contender, question.case, question.mode)
            if failure := self.run_failure(work):
                failures[contender.name] = failure
            elif contender.source is None:
                times_us[contender.name] = 4 * costs[question.mode].bytes_moved / (CEILING_GB_S * 1e3)
            else:
                times_us[contender.name] = duration_us(work, costs) * self.slowdown(work)
        return Timing(
            case=question.case,
            mode=question.mode,
            method=question.method or TimingMethod.GRAPH,
            l2=question.l2,
            calls_per_sample=10,
            input_sets=4,
            same_addresses=True,
            blocks=tuple(
                Block(contender=name, round=number, samples_ms=_noisy(time_us / 1e3, question, name, number))
                for number in range(question.plan.rounds)
                for name, time_us in times_us.items()
            ),
            failures=failures,
        )

    def _work(self, contender: Contender, case: Case, mode: Mode) -> Work:
        text = "" if contender.source is None else text_of(contender.source)
        return Work(case, mode, text, contender.settings)

    def _memory(self, question: MeasureMemory) -> Memories:
        texts = {each.name: "" if each.source is None else text_of(each.source) for each in question.contenders}
        peak_bytes = {name: self.peak_bytes(text) for name, text in texts.items()}
        return Memories(
            memories=tuple(Memory(case=question.case, mode=mode, peak_bytes=peak_bytes) for mode in question.modes)
        )

    def _compilation(self, question: MeasureCompilation) -> Compilation:
        sha256, text = question.source.sha256, text_of(question.source)
        if failure := self.compile_failure(Work(question.case, question.passes[0], text, {})):
            return Compilation(source_sha256=sha256, case=question.case, unavailable=f"compile_failed: {failure}")
        works = [Work(case, mode, text, {}) for case in question.cases for mode in question.passes]
        kernels = {(each.jit_function, each.compiled.binary_sha256) for work in works for each in launches(work)}
        names = [name for name, _ in kernels]
        return Compilation(
            source_sha256=sha256,
            case=question.case,
            cold_s=(self.cold_s(text),) * 3,
            specializations={name: names.count(name) for name in sorted(set(names))},
        )

    def _host_time(self, question: MeasureHostTime) -> HostTime:
        samples_us = {contender.name: (20.0,) * 5 for contender in question.contenders}
        return HostTime(case=question.case, mode=question.mode, samples_us=samples_us)

    def _sanitize(self, question: Sanitize) -> Sanitization:
        """A hook that has nothing to say leaves a source clean."""
        found = self.sanitizer_says(text_of(question.source), question.tool)
        return found or Sanitization(tool=question.tool, errors=0)


def text_of(source: SourceRef) -> str:
    content = Path(source.path).read_bytes()
    assert hashlib.sha256(content).hexdigest() == source.sha256, f"{source.path} is not what was asked about"
    return decoded(content, source.path)


def _noisy(time_ms: float, question: Time, name: str, number: int) -> tuple[float, ...]:
    """Samples that scatter by 0.1%, the same ones whenever the same thing is asked."""
    draw = random.Random(
        f"{question.seed} {question.case.name} {question.mode.value} {name} {question.plan.rounds} {number}"
    )
    return tuple(time_ms * (1 + draw.gauss(0.0, 0.001)) for _ in range(3))
