"""The static drop-in check: small dishonest or careless candidates, and honest ones that must pass."""

from __future__ import annotations

import pytest

from warpsmith.source.admit import admit
from warpsmith.source.syntax import equal_syntax_tree

ORIGINAL = """\
import torch
import triton
import triton.language as tl

LIMIT = 4


@triton.jit
def _scale_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * 2)


def scale(x, factor=2):
    _scale_kernel[(1,)](x, x.numel(), BLOCK=128)
    return x


class Scale(torch.nn.Module):
    def forward(self, x):
        return scale(x)
"""
LAUNCH = "    _scale_kernel[(1,)](x, x.numel(), BLOCK=128)\n"

REFUSED = {
    "no Python": ("def scale(x, factor=2):", "def scale(x,, factor=2):", "line 14: the source is not valid Python"),
    "a lost function": ("def scale(", "def _scale(", "line 14: scale is gone"),
    "another default": ("factor=2", "factor=3", "line 14: the signature of scale is (x, factor=3), was (x, factor=2)"),
    "a lost method": ("    def forward(", "    def _forward(", "line 20: Scale.forward is gone"),
    "a lost constant": ("LIMIT = 4", "_LIMIT = 4", "line 5: LIMIT is gone"),
    "a new public function": (
        "class Scale",
        "def extra():\n    pass\n\n\nclass Scale",
        "line 19: extra is a new public name",
    ),
    "a renamed kernel": ("_scale_kernel", "_other_kernel", "line 9: the entry kernel _scale_kernel is gone"),
    "a kernel parameter less": (
        "(x_ptr, n, BLOCK",
        "(x_ptr, BLOCK",
        "line 9: the entry kernel _scale_kernel has other",
    ),
    "a kernel parameter more": (
        "BLOCK: tl.constexpr)",
        "BLOCK: tl.constexpr, m=None)",
        "line 9: the entry kernel _scale_kernel has new parameters that are no constexprs",
    ),
    "another library": ("import torch\n", "import torch\nimport cupy\n", "line 2: imports cupy"),
    "a relative import": ("import torch\n", "import torch\nfrom .fast import k\n", "line 2: imports .fast"),
    "the operating system": ("import torch\n", "import torch, os\n", "line 1: imports os"),
    "a file": (LAUNCH, "    open('x')\n" + LAUNCH, "line 15: uses open"),
    "run text": (LAUNCH, "    eval('1')\n" + LAUNCH, "line 15: uses eval"),
    "import by a built-in": (LAUNCH, "    __import__('os')\n" + LAUNCH, "line 15: uses __import__"),
    "reach through globals": (LAUNCH, "    scale.__globals__\n" + LAUNCH, "line 15: uses __globals__"),
    "a patched timer": (
        LAUNCH,
        "    torch.cuda.Event.elapsed_time = None\n" + LAUNCH,
        "line 15: changes torch.cuda.Event.elapsed_time, which belongs to another module",
    ),
    "a patched module of Triton": (
        "LIMIT = 4",
        "LIMIT = 4\ntriton.cdiv = None",
        "line 6: changes triton.cdiv, which belongs to another module",
    ),
    "a fall-back": (
        LAUNCH,
        "    try:\n    " + LAUNCH + "    except Exception:\n        x *= 2\n",
        "line 15: wraps a launch in try and except in scale",
    ),
    "a library's product": (LAUNCH, "    x = torch.matmul(x, x)\n" + LAUNCH, "line 15: uses torch.matmul"),
    "a product by a method": (LAUNCH, "    x = x.mm(x)\n" + LAUNCH, "line 15: calls .mm()"),
    "a product by an operator": (LAUNCH, "    x = x @ x\n" + LAUNCH, "line 15: multiplies matrices by @"),
    "a product by another name": (
        "import torch\n",
        "import torch\nfrom torch import einsum as e\n_f = e\n",
        "line 2: imports torch.einsum",
    ),
    "a functional of torch": (
        "import torch\n",
        "import torch\nimport torch.nn.functional as F\n_f = F.softmax\n",
        "line 3: uses torch.nn.functional.softmax",
    ),
    "another stream": (LAUNCH, "    s = torch.cuda.Stream()\n" + LAUNCH, "line 15: uses torch.cuda.Stream"),
    "knowing that it is captured": (
        LAUNCH,
        "    torch.cuda.is_current_stream_capturing()\n" + LAUNCH,
        "line 15: uses torch.cuda.is_current_stream_capturing",
    ),
}


