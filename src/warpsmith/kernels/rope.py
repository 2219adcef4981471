"""Rotary position embedding: one Triton kernel for query and key, forward and backward, and the autograd function.

RoFormer, Su et al. 2021, https://arxiv.org/abs/2104.09864, equation 34. Of each head, the first R values are R/2 pairs
(a, b); pair i of token t is rotated by the angle θ of (t, i), and the other values pass through:

    a' = a · cos θ - b · sin θ
    b' = b · cos θ + a · sin θ

Which values are pair i is a convention:

    half:         (x[i], x[i + R/2])      Llama, GPT-NeoX; apply_rotary_pos_emb of transformers
    interleaved:  (x[2i], x[2i + 1])      the paper, GPT-J

Backward: a rotation is orthogonal, so that its transpose is its inverse. The gradient of (a, b) is the gradient of
(a', b') rotated by -θ: the same kernel, with sin θ negated.

Owns the kernel, how it is launched and the plain torch reference. Must not know the rest of warpsmith.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from warpsmith.kernels.arguments import (
    block_holding,
    cdiv,
    distinct,
    expect_choice,
    expect_floating,
    expect_one_device,
    expect_shape,
    runs_triton,
)
from warpsmith.kernels.first_order import first_order

PAIRINGS = ("half", "interleaved")

#: The widest head: a program holds at least one of query and one of key. Chosen.
MAX_HEAD = 4096

#: Pairs that a program holds, of query and key together. Measured on an H200, November 2026, as the warps for them.
_PAIRS_PER_PROGRAM = 2048


@triton.jit
def _load_pairs(rows, mask, n_pairs, PAIR_BLOCK: tl.constexpr, INTERLEAVED: tl.constexpr):
    """Both values of every pair, fp32: two of (heads, PAIR_BLOCK). rows, (heads, 1), points at their heads."""
    if INTERLEAVED:
        cols = tl.arange(0, 2 * PAIR_BLOCK)[None, :]
        pairs = tl.load(rows + cols, mask=mask & (cols < 2 * n_pairs))
        a, b = tl.split(tl.reshape(pairs, (rows.shape[0], PAIR_BLOCK, 2)))
    else:
        cols = tl.arange(0, PAIR_BLOCK)[None, :]
        a = tl.load(rows + cols, mask=mask & (cols < n_pairs))
        b = tl.load(rows + n_pairs + cols, mask=mask & (cols < n_pairs))
    return a.to(tl.float32), b.to(tl.float32)


@triton.jit
def _store_pairs(rows, mask, a, b, n_pairs, PAIR_BLOCK: tl.constexpr, INTERLEAVED: tl.constexpr):
    """Stores what _load_pairs loads, in the dtype that rows points at."""
    a, b = a.to(rows.dtype.element_ty), b.to(rows.dtype.element_ty)
    if INTERLEAVED:
        cols = tl.arange(0, 2 * PAIR_BLOCK)[None, :]
        tl.store(rows + cols, tl.interleave(a, b), mask=mask & (cols < 2 * n_pairs))
    else:
        cols = tl.arange(0, PAIR_BLOCK)[None, :]
        tl.store(rows + cols, a, mask=mask & (cols < n_pairs))
        tl.store(rows + n_pairs + cols, b, mask=mask & (cols < n_pairs))


@triton.jit
def _rope_forward_kernel(
    query_ptr,  # (batch, query_heads, tokens, head), inner stride 1, or None
    query_batch_stride, query_head_stride, query_token_stride,
    query_out_ptr,  # of the shape and dtype of query, inner stride 1, or None
    query_out_batch_stride, query_out_head_stride, query_out_token_stride,
    key_ptr,  # (batch, key_heads, tokens, head), inner stride 1, or None
    key_batch_stride, key_head_stride, key_token_stride,
    key_out_ptr,  # of the shape and dtype of key, inner stride 1, or None
    key_out_batch_stride, key_out_head_stride, key_out_token_stride,
    cos_ptr,  # (batch, tokens, n_pairs), inner stride 1
    cos_batch_stride, cos_token_stride,
    sin_ptr,  # (batch, tokens, n_pairs), inner stride 1
    sin_batch_stride, sin_token_stride,
    query_heads,
    key_heads,
    tokens,
    head,
    n_pairs,  # pairs of a head; 2 · n_pairs <= head
    INTERLEAVED: tl.constexpr,
    INVERSE: tl.constexpr,  # rotate by -θ, as the pass backward does
    PARTS: tl.constexpr,  # programs that share the heads of a token
    QUERY_BLOCK: tl.constexpr,  # query heads of a program, a power of 2
    KEY_BLOCK: tl.constexpr,  # key heads of a program, a power of 2
    PAIR_BLOCK: tl.constexpr,  # n_pairs, up to a power of 2
    REST_BLOCK: tl.constexpr,  # head - 2 · n_pairs, up to a power of 2, or 0
):  # fmt: skip
    """One program rotates heads of query and key of one token, by cos and sin that it loads once.

    Everything is loaded before anything is stored, so that no load waits for a store.
    """
    program = tl.program_id(0)
    part, row = program % PARTS, program // PARTS
    batch, token = (row // tokens).to(tl.int64), (row % tokens).to(tl.int64)
    pairs = tl.arange(0, PAIR_BLOCK)
    if REST_BLOCK > 0:
        rest_cols = 2 * n_pairs + tl.arange(0, REST_BLOCK)[None, :]

    cos_row = cos_ptr + batch * cos_batch_stride + token * cos_token_stride
    sin_row = sin_ptr + batch * sin_batch_stride + token * sin_token_stride
    cos = tl.load(cos_row + pairs, mask=pairs < n_pairs).to(tl.float32)[None, :]
    sin = tl.load(sin_row + pairs, mask=pairs < n_pairs).to(tl.float32)[None, :]
    if INVERSE:
        sin = -sin

    if query_ptr is not None:
        heads = (part * QUERY_BLOCK + tl.arange(0, QUERY_BLOCK)).to(tl.int64)[:, None]
        query_mask = heads < query_heads
        query = query_ptr + batch * query_batch_stride + token * query_token_stride + heads * query_head_stride
        query_out = query_out_ptr + batch * query_out_batch_stride + token * query_out_token_stride
        query_out += heads * query_out_head_stride
        query_a, query_b = _load_pairs(query, query_mask, n_pairs, PAIR_BLOCK, INTERLEAVED)
        if REST_BLOCK > 0:
            query_rest = tl.load(query + rest_cols, mask=query_mask & (rest_cols < head))
    if key_ptr is not None:
        heads = (part * KEY_BLOCK + tl.arange(0, KEY_BLOCK)).to(tl.int64)[:, None]
        key_mask = heads < key_heads
        key = key_ptr + batch * key_batch_stride + token * key_token_stride + heads * key_head_stride
        key_out = key_out_ptr + batch * key_out_batch_stride + token * key_out_token_stride
        key_out += heads * key_out_head_stride
        key_a, key_b = _load_pairs(key, key_mask, n_pairs, PAIR_BLOCK, INTERLEAVED)
        if REST_BLOCK > 0:
            key_rest = tl.load(key + rest_cols, mask=key_mask & (rest_cols < head))

    if query_ptr is not None:
        a, b = query_a * cos - query_b * sin, query_b * cos + query_a * sin
        _store_pairs(query_out, query_mask, a, b, n_pairs, PAIR_BLOCK, INTERLEAVED)
        if REST_BLOCK > 0:
            tl.store(query_out + rest_cols, query_rest, mask=query_mask & (rest_cols < head))
    if key_ptr is not None:
        a, b = key_a * cos - key_b * sin, key_b * cos + key_a * sin
        _store_pairs(key_out, key_mask, a, b, n_pairs, PAIR_BLOCK, INTERLEAVED)
        if REST_BLOCK > 0:
            tl.store(key_out + rest_cols, key_rest, mask=key_mask & (rest_cols < head))


class _Operand(NamedTuple):
    """What is rotated and where the result goes, both (batch, heads, tokens, head), of one dtype, inner stride 1."""

    x: Tensor
    strides: tuple[int, ...]
    out: Tensor
    out_strides: tuple[int, ...]

    @property
    def arguments(self) -> tuple[Tensor | int, ...]:
        """As the kernel takes them."""
        return (self.x, *self.strides[:3], self.out, *self.out_strides[:3])


_NO_OPERAND = (None, 0, 0, 0, None, 0, 0, 0)


def rope_forward(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, pairing: str) -> tuple[Tensor, Tensor]:
    """Query and key rotated, laid out as they are; cos and sin are (1 or batch, tokens, pairs), inner stride 1."""
    query_operand, key_operand = _operand(query), _operand(key)
    _launch(query_operand, key_operand, cos, sin, interleaved=pairing == "interleaved", inverse=False)
    return query_operand.out, key_operand.out


def rope_backward(
    gradients: tuple[Tensor | None, Tensor | None],
    orders: tuple[tuple[int, ...], tuple[int, ...]],
    cos: Tensor,
    sin: Tensor,
    pairing: str,
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of query and key from those of what rope_forward returned, whose orders of dimensions are given.

    They are dense, in those orders. One that is None is None again, and costs nothing.
    """
    query, key = map(_operand_of_gradient, gradients, orders)
    _launch(query, key, cos, sin, interleaved=pairing == "interleaved", inverse=True)
    return None if query is None else query.out, None if key is None else key.out


