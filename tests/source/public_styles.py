"""Ten public styles of kernel source, one short file in each: how names, launches, layouts and comments look there.

The words are ours. Where another module has such a source already it is taken from there.
"""

from __future__ import annotations

from source.hoisting_styles import CAPITALS, GENERATED
from source.row_kernels import CENTRED
from source.tiled_kernels import TWO_AXES

_HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n"

#: Capital names, sums of each program in a buffer that is zeroed, an autograd function around it.
LIGER = (
    CAPITALS.replace("dw = torch.empty(", "dw = torch.zeros(").replace("(3,)](", "(sm_count,)](").replace(
        "    n_rows, n_cols = x.shape\n",
        "    n_rows, n_cols = x.shape\n    sm_count = 3\n"
        "    BLOCK_SIZE, num_warps = triton.next_power_of_2(n_cols), 4\n    if BLOCK_SIZE >= 8192:\n"
        "        num_warps = 16\n",
    ).replace("BLOCK_SIZE=triton.next_power_of_2(n_cols)\n", "BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps\n")
)  # fmt: skip

#: Decorators of the library's own around `jit`, a debug line, a device guard, and a softmax over inner blocks.
FLAG_GEMS = """\
import logging

import torch
import triton
import triton.language as tl

from flag_gems import runtime
from flag_gems.runtime import torch_device_fn
from flag_gems.utils import libentry

logger = logging.getLogger(__name__)


@libentry()
@triton.heuristics(runtime.get_heuristic_config("softmax_inner"))
@triton.jit
def softmax_kernel_inner(
    output_ptr,
    input_ptr,
    M,
    N,
    TILE_N: tl.constexpr,
):
    pid_m = tl.program_id(0)
    m = tl.full([TILE_N], value=float("-inf"), dtype=tl.float32)
    z = tl.full([TILE_N], value=0.0, dtype=tl.float32)
    input_ptr += pid_m * N
    output_ptr += pid_m * N
    for start_n in range(0, N, TILE_N):
        n_offsets = start_n + tl.arange(0, TILE_N)
        inp = tl.load(input_ptr + n_offsets, mask=n_offsets < N, other=-float("inf")).to(tl.float32)
        m_new = tl.maximum(m, inp)
        z = z * tl.exp(m - m_new) + tl.exp(inp - m_new)
        m = m_new
    m_reduced = tl.max(m, 0)
    z = tl.sum(z * tl.exp(m - m_reduced), 0)
    # the last blocks are still in cache
    for start_n in range(0, N, TILE_N):
        n_offsets = start_n + tl.arange(0, TILE_N)
        inp = tl.load(input_ptr + n_offsets, mask=n_offsets < N, other=-float("inf"), eviction_policy="evict_first")
        o = tl.exp(inp.to(tl.float32) - m_reduced) / z
        tl.store(output_ptr + n_offsets, o, mask=n_offsets < N)


def softmax(self, dim=-1):
    logger.debug("GEMS SOFTMAX")
    M = self.numel() // self.shape[dim]
    out = torch.empty_like(self)
    grid = lambda meta: (M,)
    with torch_device_fn.device(self.device):
        softmax_kernel_inner[grid](out, self, M, self.shape[dim], num_warps=8)
    return out
"""

#: Two axes of a grid and pointers that walk along K, operands made fp32 for the product.
VLLM = TWO_AXES.replace("acc = tl.dot(a, b, acc)", "acc = tl.dot(a.to(tl.float32), b.to(tl.float32), acc)")

#: Short names, a helper for the settings, one program a row.
UNSLOTH = CENTRED