@pytest.mark.parametrize(("old", "new", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_a_candidate_is_refused_for_its_reason_at_its_line(old: str, new: str, reason: str) -> None:
    assert old in ORIGINAL

    reasons = admit(ORIGINAL, ORIGINAL.replace(old, new))

    assert [said for said in reasons if said.startswith(reason)] != [], reasons


ADMITTED = {
    "the original": ("", ""),
    "another kernel beside it": (
        "@triton.jit",
        "@triton.jit\ndef _wide_kernel(x_ptr):\n    tl.store(x_ptr, 0)\n\n\n@triton.jit",
    ),
    "a constexpr with a default": ("BLOCK: tl.constexpr)", "BLOCK: tl.constexpr, STAGES: tl.constexpr = 1)"),
    "a workspace": (LAUNCH, "    workspace = torch.empty_like(x)\n" + LAUNCH),
    "a fast path by shape": (LAUNCH, "    if x.numel() > 9:\n    " + LAUNCH + "    else:\n    " + LAUNCH),
    "standard modules": ("import torch\n", "import functools\nimport math\nfrom typing import Any\n\nimport torch\n"),
    "a private helper": ("class Scale", "def _settings(n):\n    return n\n\n\nclass Scale"),
    "annotations": ("def scale(x, factor=2):", "def scale(x: torch.Tensor, factor: int = 2) -> torch.Tensor:"),
    "a matrix product in a kernel": ("tl.load(x_ptr + offsets) * 2", "tl.dot(offsets, offsets)"),
}


#: The original, whose kernel takes a further number that its launch gives.
COUNTED = ORIGINAL.replace("constexpr)", "constexpr, m=0)").replace("BLOCK=128)", "BLOCK=128, m=len(x))")


def test_a_number_with_a_default_may_be_added_where_every_launch_gives_it() -> None:
    assert admit(ORIGINAL, COUNTED) == ()
    assert admit(ORIGINAL, COUNTED.replace("x.numel(), BLOCK=128, m=len(x)", "x.numel(), 128, len(x)")) == ()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (", m=len(x))", ")", "line 15: the launch of _scale_kernel does not give m, which the original lacks"),
        ("BLOCK=128, m=len(x)", "**settings", "line 15: the launch of _scale_kernel does not give m, "),
        (
            "    return x\n\n\nclass",
            "    _scale_kernel.warmup(x, 1, BLOCK=128, grid=(1,))\n    return x\n\n\nclass",
            "line 16: _scale_kernel is used other than in a launch, and has a new parameter, m",
        ),
        ("m=0)", "m=True)", "line 9: the entry kernel _scale_kernel has new parameters that are no constexprs"),
        ("m=0)", "m=LIMIT)", "line 9: the entry kernel _scale_kernel has new parameters that are no constexprs"),
    ],
)
def test_a_number_that_some_use_of_the_kernel_leaves_out_is_refused(old: str, new: str, reason: str) -> None:
    assert COUNTED.count(old) == 1
    assert [said for said in admit(ORIGINAL, COUNTED.replace(old, new)) if said.startswith(reason)] != []


@pytest.mark.parametrize(("old", "new"), ADMITTED.values(), ids=ADMITTED.keys())
def test_an_honest_candidate_is_admitted(old: str, new: str) -> None:
    assert admit(ORIGINAL, ORIGINAL.replace(old, new)) == ()


def test_what_the_original_does_the_candidate_may_do() -> None:
    original = ORIGINAL.replace("import torch\n", "import os\n\nimport torch\n").replace(
        LAUNCH, "    os.getpid()\n" + LAUNCH
    )

    assert admit(original, original) == ()
    assert admit(original, original.replace("os.getpid", "os.remove")) == (
        "line 17: uses os.remove, which the original does not; name only what the original names of it",
    )


def test_layout_and_comments_do_not_change_the_syntax_tree_and_a_number_does() -> None:
    assert equal_syntax_tree("x = f(1,\n  2)  # why\n", "x = f(1, 2)\n")
    assert not equal_syntax_tree("x = 1\n", "x = 2\n")
