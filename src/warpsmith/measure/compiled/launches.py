"""What one call launches, and what each choice of settings compiles to.

Owns the run of a call for the sake of its launches. Must not know how launches are seen (recording.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from warpsmith.contracts.base import Settings
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.launch import CompiledSettings
from warpsmith.contracts.target import Target
from warpsmith.measure.compiled.fault import fault_of
from warpsmith.measure.compiled.recording import Facts, Recording, loaded_facts, recording
from warpsmith.measure.worker.calls import prepared
from warpsmith.measure.worker.failures import is_sticky
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import make_one
from warpsmith.measure.worker.protocol import WorkerError

#: What refused a choice of settings, by the exception's class: Triton's own classes are compared by name, because
#: they have moved between modules from one release to the next.
_REFUSALS = {
    "OutOfResources": "needs more than the GPU has",
    "PTXASError": "ptxas failed",
    "CompilationError": "the Triton compiler refused",
    "CompileTimeAssertionFailure": "a static assertion of the kernel failed",
    "UnsupportedLanguageConstruct": "the Triton compiler refused",
    "DataDependentOutputException": "the call reads a tensor's values, and with no GPU there are none",
}


def record_call(
    implementation: Implementation,
    target: Target,
    case: Case,
    mode: Mode,
    *,
    device: torch.device,
    seed: int,
    launch: bool,
    facts: Facts = loaded_facts,
    began: Callable[[Recording], None] = lambda _: None,
) -> Recording:
    """One call in a mode, with its launches in order. With `launch` False they are compiled and not run.

    Those of the source's jit functions and by its code; where there are none, all. Backward alone leaves out what the
    forward pass before it launches. `began` is handed each recording as it begins: of a call that fails, too. Raises
    what the implementation or the compiler raises.
    """
    one = make_one(target, case, mode, seed=seed, device=device)
    implementation.activate()
    path = implementation.source_path
    # What preparing launches is not asked for, but where nothing is to run, neither may that.
    with recording(path, launch=launch, facts=facts) as before:
        began(before)
        call: Callable[[int], Any] = prepared(implementation, mode, [one])
    with recording(path, launch=launch, facts=facts) as seen:
        began(seen)
        call(0)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return seen


def compile_settings(
    implementation_of: Callable[[Settings], Implementation],
    target: Target,
    case: Case,
    mode: Mode,
    settings: Sequence[Settings],
    *,
    device: torch.device,
    seed: int,
    launch: bool,
    facts: Facts = loaded_facts,
) -> tuple[CompiledSettings, ...]:
    """What each of the settings compiles to, in order; why one cannot run is told, not raised.

    `compile_s` is the compiler's own time over the launches, None where its cache answered for any of them.
    Raises WorkerError where a source cannot be loaded, and whatever leaves the process unfit to go on: a broken
    CUDA context, exhausted GPU memory.
    """
    compiled: list[CompiledSettings] = []
    for each in settings:
        implementation, began = implementation_of(each), list[Recording]()
        try:
            seen = record_call(
                implementation,
                target,
                case,
                mode,
                device=device,
                seed=seed,
                launch=launch,
                facts=facts,
                began=began.append,
            )
        except (WorkerError, torch.OutOfMemoryError):
            raise
        except (Exception, SystemExit) as error:  # the compiler and the user's code may fail in any way
            if is_sticky(error):
                raise
            compiled.append(_failed(each, error, began, implementation.source_path))
            error.__traceback__ = None  # it holds the failed call's tensors
        else:
            seconds = round(seen.compile_s, 4) if seen.compiled and not seen.from_cache else None
            compiled.append(CompiledSettings(settings=each, launches=seen.launches, compile_s=seconds))
    return tuple(compiled)


def _failed(
    settings: Settings, error: BaseException, began: Sequence[Recording], source_path: str | None
) -> CompiledSettings:
    """What refused, in its own words but for a compiler's long tail."""
    refusal = next((_REFUSALS[base.__name__] for base in type(error).__mro__ if base.__name__ in _REFUSALS), None)
    what = refusal or ("the call failed" if began else "the inputs cannot be made")
    is_known = refusal is not None or any(recording.launches for recording in began)
    return CompiledSettings(
        settings=settings,
        failure=f"{what}: {type(error).__name__}: {str(error).strip()[:1000]}",
        at_fault=None if is_known else fault_of(error, source_path),
    )