#: Heuristics over a tuner, single quotes, block pointers, short names that begin with `p_` and `b_`.
FLASH_LINEAR_ATTENTION = f"""{_HEAD}@triton.heuristics({{
    'USE_G': lambda args: args['g'] is not None
}})
@triton.autotune(
    configs=[
        triton.Config({{'BK': BK}}, num_warps=num_warps)
        for BK in [32, 64]
        for num_warps in [2, 4]
    ],
    key=['K', 'BT'],
)
@triton.jit(do_not_specialize=['T'])
def chunk_fwd_kernel_o(
    q,
    k,
    g,
    o,
    T,
    K: tl.constexpr,
    BT: tl.constexpr,
    BK: tl.constexpr,
    USE_G: tl.constexpr
):
    i_t, i_bh = tl.program_id(0), tl.program_id(1)
    b_o = tl.zeros([BT, BT], dtype=tl.float32)
    for i_k in range(tl.cdiv(K, BK)):
        p_q = tl.make_block_ptr(q + i_bh * T*K, (T, K), (K, 1), (i_t * BT, i_k * BK), (BT, BK), (1, 0))
        p_k = tl.make_block_ptr(k + i_bh * T*K, (K, T), (1, K), (i_k * BK, i_t * BT), (BK, BT), (0, 1))
        # [BT, BK] and [BK, BT]
        b_q = tl.load(p_q, boundary_check=(0, 1)).to(tl.float32)
        b_k = tl.load(p_k, boundary_check=(0, 1)).to(tl.float32)
        b_o += tl.dot(b_q, b_k)
    if USE_G:
        p_g = tl.make_block_ptr(g + i_bh * T, (T,), (1,), (i_t * BT,), (BT,), (0,))
        b_g = tl.load(p_g, boundary_check=(0,))
        b_o *= tl.exp(b_g[:, None] - b_g[None, :])
    p_o = tl.make_block_ptr(o + i_bh * T*BT, (T, BT), (BT, 1), (i_t * BT, 0), (BT, BT), (1, 0))
    tl.store(p_o, b_o.to(p_o.dtype.element_ty), boundary_check=(0, 1))


def chunk_fwd_o(q, k, g=None, chunk_size: int = 64):
    B, T, H, K, BT = *q.shape, chunk_size
    o = torch.empty(B, H, T, BT, dtype=q.dtype, device=q.device)
    chunk_fwd_kernel_o[(triton.cdiv(T, BT), B * H)](q, k, g, o, T=T, K=K, BT=BT)
    return o
"""

#: Formatting switched off around signature and launch, types in the host, several rows a program.
XFORMERS = f"""{_HEAD}# fmt: off
@triton.jit
def k_dropout_scale(
    X, Y, SCALES, SEEDS,
    stride,
    M, N,
    p: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SIZE_RAND_BLOCK: tl.constexpr,
):
    # fmt: on
    \"\"\"
    Scales rows and drops what is below p.
    \"\"\"
    row_id = tl.program_id(axis=0)
    row = row_id * SIZE_RAND_BLOCK
    cols = tl.arange(0, BLOCK_N)
    scales = tl.load(SCALES + cols, mask=cols < N, other=0.)

    for m in range(row, min(row + SIZE_RAND_BLOCK, M)):
        x_ptrs = X + m * stride + cols[None, :]
        x = tl.load(x_ptrs, mask=cols[None, :] < N, other=0.)
        seed = tl.load(SEEDS + 0)  # one for all
        y = tl.where(tl.rand(seed, cols)[None, :] > p, x * scales[None, :], 0.)
        tl.store(Y + m * stride + cols[None, :], y, mask=cols[None, :] < N)


def dropout_scale(x: torch.Tensor, scales: torch.Tensor, seeds: torch.Tensor, p: float = 0.5) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)

    def grid(meta):
        return (triton.cdiv(M, meta["SIZE_RAND_BLOCK"]),)

    k_dropout_scale[grid](
        x, y, scales, seeds,
        x.stride(0),
        M, N,
        p,
        BLOCK_N=triton.next_power_of_2(N),
        SIZE_RAND_BLOCK=16,
        num_warps=4,
    )  # fmt: skip
    return y
"""

#: Strides for everything, in sections of comments, and rows that a map sends elsewhere.
TRANSFORMER_ENGINE = f"""{_HEAD}@triton.jit
def _permute_kernel(
    # pointers
    input_ptr,
    row_id_map_ptr,
    output_ptr,
    # sizes
    hidden_size,
    # strides
    stride_input_token,
    stride_output_token,
    # metas
    BLOCK_SIZE: tl.constexpr,
):
    pid_t = tl.program_id(0)
    pid_h = tl.program_id(1)
    cur_off = pid_h * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = cur_off < hidden_size
    dst_row = tl.load(row_id_map_ptr + pid_t).to(tl.int64)
    inp = tl.load(input_ptr + pid_t * stride_input_token + cur_off, mask=mask)
    tl.store(output_ptr + dst_row * stride_output_token + cur_off, inp, mask=mask)


try:
    _permute_kernel = triton.autotune(
        configs=[triton.Config({{"BLOCK_SIZE": 64}}), triton.Config({{"BLOCK_SIZE": 128}})],
        key=["hidden_size"],
    )(_permute_kernel)
except RuntimeError:
    pass


def permute_with_mask_map(inp: torch.Tensor, row_id_map: torch.Tensor, num_tokens: int, hidden_size: int):
    output = torch.empty((num_tokens, hidden_size), dtype=inp.dtype, device="cuda")
    # pylint: disable=unnecessary-lambda-assignment
    grid = lambda META: (num_tokens, triton.cdiv(hidden_size, META["BLOCK_SIZE"]))
    _permute_kernel[grid](inp, row_id_map, output, hidden_size, inp.stride(0), output.stride(0))
    return output
"""

