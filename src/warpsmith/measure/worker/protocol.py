"""The worker's protocol: every question that only a GPU process can answer, and the form of the answer.

This is the one seam between deciding and measuring. A question's identity is the hash of what was asked
(sources by content, never by path), so that an answer can be stored, resumed from, recorded and replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol, TypeVar

from pydantic import Field, TypeAdapter

from warpsmith.contracts.base import Contract, Settings, Sha256
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.counters import Counters, Durations
from warpsmith.contracts.device import DeviceFacts, Environment, TargetGpu
from warpsmith.contracts.launch import CompiledSettings
from warpsmith.contracts.measurement import (
    L2,
    Compilation,
    Contender,
    Correctness,
    HostTime,
    Memories,
    SourceRef,
    Timing,
    TimingMethod,
    TimingPlan,
)
from warpsmith.contracts.sanitizing import Sanitization, SanitizerTool
from warpsmith.contracts.target import TargetSpec
from warpsmith.measure.worker.identity import identity_of, without_paths


class TargetRef(Contract):
    """A target file, known by its content. `root` is the repository its source path is relative to."""

    path: str
    root: str
    sha256: Sha256


class Question(Contract):
    """What all questions have in common."""

    target: TargetRef
    seed: int = 0

    @property
    def identity(self) -> str:
        """sha256 of the question without the paths in it: the same on every machine."""
        return identity_of(self.portable())

    def portable(self) -> dict[str, Any]:
        """The question as it is stored: no path of any machine in it."""
        stripped: dict[str, Any] = without_paths(self.model_dump(mode="json"))
        return stripped


class Describe(Question):
    """Load the target and say what it is. Answer: TargetSpec."""

    kind: Literal["describe"] = "describe"


class Identify(Question):
    """Name the GPU and the software that answers will depend on. Answer: Environment. Never stored."""

    kind: Literal["identify"] = "identify"


class Inspect(Question):
    """Read the GPU's facts and measure its ceilings. Answer: DeviceFacts."""

    kind: Literal["inspect"] = "inspect"


class Compile(Question):
    """Compile each of the settings at one case, launching nothing unless `launch`. Answer: CompiledAnswer."""

    kind: Literal["compile"] = "compile"
    source: SourceRef
    case: Case
    mode: Mode
    settings: tuple[Settings, ...] = ({},)
    launch: bool = False


class CompileOffline(Question):
    """Compile what a call would launch on that GPU, with none here, for each of the settings. Answer: CompiledAnswer.

    It depends on the installed triton and on no GPU: asked on a machine that has one, it leaves it alone.
    """

    kind: Literal["compile_offline"] = "compile_offline"
    source: SourceRef
    case: Case
    mode: Mode
    gpu: TargetGpu
    settings: tuple[Settings, ...] = ({},)


class Check(Question):
    """The correctness gate for one source, against float64 and the original. Answer: Correctness."""

    kind: Literal["check"] = "check"
    original: SourceRef
    candidate: SourceRef
    cases: tuple[Case, ...]


class Time(Question):
    """Interleaved timing. Every round runs one block of every contender, in random order. Answer: Timing.

    `method` None is graph replay where every contender can be captured, else the profiler's kernel durations, else
    events; a method that is named is used or fails.
    """

    kind: Literal["time"] = "time"
    contenders: tuple[Contender, ...]
    case: Case
    mode: Mode
    plan: TimingPlan = Field(default_factory=TimingPlan)
    method: TimingMethod | None = None
    l2: L2 = L2.COLD


class MeasureMemory(Question):
    """Peak memory of one call of each contender in each mode, in a process that does nothing else. Answer: Memories."""

    kind: Literal["memory"] = "memory"
    contenders: tuple[Contender, ...]
    case: Case
    modes: tuple[Mode, ...]


class MeasureCompilation(Question):
    """Cold compile time of the passes at `case`, and how many kernels they compile over `cases`. Answer: Compilation.

    In a process that does nothing else, with an empty cache of its own.
    """

    kind: Literal["compilation"] = "compilation"
    source: SourceRef
    case: Case
    cases: tuple[Case, ...]
    passes: tuple[Mode, ...]