def _launch(
    query: _Operand | None,
    key: _Operand | None,
    cos: Tensor,
    sin: Tensor,
    *,
    interleaved: bool,
    inverse: bool,
) -> None:
    """One launch for what is there of query and key; none where that is empty."""
    query = None if query is None or query.x.numel() == 0 else query
    key = None if key is None or key.x.numel() == 0 else key
    given = query if query is not None else key
    if given is None:
        return
    batch, _, tokens, head = given.x.shape
    n_pairs = cos.shape[-1]
    query_heads = 0 if query is None else query.x.shape[1]
    key_heads = 0 if key is None else key.x.shape[1]
    parts, query_block, key_block, num_warps = _launch_settings(query_heads, key_heads, head)

    _rope_forward_kernel[(batch * tokens * parts,)](
        *(_NO_OPERAND if query is None else query.arguments),
        *(_NO_OPERAND if key is None else key.arguments),
        cos,
        *_table_strides(cos),
        sin,
        *_table_strides(sin),
        query_heads,
        key_heads,
        tokens,
        head,
        n_pairs,
        INTERLEAVED=interleaved,
        INVERSE=inverse,
        PARTS=parts,
        QUERY_BLOCK=query_block,
        KEY_BLOCK=key_block,
        PAIR_BLOCK=block_holding(n_pairs),
        REST_BLOCK=block_holding(head - 2 * n_pairs) if head > 2 * n_pairs else 0,
        num_warps=num_warps,
    )


