"""Whether a call failed by itself, so that it would on any GPU, or for want of what is not here; and in which file.

Exceptions of torch are known by module or by their words: what a tensor without values cannot do has many names.
"""

from __future__ import annotations

import os
import traceback
from typing import Literal

from warpsmith.measure.worker.failures import chain

#: Where torch defines what it raises of tensors without values.
_OF_FAKE_TENSORS = ("torch._subclasses", "torch.fx.experimental")
#: What an error says that comes of there being no GPU, or no values: of torch, of CUDA's libraries, and of what stands
#: in for Triton's driver and torch.cuda (absent_gpu.py).
_WANTING = (
    "not compiled with cuda",
    "nvidia",
    "cuda error",
    "cuda gpus",
    "libcuda",
    "torch._c",
    "_cuda_",
    "fake",
    "meta",
    "data pointer",
    "tensor subclass",
    "simplenamespace",
    "'driver' object",
    "'idle' object",
    "'nonetype' object has no attribute",  # a kernel that was compiled and not run gives no handle
)


def fault_of(error: BaseException, source_path: str | None) -> Literal["source", "target"] | None:
    """The file at whose code the error came up: the source where it ran, else the target. None where a GPU, or tensors
    with values, might have mended it."""
    if any(_is_for_want(each) for each in chain(error)):
        return None
    paths = {os.path.realpath(frame.filename) for frame in traceback.extract_tb(error.__traceback__)}
    return "source" if source_path is not None and os.path.realpath(source_path) in paths else "target"


def _is_for_want(error: BaseException) -> bool:
    bases = type(error).__mro__
    if any(base.__module__.startswith(_OF_FAKE_TENSORS) for base in bases):
        return True
    if isinstance(error, NotImplementedError | MemoryError):  # torch's word for an operator without a fake
        return True
    told = str(error).casefold()
    return any(words in told for words in _WANTING)
