"""What the gate finds of one source: admission, then the checks at every case; and the words for each check."""

from __future__ import annotations

from warpsmith.contracts.base import Contract, Document, Sha256
from warpsmith.contracts.measurement import CaseCheck, CheckFailure, Correctness

#: What fails before any check is made: the first call itself.
FIRST_CALL = "call"

#: Every check of a case by its name, in the order in which they are made, and what it is for.
PURPOSES = {
    FIRST_CALL: "the candidate runs at all where the original does",
    "inputs": "inputs and output gradients stay as they were, but for what the target declares in `overwrites`",
    "guards": "nothing is written beside a buffer, an input or an output gradient",
    "form": "results have the type, number, shape, dtype, device and strides that the original's have",
    "sharing": "no result lies in the memory of an input where the original's does not",
    "values": "every output and gradient is as near to float64 as the original's, within a multiple of its own error",
    "own kernels": "in each pass in which the original launches kernels of its own, the candidate launches some of its",
    "library calls": "no kernel of a library does work that the original does not leave to it",
    "bystanders": "nothing outside the call changes: threads, torch's settings and functions, other modules' code",
    "streams": "results are ready on the current stream, and no work runs on another that the original does not use",
    "repeats": "the same call gives the same result again, in memory of its own",
    "backward again": "a second pass backward over one graph, from other gradients, is right where the original's is",
    "other values": "results follow their inputs on other values at the same addresses, from a CUDA graph too",
    "kernels needed": "without its launches the results are wrong where the original's are: no kernel runs for show",
    "layouts": "inputs of other strides and alignments give the right results where the original takes them",
    "gradient layouts": "output gradients of other strides give the right gradients where the original takes them",
    "no gradients": "inputs that require no gradient, no_grad and inference_mode give the same results",
    "extremes": "NaN, infinite, large, tiny, equal and offset values give what they give in the original, as exactly",
    "shapes": "axes of no element, of one and of one more give right results where the original's are right",
    "autocast": "the call works under autocast where the original does",
    "compile": "the call works under torch.compile where the original does",
    "memcheck": "no access out of bounds or misaligned, by compute-sanitizer, where the original has none; of a winner",
    "racecheck": "no race in shared memory, by compute-sanitizer, where the original has none; of a winner",
}

#: What is listed: what comes before every case, then the checks.
LISTED = {
    "admission": "the source can stand in the original's place and names only what kernels need; nothing has run",
    **PURPOSES,
}


class SourceFinding(Contract):
    """What admission has against a source. `text` is that line of it, or of the original where `of_original`."""

    message: str
    line: int | None = None
    text: str | None = None
    of_original: bool = False


class Fault(Contract):
    """Why there is no answer: a source that does not load or compile, a process that died, hung or ran out of memory.

    `case` is None where it is not known at which one. The message ends with the last words of a process that died.
    """

    status: str
    message: str
    case: str | None = None

    @property
    def in_a_line(self) -> str:
        first, _, _ = self.message.partition("\n")
        return f"{self.status}: {first.removesuffix('; its last words:')}"


class Examination(Contract):
    """How far a source came. What is refused by admission is not run.

    `command` is one line that examines it again at the first case that failed; None where no file was written.
    """

    findings: tuple[SourceFinding, ...] = ()
    faults: tuple[Fault, ...] = ()
    correctness: Correctness | None = None
    command: str | None = None

    @property
    def passed(self) -> bool:
        """Whether nothing was found, and all that was asked was answered."""
        return not self.findings and not self.faults and self.correctness is not None and self.correctness.passed

    @property
    def went_wrong_later(self) -> bool:
        """Whether it came through every case, and there was no answer where it was measured."""
        right = self.correctness is not None and self.correctness.passed
        return right and bool(self.faults) and all(fault.case is None for fault in self.faults)

    @property
    def failed(self) -> tuple[CaseCheck, ...]:
        return tuple(check for check in self.checks if check.failures)

    @property
    def checks(self) -> tuple[CaseCheck, ...]:
        return self.correctness.checks if self.correctness else ()

    @property
    def first_failure(self) -> tuple[CaseCheck, CheckFailure] | None:
        return next(((check, check.failures[0]) for check in self.failed), None)

    @property
    def first_case(self) -> str | None:
        """The case to look at first."""
        if self.first_failure is not None:
            return self.first_failure[0].case.name
        return next((fault.case for fault in self.faults if fault.case is not None), None)


class CheckResult(Document):
    """The answer of `warpsmith check`: one file through the gate, beside the production file, outside any run.

    `on` is the GPU, or says that it was Triton's interpreter: a pass there is no pass on a GPU, and `notes` say so.
    None: admission ended it before anything ran, at no case. `left_out` is case -> why it was not examined.
    """

    kernel: str
    source: str
    source_sha256: Sha256
    file: str
    file_sha256: Sha256
    seed: int
    on: str | None
    cases: tuple[str, ...]
    left_out: dict[str, str]
    passed: bool
    examination: Examination
    notes: tuple[str, ...] = ()
