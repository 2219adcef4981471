"""Rotary position embedding as a target: how warpsmith.kernels.rope is called, checked, costed and compared.

Owns the cases and the baselines. Must not know how anything is measured. Loaded in workers only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.target import Inputs, Target
from warpsmith.kernels.rope import rope_reference

Outputs = tuple[Tensor, Tensor]
Sizes = tuple[int, int, int, int, int]


def _axes(sizes: Sizes) -> dict[str, int]:
    """Batch, query heads, key heads, tokens, head."""
    return dict(zip("BHKTN", sizes, strict=True))


def _tuning(*sizes: int) -> Case:
    return Case(axes=_axes(sizes), dtype=DType.BFLOAT16)  # type: ignore[arg-type]


def _held_out(*sizes: int, dtype: DType = DType.BFLOAT16, **options: bool | float | str) -> Case:
    return Case(axes=_axes(sizes), dtype=dtype, role=Role.HELD_OUT, options=options)  # type: ignore[arg-type]


#: Options: layout="bthd" (where none is named) takes query and key as transposed views of (B, T, heads, N), as models
#: do; "bhtd" as they are; "fused" from one (B, T, H + 2K, N), as one projection gives query, key and value. rotated:
#: values of a head that are rotated, all where it is not named. pairing is rope's own. tables="fp32" takes cos and
#: sin in fp32, "batched" a table for each of the batch; where it is not named, one table in the dtype of query.
CASES = (
    _tuning(1, 32, 8, 8192, 128),
    _tuning(4, 32, 8, 2048, 128),
    _tuning(2, 32, 32, 4096, 64),
    _tuning(2, 16, 8, 4096, 256),
    _tuning(4, 32, 32, 4096, 128),
    # between the tuned sizes
    _held_out(2, 64, 8, 4096, 128),
    _held_out(8, 16, 2, 2048, 64),
    _held_out(1, 40, 8, 6144, 128),
    # other dtypes
    _held_out(1, 32, 8, 8192, 128, dtype=DType.FLOAT16),
    _held_out(1, 32, 8, 4096, 128, dtype=DType.FLOAT32),
    _held_out(2, 6, 2, 127, 64, dtype=DType.FLOAT16),
    _held_out(2, 6, 2, 100, 64, dtype=DType.FLOAT32),
    # so few tokens that Triton's interpreter has them done in no time
    _held_out(2, 3, 2, 2, 16, dtype=DType.FLOAT32),
    # prime sizes, one token, few tokens, narrow and odd heads
    _held_out(3, 7, 5, 1021, 96),
    _held_out(64, 32, 8, 1, 128),
    _held_out(1, 128, 8, 127, 128),
    _held_out(4, 32, 32, 2048, 80, rotated=32),
    # other layouts and conventions
    _held_out(1, 32, 8, 8192, 128, layout="bhtd"),
    _held_out(1, 32, 8, 8192, 128, layout="fused"),
    _held_out(1, 32, 8, 8192, 128, pairing="interleaved"),
    _held_out(2, 16, 16, 2048, 256, pairing="interleaved", rotated=64),
    _held_out(4, 32, 8, 2048, 128, tables="fp32"),
    _held_out(4, 32, 8, 2048, 128, tables="batched"),
)


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    """query, (B, H, T, N), and key, (B, K, T, N), normal with deviation 1; cos and sin, (T, rotated / 2) or
    (B, T, rotated / 2), of uniform angles, so that no two rows of them are alike.
    """
    batch, query_heads, key_heads, tokens, head = case.axes.values()
    dtype = getattr(torch, case.dtype.value)
    layout, tables = case.options.get("layout", "bthd"), case.options.get("tables")

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, device=device, dtype=dtype, generator=generator)

    if layout == "bhtd":
        query, key = normal(batch, query_heads, tokens, head), normal(batch, key_heads, tokens, head)
    elif layout == "fused":
        fused = normal(batch, tokens, query_heads + 2 * key_heads, head).transpose(1, 2)
        query, key, _ = fused.split((query_heads, key_heads, key_heads), dim=1)
    else:
        query = normal(batch, tokens, query_heads, head).transpose(1, 2)
        key = normal(batch, tokens, key_heads, head).transpose(1, 2)
    shape = (batch, tokens, _pairs(case)) if tables == "batched" else (tokens, _pairs(case))
    angles = 2 * math.pi * torch.rand(shape, device=device, generator=generator)
    table_dtype = torch.float32 if tables == "fp32" else dtype
    return {
        "query": query,
        "key": key,
        "cos": angles.cos().to(table_dtype),
        "sin": angles.sin().to(table_dtype),
        "pairing": str(case.options.get("pairing", "half")),
    }


def call(module: ModuleType, inputs: Inputs) -> Outputs:
    """rope of the module that is handed in."""
    rotated: Outputs = module.rope(
        inputs["query"], inputs["key"], inputs["cos"], inputs["sin"], pairing=inputs["pairing"]
    )
    return rotated


def reference(inputs: Inputs) -> Outputs:
    """Rotary position embedding by plain torch, in float64 where the inputs are."""
    return rope_reference(inputs["query"], inputs["key"], inputs["cos"], inputs["sin"], inputs["pairing"])


def cost(case: Case, mode: Mode) -> Cost:
    """Each tensor crosses device memory once: query and key are read and written, cos and sin read.

    A pair costs 6 operations, a·cos - b·sin and b·cos + a·sin. Backward is the same of the gradients.
    """
    if mode is Mode.FULL:
        forward, backward = cost(case, Mode.FORWARD), cost(case, Mode.BACKWARD)
        return Cost(bytes_moved=forward.bytes_moved + backward.bytes_moved, flops=forward.flops + backward.flops)
    batch, query_heads, key_heads, tokens, head = case.axes.values()
    tables = case.options.get("tables")
    heads = batch * tokens * (query_heads + key_heads)
    table_rows = batch * tokens if tables == "batched" else tokens
    table_itemsize_bytes = 4 if tables == "fp32" else case.dtype.itemsize_bytes
    return Cost(
        bytes_moved=2 * heads * head * case.dtype.itemsize_bytes + 2 * table_rows * _pairs(case) * table_itemsize_bytes,
        flops=6 * heads * _pairs(case),
    )


def _pairs(case: Case) -> int:
    return int(case.options.get("rotated", case.axes["N"])) // 2


def _torch() -> Callable[[Inputs], Outputs]:
    """What a torch user has: x · cos + rotate(x) · sin on the tables of every angle twice, in the dtype of query.

    For half, apply_rotary_pos_emb of transformers' models/llama/modeling_llama.py; for interleaved, that of its
    models/gptj/modeling_gptj.py.
    """

    def rotate_half(x: Tensor) -> Tensor:
        a, b = x.chunk(2, dim=-1)
        return torch.cat((-b, a), dim=-1)

    def rotate_every_two(x: Tensor) -> Tensor:
        return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)

    def run(inputs: Inputs) -> Outputs:
        half = inputs["pairing"] == "half"
        rotate = rotate_half if half else rotate_every_two
        tables = (inputs[name].to(inputs["query"].dtype).unsqueeze(-3) for name in ("cos", "sin"))
        cos, sin = (torch.cat((t, t), dim=-1) if half else t.repeat_interleave(2, dim=-1) for t in tables)
        rotated = cos.shape[-1]

        def apply(x: Tensor) -> Tensor:
            turned = x[..., :rotated]
            turned = turned * cos + rotate(turned) * sin
            return turned if rotated == x.shape[-1] else torch.cat((turned, x[..., rotated:]), dim=-1)

        return apply(inputs["query"]), apply(inputs["key"])

    return run


def _torch_compile() -> Callable[[Inputs], Outputs]:
    """The reference's plain formula, compiled anew for every shape, as the kernel is.

    Every case is a recompilation. Past the limit torch would run the formula uncompiled, so the limit is raised,
    and fullgraph makes reaching it an error.
    """
    import torch._dynamo

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 4 * len(CASES))
    compiled = torch.compile(rope_reference, dynamic=False, fullgraph=True)

    def run(inputs: Inputs) -> Outputs:
        rotated: Outputs = compiled(inputs["query"], inputs["key"], inputs["cos"], inputs["sin"], inputs["pairing"])
        return rotated

    return run


def _liger_on_copies() -> Callable[[Inputs], Outputs]:
    """Liger-Kernel's op, which is in place and of half pairing.

    It would overwrite inputs that every contender reads, so that it gets copies, which are timed with it: its time is
    no bar for a kernel that is in place. Where query and key do not lie as (B, T, heads, N), it copies them itself.
    """
    from liger_kernel.ops.rope import LigerRopeFunction

    def run(inputs: Inputs) -> Outputs:
        if inputs["pairing"] != "half":
            raise NotImplementedError("liger_kernel.ops.rope has half pairing alone")
        query, key = (x.clone() if x.transpose(1, 2).is_contiguous() else x for x in (inputs["query"], inputs["key"]))
        cos, sin = inputs["cos"], inputs["sin"]
        position_ids, unsqueeze_dim, rotary_dim = None, 1, 2 * cos.shape[-1]
        rotated: Outputs = LigerRopeFunction.apply(query, key, cos, sin, position_ids, unsqueeze_dim, rotary_dim)
        return rotated

    return run


target = Target(
    name="rope",
    source="src/warpsmith/kernels/rope.py",
    module="warpsmith.kernels.rope",
    make_inputs=make_inputs,
    call=call,
    reference=reference,
    cost=cost,
    cases=CASES,
    differentiable=("query", "key"),
    providers={"torch": _torch, "torch_compile": _torch_compile, "liger_on_copies": _liger_on_copies},
    tests=("tests/kernels/test_rope.py",),
    plot_axis="N",
)
