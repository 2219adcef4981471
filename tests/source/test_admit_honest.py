"""What engineers, agents and our own rewrites write is admitted, and so is each style of original against itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from source.drop_in import Added, body, top

from warpsmith.source.admit import admit

EXAMPLE = Path(__file__).resolve().parents[2] / "optimization" / "rms_norm"

ADMITTED: dict[str, Added] = {
    "a workspace": body("w = torch.empty((4, x.numel()), dtype=torch.float32, device=x.device)"),
    "zeros for atomics": body("w = torch.zeros(x.shape[-1], dtype=torch.float32, device=x.device)"),
    "a workspace by a method": body("w = x.new_empty((4, 8), dtype=torch.float32)"),
    "a sum of partial results": body("w = torch.ones_like(x)\ny = w.sum(dim=0).to(x.dtype)\ny.add_(1).mul_(2)"),
    "views and copies": body("y = torch.cat([x.view(-1), x.reshape(-1)]).contiguous().transpose(0, -1).clone()"),
    "facts of a tensor": body(
        "n = x.shape[-1]\ns = x.stride(0)\nm = torch.finfo(x.dtype).min\nok = x.data_ptr() % 16 == 0\n"
        "a = x.is_contiguous() and x.element_size() == 2 and x.device.type == 'cuda'"
    ),
    "facts of the GPU": body(
        "p = torch.cuda.get_device_properties(x.device)\nsms = p.multi_processor_count\n"
        "hopper = torch.cuda.get_device_capability(x.device)[0] >= 9\nshared = getattr(p, 'shared_memory_per_block', 0)"
    ),
    "a device": body("with torch.cuda.device(x.device):\n    pass"),
    "a null context": body("import contextlib\nwith contextlib.nullcontext():\n    pass"),
    "heuristics": top(
        "@triton.heuristics({'EVEN': lambda args: args['n'] % args['BLOCK'] == 0})\n@triton.jit\n"
        "def _k(x_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):\n    tl.store(x_ptr, 0)"
    ),
    "a jit function of its own": top(
        "@triton.jit\ndef _add(a, b):\n    return a + b\n\n\n@triton.jit\ndef _k(x_ptr, BLOCK: tl.constexpr):\n"
        "    x = tl.load(x_ptr + tl.arange(0, BLOCK))\n    for i in tl.static_range(4):\n"
        "        x = x.to(tl.float32).exp()\n"
        "    x = tl.dot(x, x) @ x\n    tl.store(x_ptr, tl.reduce(x, 0, _add).sum())"
    ),
    "a descriptor made on the GPU": top(
        "def _allocate(size: int, alignment: int, stream: int | None):\n"
        '    """Scratch for descriptors."""\n    return torch.empty(size, device=\'cuda\', dtype=torch.int8)\n\n\n'
        "triton.set_allocator(_allocate)\n\n\n@triton.jit\ndef _k(x_ptr, n, BLOCK: tl.constexpr):\n"
        "    desc = tl.make_tensor_descriptor(x_ptr, shape=[n], strides=[1], block_shape=[BLOCK])\n"
        "    for i in tl.range(0, n, BLOCK, num_stages=3, warp_specialize=True, flatten=True):\n"
        "        desc.store([i], desc.load([i]))"
    ),
    "a descriptor made by the host": Added(
        "from triton.tools.tensor_descriptor import TensorDescriptor",
        "desc = TensorDescriptor.from_tensor(x, [128])\ndesc.block_shape = [64]",
    ),
    "functions of the device library": top(
        "from triton.language.extra import libdevice\nfrom triton.language.math import rsqrt\n\n\n@triton.jit\n"
        "def _k(x_ptr):\n"
        "    tl.store(x_ptr, rsqrt(libdevice.tanh(tl.load(x_ptr))) + tl.extra.cuda.libdevice.rsqrt(1.0))"
    ),
    "a guarded import": top(
        "try:\n    from triton.language.extra.libdevice import rsqrt\nexcept ModuleNotFoundError:\n"
        "    from triton.language.extra.cuda.libdevice import rsqrt"
    ),
    "a guarded question": body("try:\n    p = torch.cuda.get_device_properties(0)\nexcept RuntimeError:\n    p = None"),
    "what a version has": Added(
        "_HAS_TMA = hasattr(tl, 'make_tensor_descriptor')", "f8 = getattr(torch, 'float8_e4m3fn', None)"
    ),
    "other names": Added(
        "from torch import Tensor, empty as _empty\n_cdiv = triton.cdiv", "w = _empty(_cdiv(x.numel(), 8))"
    ),
    "annotations": top(
        "from typing import Any\n\n\ndef _f(x: torch.Tensor, kind: type[int], *a: Any) -> type[int] | None:\n"
        "    return kind"
    ),
    "settings as a class": top(
        "from dataclasses import dataclass, field\nfrom enum import Enum\n\n\n@dataclass(frozen=True)\nclass _S:\n"
        "    block: int = 128\n    more: tuple[int, ...] = field(default=(1, 2))\n\n    def grid(self, n):\n"
        "        return (triton.cdiv(n, self.block),)\n\n\nclass _Path(Enum):\n    WIDE = 1\n\n\n"
        "_DEFAULT = _S(block=256)"
    ),
    "a grid that is a function": body(
        "grid = lambda meta: (triton.cdiv(x.numel(), meta['BLOCK']),)\n_scale_kernel[grid](x, y, x.numel(), BLOCK=64)"
    ),
    "a choice among kernels": Added(
        "", "kernel = _scale_kernel if x.numel() > 8 else _scale_kernel\nkernel[(1,)](x, y, 1, BLOCK=2)"
    ),
    "a bound kernel": Added(
        "import functools", "run = functools.partial(_scale_kernel[(1,)], x, y)\nrun(1, BLOCK=8, num_warps=2)"
    ),
    "without gradients": body("with torch.no_grad():\n    y.zero_()"),
    "words": body("raise ValueError('expected {} of {:.2f}'.format(1, 2.0) + f'{x.shape}')"),
}

#: Hosts in the styles found in the wild, each with something that only an original may do.
STYLES: dict[str, str] = {
    "a helper of the package's": (
        "import operator\n\nfrom package.ops.utils import calculate_settings, compare_version, ensure_contiguous\n\n"
        "if compare_version('triton', operator.ge, '3.0.0'):\n    try:\n"
        "        from triton.language.extra.libdevice import tanh\n"
        "    except ModuleNotFoundError:\n        from triton.language.extra.cuda.libdevice import tanh\nelse:\n"
        "    from triton.language.math import tanh\n"
    ),
    "a type that may be missing": (
        "try:\n    from torch.distributed.tensor import DTensor as _DTensor\nexcept Exception:\n"
        "    _DTensor = None\n\n\n"
        "def is_distributed(x):\n    return _DTensor is not None and isinstance(x, _DTensor)\n"
    ),
    "the environment": "import os\n\nDEBUG = os.environ.get('DEBUG', '0') == '1'\n",
    "a library's product": "def project(x, w):\n    return x @ w.t() + torch.mm(x, w)\n",
    "a functional": "import torch.nn.functional as F\n\n\ndef pad(x):\n    return F.pad(x, (0, 1)).softmax(-1)\n",
    "autotuning": (
        "@triton.autotune(configs=[triton.Config({'BLOCK': 64}, num_warps=4)], key=['n'], pre_hook=lambda n: 0)\n"
        "@triton.jit\ndef tuned_kernel(x_ptr, n, BLOCK: tl.constexpr):\n    tl.store(x_ptr, 0)\n"
    ),
    "a cache of compiled kernels": (
        "_compiled = {}\n\n\ndef compiled(x, key):\n    global _last\n    if key not in _compiled:\n"
        "        _compiled[key] = torch.compile(lambda x: x)\n    _last = _compiled[key]\n    return _last(x)\n"
    ),
    "a custom operator": (
        "@torch.library.custom_op('package::scale', mutates_args=())\ndef scale_op(x: torch.Tensor) -> torch.Tensor:\n"
        "    return x.clone()\n\n\n@scale_op.register_fake\ndef _(x):\n    return torch.empty_like(x)\n"
    ),
    "an autograd function": (
        "class ScaleFunction(torch.autograd.Function):\n    @staticmethod\n"
        "    @torch.amp.custom_fwd(device_type='cuda')\n"
        "    def forward(ctx, x):\n        ctx.block, ctx.x = 128, x\n        return x\n\n    @staticmethod\n"
        "    def backward(ctx, dy):\n        if torch.equal(dy, torch.tensor(1.0, device=dy.device)):\n"
        "            return dy\n"
        "        return dy.mul_(ctx.x).clamp(0)\n"
    ),
    "a stream": "def apart(x):\n    with torch.cuda.stream(torch.cuda.Stream()):\n        x.record_stream(x)\n",
    "what a star brings": "from package.ops.utils import *\n\n\ndef rest(x):\n    return tidy(x)\n",
}
KERNEL = """

