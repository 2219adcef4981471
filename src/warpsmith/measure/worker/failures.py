"""What went wrong in somebody's kernel: its status, told in a line, and whether the process can go on after it.

Exceptions of torch and Triton are known by name: Triton's have moved between modules from one release to the next.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.measure.worker.protocol import WorkerError, WorkerFailure

#: Errors after which a CUDA context answers nothing more, as the driver words them (CUDA runtime API, error codes
#: 214, 700, 702 and 714 to 719).
STICKY_ERRORS = (
    "illegal memory access",
    "misaligned address",
    "unspecified launch failure",
    "device-side assert triggered",  # every message of torch ends in advice that speaks of device-side assertions
    "illegal instruction",
    "hardware stack error",
    "invalid program counter",
    "operation not supported on global/shared address space",
    "the launch timed out and was terminated",
    "uncorrectable ECC error",
)

_COMPILE_FAILURES = {"CompilationError", "PTXASError", "OutOfResources", "UnsupportedLanguageConstruct"}
#: How MLIR tells that it gave up: a RuntimeError like any other.
_PASS_FAILED = "PassManager::run failed"


class WrongResult(Exception):
    """What was about to be measured does not compute what it should."""


def told(error: BaseException) -> str:
    """Its status and its first line; of a compiler's error also the last, which says what is wrong.

    The tracebacks of the whole chain are cleared: their frames keep GPU memory alive (triton-lang/triton#11174).
    Raises the error itself where the CUDA context is broken: nothing in this process can be believed after that.
    """
    failure = classify(error)
    if failure.sticky:
        raise error
    for each in chain(error):
        each.__traceback__ = None
    return failure.in_short if failure.status == "compile_failed" else failure.in_a_line


def first_cause(error: BaseException) -> BaseException:
    """The first error of those that came of one another unasked, such as a capture that cannot be ended after it.

    One that was raised `from` another tells of it and stands for it.
    """
    while error.__context__ is not None and error.__cause__ is None and not error.__suppress_context__:
        error = error.__context__
    return error


def classify(error: BaseException) -> WorkerFailure:
    """The status of an exception that came out of somebody's kernel, an attempt to end the process among them."""
    if isinstance(error, WorkerError):
        return error.failure
    if isinstance(error, WrongResult):
        return WorkerFailure(status="wrong_result", message=str(error))
    names = {base.__name__ for base in type(error).__mro__}
    text = f"{type(error).__name__}: {str(error).strip()[:2000]}"
    if is_sticky(error):
        return WorkerFailure(status="runtime_failed", message=text, sticky=True)
    if names & {"OutOfMemoryError", "MemoryError"} or "out of memory" in str(error):
        return WorkerFailure(status="out_of_memory", message=text)
    if names & _COMPILE_FAILURES or _PASS_FAILED in str(error):
        return WorkerFailure(status="compile_failed", message=text)
    return WorkerFailure(status="runtime_failed", message=text)


def is_sticky(error: BaseException) -> bool:
    """Whether it, or an error before it, broke the CUDA context of this process."""
    return any(phrase in str(each) for each in chain(error) for phrase in STICKY_ERRORS)


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and all that it came of or was raised from."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += (each.__cause__, each.__context__)