def _launch_settings(query_heads: int, key_heads: int, head: int) -> tuple[int, int, int, int]:
    """(PARTS, QUERY_BLOCK, KEY_BLOCK, num_warps): one program a token, or several where it has many heads."""
    pairs = block_holding(head) // 2
    blocks = block_holding(query_heads) + block_holding(key_heads)
    parts = min(block_holding(cdiv(blocks * pairs, _PAIRS_PER_PROGRAM)), block_holding(max(query_heads, key_heads)))
    query_block = block_holding(cdiv(query_heads, parts))
    key_block = block_holding(cdiv(key_heads, parts))
    # parts times a block is at least the heads: none is left out, and a mask keeps the rest.
    held = cdiv(blocks, parts) * pairs
    num_warps = 1
    if held >= 2048:
        num_warps = 8
    elif held >= 1024:
        num_warps = 4
    elif held >= 512:
        num_warps = 2
    return parts, query_block, key_block, num_warps


def _with_inner_stride_1(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _operand(x: Tensor) -> _Operand:
    """x, and memory of its strides where it is dense, else of its order of dimensions, the head innermost."""
    x = _with_inner_stride_1(x)
    out = torch.empty_like(x)
    if out.stride(-1) != 1:
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
    return _Operand(x, x.stride(), out, out.stride())


def _order(tensor: Tensor) -> tuple[int, ...]:
    """Its dimensions, outermost in memory first: (0, 2, 1, 3) of (batch, heads, tokens, head) kept by tokens.

    By comparisons, which torch.compile can guard of symbolic strides.
    """
    strides = tensor.stride()
    places = [sum(1 for e in range(4) if (-strides[e], e) < (-strides[d], d)) for d in range(4)]
    return tuple(places.index(place) for place in range(4))


def _operand_of_gradient(gradient: Tensor | None, order: tuple[int, ...]) -> _Operand | None:
    """The gradient of an output whose dimensions are in that order, to be rotated into memory of the same order."""
    if gradient is None:
        return None
    # Dense in that order: each dimension steps over the whole of the next inner one.
    strides = [1, 1, 1, 1]
    for outer, inner in zip(order[-2::-1], order[:0:-1], strict=True):
        strides[outer] = strides[inner] * gradient.shape[inner]
    out = gradient.new_empty_strided(gradient.shape, strides)
    if not torch.compiler.is_compiling():
        gradient = _with_inner_stride_1(gradient)
        return _Operand(gradient, gradient.stride(), out, tuple(strides))
    # Dynamo copies gradients to be contiguous once any tensor of a pass backward is asked for its strides. Here it is
    # brought into the order of the output instead, which it mostly has: then nothing is copied.
    back = [order.index(dimension) for dimension in range(4)]
    gradient = gradient.permute(order).contiguous().permute(back)
    return _Operand(gradient, tuple(strides), out, tuple(strides))


def _table(table: Tensor) -> Tensor:
    """(1 or batch, tokens, pairs), inner stride 1; contiguous under torch.compile, which can write it so at once."""
    table = table if table.ndim == 3 else table[None]
    return table.contiguous() if torch.compiler.is_compiling() else _with_inner_stride_1(table)


def _table_strides(table: Tensor) -> tuple[int, int]:
    """By batch and by token, of (1 or batch, tokens, pairs). Not asked for where torch.compile has it contiguous."""
    _, tokens, pairs = table.shape
    by_batch, by_token = (tokens * pairs, pairs) if torch.compiler.is_compiling() else table.stride()[:2]
    return 0 if table.shape[0] == 1 else by_batch, by_token


class RopeFunction(torch.autograd.Function):
    """Rotary position embedding on a GPU. Gradients of query and key; of the first order only."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, pairing: str) -> tuple[Tensor, Tensor]:
        query_out, key_out = rope_forward(query, key, cos, sin, pairing)
        ctx.save_for_backward(cos, sin)
        ctx.pairing = pairing
        # Not strides: symbolic numbers that a pass backward needs are more than Dynamo of torch 2.11 can keep.
        ctx.orders = _order(query_out), _order(key_out)
        ctx.set_materialize_grads(False)
        needs_query, needs_key = ctx.needs_input_grad[:2]
        if not needs_query:
            ctx.mark_non_differentiable(query_out)
        elif not needs_key:
            ctx.mark_non_differentiable(key_out)
        return query_out, key_out

    @staticmethod
    @first_order
    def backward(
        ctx: Any, dquery_out: Tensor | None, dkey_out: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        cos, sin = ctx.saved_tensors
        needs_query, needs_key = ctx.needs_input_grad[:2]
        wanted = dquery_out if needs_query else None, dkey_out if needs_key else None
        dquery, dkey = rope_backward(wanted, ctx.orders, cos, sin, ctx.pairing)
        return dquery, dkey, None, None, None


def rope(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, *, pairing: str = "half") -> tuple[Tensor, Tensor]:
    """Rotate the first 2 · pairs values of every head of query and key; the others pass through.

    The results are new tensors of the shapes and dtypes of query and key, under torch.autocast too, computed in fp32
    and rounded once. They are dense and laid out as their input is: of a transposed view of (batch, tokens, heads,
    head), as models pass, the result transposes back for free. CPU tensors, on which Triton cannot run, are computed
    by rope_reference.

    Tables of transformers hold every angle twice, (..., R) of R/2 pairs: take cos[..., : R // 2] and
    sin[..., : R // 2], which is a view that costs nothing. R is head unless only a part of it is rotated.

    Args:
        query: (batch, query heads, tokens, head), fp32, fp16 or bf16. On a GPU, the current one.
        key: (batch, key heads, tokens, head), of the dtype of query. Any strides; one other than 1 of the last
            dimension, of query or key, costs a copy.
        cos: (tokens, pairs), (1, tokens, pairs) or (batch, tokens, pairs), fp32 or of the dtype of query;
            2 · pairs <= head.
        sin: as cos. Both are constants, which have no gradients.
        pairing: "half" pairs value i of a head with value i + pairs, as Llama does; "interleaved" 2i with 2i + 1.

    Raises:
        TypeError: for another dtype.
        ValueError: for another shape, pairing or device, for a head above 4096 on a GPU, or where cos or sin require
            a gradient.
    """
    _check_arguments(query, key, cos, sin, pairing)
    if not runs_triton("rope", query):
        return rope_reference(query, key, cos, sin, pairing)
    if query.shape[-1] > MAX_HEAD:
        raise ValueError(f"rope: a head has {query.shape[-1]} values; at most {MAX_HEAD} are supported")
    cos, sin = _table(cos), _table(sin)
    rotated: tuple[Tensor, Tensor] = RopeFunction.apply(query, distinct(key, query), cos, sin, pairing)
    return rotated


def rope_reference(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, pairing: str) -> tuple[Tensor, Tensor]:
    """Rotary position embedding by plain, differentiable torch. Computes in fp32, in float64 where query is float64."""
    return _rotated(query, cos, sin, pairing), _rotated(key, cos, sin, pairing)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor, pairing: str) -> Tensor:
    compute_dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    cos, sin = (table.to(compute_dtype).unsqueeze(-3) for table in (cos, sin))  # the same for every head
    turned, rest = x.tensor_split((2 * cos.shape[-1],), dim=-1)
    turned = turned.to(compute_dtype)
    a, b = turned.chunk(2, dim=-1) if pairing == "half" else (turned[..., 0::2], turned[..., 1::2])
    a, b = a * cos - b * sin, b * cos + a * sin
    turned = torch.cat((a, b), dim=-1) if pairing == "half" else torch.stack((a, b), dim=-1).flatten(-2)
    return torch.cat((turned.to(x.dtype), rest), dim=-1)


def _check_arguments(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, pairing: str) -> None:
    expect_choice("rope", "pairing", pairing, PAIRINGS)
    expect_floating("rope", query=query, key=key, cos=cos, sin=sin)
    expect_one_device("rope", query=query, key=key, cos=cos, sin=sin)
    for name, x in (("query", query), ("key", key)):
        if x.ndim != 4:
            raise ValueError(f"rope: {name} must be (batch, heads, tokens, head), found shape {tuple(x.shape)}")
    batch, _, tokens, head = query.shape
    expect_shape("rope", "key", key, (batch, key.shape[1], tokens, head))
    if key.dtype != query.dtype:
        raise TypeError(f"rope: key must be {query.dtype} as query is, found {key.dtype}")
    if cos.ndim not in (2, 3) or cos.shape[-2] != tokens or (cos.ndim == 3 and cos.shape[0] not in (1, batch)):
        expected = f"({tokens}, pairs) or ({batch}, {tokens}, pairs)"
        raise ValueError(f"rope: cos must have shape {expected}, found {tuple(cos.shape)}")
    if not 1 <= cos.shape[-1] <= head // 2:
        found = f"found {cos.shape[-1]} of a head of {head}; of a table that holds every angle twice, take one half"
        raise ValueError(f"rope: cos must have 1 to head / 2 columns, one a pair, {found}")
    expect_shape("rope", "sin", sin, tuple(cos.shape))
    for name, table in (("cos", cos), ("sin", sin)):
        if table.dtype not in (torch.float32, query.dtype):
            raise TypeError(f"rope: {name} must be float32 or as query is, {query.dtype}, found {table.dtype}")
        if table.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"rope: {name} has no gradient here, but requires one; pass {name}.detach()")
