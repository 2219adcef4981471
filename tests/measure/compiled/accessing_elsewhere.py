"""A jit function in another file than the kernels that call it."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def load_elsewhere(pointer, at):
    return tl.load(pointer + at)
