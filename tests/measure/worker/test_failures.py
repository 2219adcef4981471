"""What is told of an error out of somebody's kernel, and when the process cannot go on after it."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import pytest

from warpsmith.measure.worker.failures import WrongResult, first_cause, is_sticky, told
from warpsmith.measure.worker.protocol import WorkerError, WorkerFailure


class OutOfMemoryError(RuntimeError):
    """Named as torch's."""


class CompilationError(Exception):
    """Named as Triton's."""


class CompileTimeAssertionFailure(CompilationError):
    pass


class OutOfResources(Exception):
    """Named as Triton's."""


ILLEGAL = "CUDA error: an illegal memory access was encountered"


def caught(*raising: Callable[[], None]) -> BaseException:
    """The last of the errors, each raised while the one before was being handled."""
    *before, last = raising
    try:
        if before:
            try:
                raise caught(*before)
            except BaseException:
                last()
        last()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def raises(error: BaseException, cause: BaseException | None = None) -> Callable[[], None]:
    def call() -> None:
        if cause is not None:
            raise error from cause
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("no such shape\nand more"), "runtime_failed: ValueError: no such shape"),
        (OutOfMemoryError("CUDA out of memory. Tried"), "out_of_memory: OutOfMemoryError: CUDA out of memory. Tried"),
        (
            RuntimeError("Triton Error [CUDA]: out of memory"),
            "out_of_memory: RuntimeError: Triton Error [CUDA]: out of memory",
        ),
        (
            OutOfResources("out of resource: shared memory"),
            "compile_failed: OutOfResources: out of resource: shared memory",
        ),
        (
            CompileTimeAssertionFailure("at 2:4:\n    tl.static_assert(BLOCK >= 64)\n    ^\nBLOCK is too small"),
            "compile_failed: CompileTimeAssertionFailure: at 2:4: BLOCK is too small",
        ),
        (RuntimeError("PassManager::run failed"), "compile_failed: RuntimeError: PassManager::run failed"),
        (WrongResult("v1: a replay differs"), "wrong_result: v1: a replay differs"),
        (WorkerError(WorkerFailure(status="bad_target", message="no tensor\nat all")), "bad_target: no tensor"),
    ],
)
def test_an_error_is_told_in_a_line_with_its_status(error: Exception, line: str) -> None:
    assert told(caught(raises(error))) == line


@pytest.mark.parametrize("later", [(), (raises(ValueError("cannot end the capture")),)])
def test_what_broke_the_context_is_raised_and_never_told(later: tuple[Callable[[], None], ...]) -> None:
    error = caught(raises(RuntimeError(ILLEGAL)), *later)
    assert is_sticky(error)
    with pytest.raises(type(error)) as raised:
        told(error)
    assert raised.value is error


def test_the_first_cause_is_what_everything_after_it_came_of() -> None:
    first = ValueError("not while capturing")
    error = caught(raises(first), raises(RuntimeError("capture is invalid")), raises(RuntimeError("cannot end it")))
    assert first_cause(error) is first
    assert first_cause(first) is first


def test_an_error_that_was_raised_from_another_stands_for_it() -> None:
    translated = CompilationError("at 2:4: NameError('x')")
    error = caught(raises(translated, cause=NameError("x")), raises(RuntimeError("cannot end the capture")))
    assert first_cause(error) is translated


def test_what_is_told_holds_nothing_of_the_call_any_more() -> None:
    class Memory:
        pass

    alive: list[weakref.ref[Memory]] = []

    def fails() -> None:
        memory = Memory()
        alive.append(weakref.ref(memory))
        raise ValueError("no such shape")

    error = caught(fails, raises(RuntimeError("cannot end the capture")))
    assert alive[0]() is not None
    told(error)
    assert alive[0]() is None
