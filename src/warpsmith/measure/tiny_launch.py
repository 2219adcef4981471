"""The program with which the doctor tries whether kernels launch, by themselves and under a tool.

`python -m warpsmith.measure.tiny_launch SECONDS`: after so many seconds it ends itself.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-untyped-defs

from __future__ import annotations

import signal
import sys

import torch
import triton
import triton.language as tl

_ELEMENTS = 1024


@triton.jit
def tiny_kernel(target_ptr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.arange(0, BLOCK)
    tl.store(target_ptr + offsets, offsets)


def main(limit_s: str) -> None:
    """Launches one kernel on the current GPU, and says so once its result is right. Raises what torch or triton do."""
    signal.alarm(int(limit_s))
    written = torch.zeros(_ELEMENTS, dtype=torch.int32, device="cuda")
    tiny_kernel[(1,)](written, BLOCK=_ELEMENTS)
    torch.cuda.synchronize()
    if not torch.equal(written.cpu(), torch.arange(_ELEMENTS, dtype=torch.int32)):
        raise RuntimeError("the tiny kernel wrote other values than it should")
    print("warpsmith: launched", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
