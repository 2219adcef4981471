"""Switches that change how everything else in a process behaves, generators that it shares, and its threads.

Owns how they are read and what they are called.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
import torch.utils.deterministic
from triton import knobs

_deterministic: Any = torch.utils.deterministic  # a module whose attribute is a property


_SWITCHES: dict[str, Callable[[], Any]] = {
    "torch's default dtype": torch.get_default_dtype,
    "torch's default device": torch.get_default_device,
    "torch's grad mode": torch.is_grad_enabled,
    "torch's inference mode": torch.is_inference_mode_enabled,
    "torch's anomaly mode": torch.is_anomaly_enabled,
    "torch's deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "torch's filling of uninitialized memory": lambda: _deterministic.fill_uninitialized_memory,
    "torch's float32 matmul precision": torch.get_float32_matmul_precision,
    "torch.backends.cuda.matmul.allow_tf32": lambda: torch.backends.cuda.matmul.allow_tf32,
    "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction": (
        lambda: torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
    ),
    "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction": (
        lambda: torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    ),
    "torch.backends.cudnn.allow_tf32": lambda: torch.backends.cudnn.allow_tf32,
    "torch.backends.cudnn.enabled": lambda: torch.backends.cudnn.enabled,
    "torch.backends.cudnn.benchmark": lambda: torch.backends.cudnn.benchmark,
    "torch.backends.cudnn.deterministic": lambda: torch.backends.cudnn.deterministic,
    "torch's number of threads": torch.get_num_threads,
    "torch's warnings": torch.is_warn_always_enabled,
    "torch's autocast": lambda: (torch.is_autocast_enabled("cuda"), torch.is_autocast_enabled("cpu")),
    "torch's dispatch modes": torch._C._len_torch_dispatch_stack,
    "torch's function modes": torch._C._len_torch_function_stack,
    "sys.settrace": sys.gettrace,
    "sys.setprofile": sys.getprofile,
    "the handlers of signals": lambda: tuple(map(signal.getsignal, signal.valid_signals())),
    "gc": gc.isenabled,
    "Triton's launch hooks": lambda: (_hooks(knobs.runtime.launch_enter_hook), _hooks(knobs.runtime.launch_exit_hook)),
}


def switches() -> dict[str, Any]:
    """What changes how everything else in the process behaves, by what it is called."""
    found: dict[str, Any] = {}
    for name, read in _SWITCHES.items():
        try:
            found[name] = read()
        except RuntimeError as error:  # torch refuses to read what was set by two of its interfaces
            found[name] = str(error)
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["the current CUDA stream"] = torch.cuda.current_stream().cuda_stream
        found["the current CUDA device"] = torch.cuda.current_device()
    return found


def random_states(device: torch.device) -> dict[str, Any]:
    """The states of the generators that everything in a process shares, by what they are called."""
    states: dict[str, Any] = {
        "Python's random numbers": random.getstate(),
        "torch's random numbers on the CPU": bytes(torch.get_rng_state().tolist()),
    }
    if device.type == "cuda":
        states["torch's random numbers on the GPU"] = bytes(torch.cuda.get_rng_state(device).tolist())
    return states


def is_plain(value: Any) -> bool:
    """Whether a switch's value says something to a reader."""
    return isinstance(value, bool | int | str | torch.dtype | torch.device)


def other_threads() -> Iterator[tuple[int, str, str]]:
    """Other threads that run Python, also those that `threading` does not know: ident, function and its file.

    Those that torch starts, to compile or to run a pass backward, do not count, nor does the one that watches the bars
    of progress (tqdm) that torch draws.
    """
    own = threading.get_ident()
    for ident, innermost in sys._current_frames().items():
        if ident == own:
            continue
        frames: list[FrameType] = []
        frame: FrameType | None = innermost
        while frame is not None:
            frames.append(frame)
            frame = frame.f_back
        codes = [each.f_code for each in reversed(frames)]
        code = next((each for each in codes if each.co_filename != threading.__file__), codes[-1])
        if not code.co_filename.startswith(_torchs_folders()):
            yield ident, code.co_name, code.co_filename


@functools.cache
def _torchs_folders() -> tuple[str, ...]:
    tqdm = importlib.util.find_spec("tqdm")
    origins = [torch.__file__, *([tqdm.origin] if tqdm and tqdm.origin else [])]
    return tuple(os.path.dirname(origin) + os.sep for origin in origins)


def _hooks(chain: Any) -> tuple[Any, ...]:
    """Releases of Triton before 3.6 have one hook, those after a chain of them."""
    return tuple(getattr(chain, "calls", (chain,)))