@triton.jit
def _styled_kernel(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 0)


def styled(x):
    _styled_kernel[(1,)](x, x.numel(), BLOCK=128, num_warps=4)
    return x
"""


@pytest.mark.parametrize("added", ADMITTED.values(), ids=ADMITTED.keys())
def test_what_an_engineer_writes_is_admitted(added: Added) -> None:
    assert added.reasons == ()


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES.keys())
def test_an_original_of_any_style_is_admitted_with_other_settings(style: str) -> None:
    original = "import torch\nimport triton\nimport triton.language as tl\n" + style + KERNEL
    assert admit(original, original) == ()
    assert admit(original, original.replace("num_warps=4", "num_warps=8").replace("BLOCK=128", "BLOCK=256")) == ()
    plain = "import torch\nimport triton\nimport triton.language as tl\n" + KERNEL
    what_only_it_does = [reason for reason in admit(plain, original) if "is a new public name" not in reason]
    assert what_only_it_does != []


@pytest.mark.parametrize("path", sorted(EXAMPLE.glob("rms_norm_v*.py")), ids=lambda path: path.stem)
def test_each_variant_of_the_committed_run_is_admitted(path: Path) -> None:
    original = (EXAMPLE / "original_rms_norm.py").read_text(encoding="utf-8")
    assert re.search(r"_v\d+$", path.stem)
    assert admit(original, path.read_text(encoding="utf-8")) == ()