class MeasureHostTime(Question):
    """Host time a call of each contender. Answer: HostTime."""

    kind: Literal["host_time"] = "host_time"
    contenders: tuple[Contender, ...]
    case: Case
    mode: Mode
    calls: int = 200


class Count(Question):
    """Hardware counters by ncu, one row a kernel launch. Answer: Counters."""

    kind: Literal["count"] = "count"
    source: SourceRef
    case: Case
    mode: Mode


class MeasureDurations(Question):
    """Device time of each kernel of one call, by torch's profiler: for want of counters. Answer: Durations."""

    kind: Literal["durations"] = "durations"
    source: SourceRef
    case: Case
    mode: Mode


class Sanitize(Question):
    """compute-sanitizer over one call at each case, with gradients where the target has them. Answer: Sanitization."""

    kind: Literal["sanitize"] = "sanitize"
    source: SourceRef
    tool: SanitizerTool
    cases: tuple[Case, ...]


class CompiledAnswer(Contract):
    compiled: tuple[CompiledSettings, ...]


class WorkerFailure(Contract):
    """Why a question has no answer. None of these is ever a pass."""

    status: Literal[
        "timeout",
        "died",
        "import_failed",
        "compile_failed",
        "runtime_failed",
        "wrong_result",
        "out_of_memory",
        "no_device",
        "bad_target",
        "tampered",
    ]
    message: str
    #: the CUDA context is broken; the worker must be replaced
    sticky: bool = False
    #: the process ended itself with it, as by os._exit; None where it did not, or a signal ended it
    exit_status: int | None = None

    @property
    def in_a_line(self) -> str:
        """The status and the first line of the message, with the second where the first leads up to it."""
        first, _, rest = self.message.partition("\n")
        second = rest.strip().partition("\n")[0] if first.endswith(":") else ""
        return f"{self.status}: {first} {second}".rstrip()

    @property
    def in_short(self) -> str:
        """The status, the first line of the message and, as Python's errors come last, its last that has words."""
        first, *rest = [line for line in self.message.splitlines() if any(map(str.isalnum, line))] or [""]
        return f"{self.status}: {first}" + (f" {rest[-1].strip()}" if rest else "")


AnyQuestion = Annotated[
    Describe
    | Identify
    | Inspect
    | Compile
    | CompileOffline
    | Check
    | Time
    | MeasureMemory
    | MeasureCompilation
    | MeasureHostTime
    | Count
    | MeasureDurations
    | Sanitize,
    Field(discriminator="kind"),
]

Answer = TypeVar("Answer", bound=Contract)

QUESTION: TypeAdapter[AnyQuestion] = TypeAdapter(AnyQuestion)

ANSWER_TYPES: dict[str, type[Contract]] = {
    "describe": TargetSpec,
    "identify": Environment,
    "inspect": DeviceFacts,
    "compile": CompiledAnswer,
    "compile_offline": CompiledAnswer,
    "check": Correctness,
    "time": Timing,
    "memory": Memories,
    "compilation": Compilation,
    "host_time": HostTime,
    "count": Counters,
    "durations": Durations,
    "sanitize": Sanitization,
}


class WorkerError(Exception):
    """A question that has no answer."""

    def __init__(self, failure: WorkerFailure) -> None:
        super().__init__(f"{failure.status}: {failure.message}")
        self.failure = failure


class Worker(Protocol):
    """Whoever answers questions: a process with a GPU, a recording, or one in front of the other."""

    def ask(self, question: AnyQuestion) -> Contract:
        """The answer, of the type that ANSWER_TYPES names. Raises WorkerError."""
        ...

    def ask_all(self, questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
        """Independent questions, answered side by side where that disturbs no measurement."""
        ...

    def close(self) -> None: ...


def answer_of(worker: Worker, question: AnyQuestion, answer_type: type[Answer]) -> Answer:
    """The worker's answer, of the type that the caller names. Raises WorkerError where there is none."""
    answer = worker.ask(question)
    assert isinstance(answer, answer_type)
    return answer
