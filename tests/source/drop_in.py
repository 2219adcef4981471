"""A small original, and what a candidate adds to it: at the top of the module, and in the function that launches."""

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.source.admit import admit

ORIGINAL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def _scale_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(y_ptr + offsets, x * 2, mask=offsets < n)


def scale(x):
    y = torch.empty_like(x)
    _scale_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
    return y
"""
_IMPORTS = "import triton.language as tl\n"
_FIRST = "    y = torch.empty_like(x)\n"


@dataclass(frozen=True)
class Added:
    """Lines at the top of the module and in `scale`, after y was allocated and before it is launched."""

    top: str = ""
    body: str = ""

    @property
    def candidate(self) -> str:
        top = f"{self.top}\n" if self.top else ""
        body = "".join(f"    {line}\n" for line in self.body.splitlines())
        return ORIGINAL.replace(_IMPORTS, _IMPORTS + top).replace(_FIRST, _FIRST + body)

    @property
    def reasons(self) -> tuple[str, ...]:
        return admit(ORIGINAL, self.candidate)


def body(lines: str) -> Added:
    return Added(body=lines)


def top(lines: str) -> Added:
    return Added(top=lines)
