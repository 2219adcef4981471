"""Records the launches of jit functions as they happen: who launched, with which settings, and what was compiled.

The class attribute `JITFunction.run` is wrapped for the duration, so that launches are seen on whichever thread they
happen; autograd runs a backward pass on its own.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-untyped-defs

from __future__ import annotations

import hashlib
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from triton.runtime.jit import JITFunction

from warpsmith.contracts.base import Settings
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.launch import CompiledFacts, CompiledSettings, LaunchRecord
from warpsmith.contracts.target import Target
from warpsmith.measure.worker.calls import prepared
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import make_one
from warpsmith.measure.worker.serve import is_sticky

#: PTX lines that say where code came from and not what it does.
_ORIGIN_LINES = re.compile(r"^\s*(\.loc|\.file|//).*$", re.MULTILINE)
_DEBUG_SECTIONS = re.compile(r"^\s*\.section\s+\.debug.*?^\s*}\s*$", re.MULTILINE | re.DOTALL)


def record_launches(
    implementation: Implementation,
    target: Target,
    case: Case,
    mode: Mode,
    *,
    device: torch.device,
    seed: int,
    launch: bool,
) -> tuple[LaunchRecord, ...]:
    """The launches of one call in a mode. With `launch` False they are compiled and not run."""
    one = make_one(target, case, mode, seed=seed, device=device)
    implementation.activate()
    records: list[LaunchRecord] = []
    if mode is Mode.BACKWARD:
        # The forward pass is not what is asked for, but its outputs are what backward starts from.
        with _recording(implementation, [], launch=launch):
            call = prepared(implementation, mode, [one])
    else:
        call = prepared(implementation, mode, [one])
    with _recording(implementation, records, launch=launch):
        call(0)
    torch.cuda.synchronize(device)
    return tuple(records)


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
) -> tuple[CompiledSettings, ...]:
    """What each of the settings compiles to, in order; a failure is told, not raised, unless the device is broken."""
    compiled: list[CompiledSettings] = []
    for each in settings:
        started = time.perf_counter()
        try:
            launches = record_launches(
                implementation_of(each), target, case, mode, device=device, seed=seed, launch=launch
            )
            seconds = round(time.perf_counter() - started, 3)
            compiled.append(CompiledSettings(settings=each, launches=launches, compile_s=seconds))
        except Exception as error:  # the compiler and the user's code may fail in any way
            if is_sticky(error):
                raise
            error.__traceback__ = None
            text = str(error).strip()[:500]
            compiled.append(CompiledSettings(settings=each, failure=f"{type(error).__name__}: {text}"))
    return tuple(compiled)


@contextmanager
def _recording(implementation: Implementation, records: list[LaunchRecord], *, launch: bool) -> Iterator[None]:
    original = JITFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        kernel = original(self, *args, grid=grid, warmup=warmup or not launch, **kwargs)
        if kernel is not None:
            records.append(_record(self, kernel, args, grid, kwargs, implementation.source_path))
        return kernel

    JITFunction.run = run
    try:
        yield
    finally:
        JITFunction.run = original


def _record(
    function: Any, kernel: Any, args: tuple[Any, ...], grid: Any, kwargs: dict[str, Any], source_path: str | None
) -> LaunchRecord:
    bound = dict(zip(function.arg_names, args, strict=False)) | {
        k: v for k, v in kwargs.items() if k in function.arg_names
    }
    host = _host_frame(source_path)
    locals_ = host.f_locals if host else {}
    return LaunchRecord(
        jit_function=function.fn.__name__,
        host_function=host.f_code.co_name if host else "",
        line=host.f_lineno if host else 0,
        grid=_resolved(grid, bound),
        constexprs={p.name: _plain(bound.get(p.name, p.default)) for p in function.params if p.is_constexpr},
        host_integers={k: int(v) for k, v in locals_.items() if type(v) is int},
        host_tensors={k: str(v.dtype).removeprefix("torch.") for k, v in locals_.items() if isinstance(v, Tensor)},
        compiled=_facts(kernel),
    )


def _host_frame(source_path: str | None) -> FrameType | None:
    """The innermost frame of the kernel's own file: the host function that launches."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename != source_path:
        frame = frame.f_back
    return frame


def _resolved(grid: Any, bound: dict[str, Any]) -> tuple[int, ...]:
    found = grid(bound) if callable(grid) else grid
    return tuple(int(size) for size in (found if isinstance(found, tuple | list) else (found,)))


def _plain(value: Any) -> int | float | str | bool | None:
    value = getattr(value, "value", value)
    return value if value is None or isinstance(value, int | float | str | bool) else str(value)


def _facts(kernel: Any) -> CompiledFacts:
    if torch.cuda.is_available():
        kernel._init_handles()
    metadata = kernel.metadata
    return CompiledFacts(
        binary_sha256=binary_sha256(kernel.asm["ptx"], metadata.shared),
        registers=kernel.n_regs,
        spills=kernel.n_spills,
        shared_bytes=metadata.shared,
        num_warps=metadata.num_warps,
        num_stages=metadata.num_stages,
    )


def binary_sha256(ptx: str, shared_bytes: int) -> str:
    """The hash of what ptxas is given, without the lines that say which file and line it came from."""
    code = _ORIGIN_LINES.sub("", _DEBUG_SECTIONS.sub("", ptx))
    text = "\n".join(line.strip() for line in code.splitlines() if line.strip())
    return hashlib.sha256(f"{shared_bytes}\n{text}".encode()).hexdigest()