#: Generated: numbered names and everything in brackets.
INDUCTOR = GENERATED

#: As Triton's tutorials: descriptors, programs that stay, tiles in groups, and what is printed at the end.
TUTORIAL = f'''{_HEAD}@triton.jit
def _compute_pid(tile_id, num_pid_in_group, num_pid_m, GROUP_SIZE_M):
    group_id = tile_id // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    return first_pid_m + (tile_id % group_size_m), (tile_id % num_pid_in_group) // group_size_m


@triton.jit
def matmul_kernel_descriptor_persistent(a_ptr, b_ptr, c_ptr,  #
                                        M, N, K,  #
                                        BLOCK_SIZE_M: tl.constexpr,  #
                                        BLOCK_SIZE_K: tl.constexpr,  #
                                        GROUP_SIZE_M: tl.constexpr,  #
                                        NUM_SMS: tl.constexpr):  #
    """C = A @ B.T"""
    start_pid = tl.program_id(axis=0)
    num_pid_m, num_pid_n = tl.cdiv(M, BLOCK_SIZE_M), tl.cdiv(N, BLOCK_SIZE_M)
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_SIZE_M, BLOCK_SIZE_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BLOCK_SIZE_M, BLOCK_SIZE_K])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_SIZE_M, BLOCK_SIZE_M])
    for tile_id in range(start_pid, num_pid_m * num_pid_n, NUM_SMS):
        pid_m, pid_n = _compute_pid(tile_id, GROUP_SIZE_M * num_pid_n, num_pid_m, GROUP_SIZE_M)
        accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_M), dtype=tl.float32)
        for ki in range(tl.cdiv(K, BLOCK_SIZE_K)):
            a = a_desc.load([pid_m * BLOCK_SIZE_M, ki * BLOCK_SIZE_K])
            b = b_desc.load([pid_n * BLOCK_SIZE_M, ki * BLOCK_SIZE_K])
            accumulator = tl.dot(a, b.T, accumulator)
        c_desc.store([pid_m * BLOCK_SIZE_M, pid_n * BLOCK_SIZE_M], accumulator.to(tl.float16))


def matmul(a, b):
    M, K = a.shape; N = b.shape[0]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    NUM_SMS = torch.cuda.get_device_properties("cuda").multi_processor_count
    matmul_kernel_descriptor_persistent[(NUM_SMS,)](
        a, b, c,  #
        M, N, K,  #
        BLOCK_SIZE_M=128, BLOCK_SIZE_K=64, GROUP_SIZE_M=8, NUM_SMS=NUM_SMS,  #
        num_stages=3, num_warps=8,  #
    )
    return c


if __name__ == "__main__":
    print(matmul(*torch.randn(2, 512, 512, device="cuda", dtype=torch.float16)))
'''

#: Written in a hurry, without a formatter: `from triton import language`, brackets around all, several things a line.
IN_HOUSE = """\
# -*- coding: utf-8 -*-
import torch, triton
from triton import language as tl
from dataclasses import dataclass

@dataclass
class Cfg:
    block:int=1024;  warps : int = 4

@triton.jit
def gelu_gate( x_p , g_p , o_p , n , eps , BLOCK : tl.constexpr ) :
    # größer als nötig
    i = (tl.program_id(0)*BLOCK)+tl.arange(0,BLOCK); m = (i<n)
    x = tl.load((x_p+i),mask=m,other=0.0).to(tl.float32)   # in
    g = (tl.load( g_p + i, m ))
    r = 1.0/tl.sqrt( (x*x)+eps )
    y = (x*r)*(1.0/(1.0+tl.exp(-x)))
    tl.store( o_p+i , \\
        (y*g) , m )

def gate(x,g,cfg=Cfg()) :
    o=torch.empty_like( x )
    n=x.numel();
    gelu_gate[( triton.cdiv(n,1024) ,)](x,g,o,n,1e-6,1024,num_warps = 4)
    return(o)
"""

STYLES: dict[str, str] = {
    "liger": LIGER,
    "flag_gems": FLAG_GEMS,
    "vllm": VLLM,
    "unsloth": UNSLOTH,
    "flash_linear_attention": FLASH_LINEAR_ATTENTION,
    "xformers": XFORMERS,
    "transformer_engine": TRANSFORMER_ENGINE,
    "inductor": INDUCTOR,
    "tutorial": TUTORIAL,
    "in_house": IN_HOUSE,
}
