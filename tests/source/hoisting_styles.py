"""Kernels with a load that never changes in a loop, as public libraries write them, each with the lines that change.

`host(x, w)` calls one: x is (rows, columns), w is (columns,), both fp32.
"""

from __future__ import annotations

HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n"

#: A row loop with capital names, and a comment that belongs to the load.
CAPITALS = f"""{HEAD}@triton.jit
def _scale_backward_kernel(
    X_ptr,
    X_row_stride,
    W_ptr,
    DX_ptr,
    DW_ptr,
    n_rows,
    n_cols,
    rows_per_program,
    BLOCK_SIZE: tl.constexpr,
):
    \"\"\"dx = x w, dw = sum of x.\"\"\"
    pid = tl.program_id(0)
    row_start = pid * rows_per_program
    row_end = min((pid + 1) * rows_per_program, n_rows)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    dW_row = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)

    for row in range(row_start, row_end):
        X_row = tl.load(X_ptr + row * X_row_stride + col_offsets, mask=col_offsets < n_cols, other=0.0)

        # the weight, in fp32
        W_row = tl.load(W_ptr + col_offsets, mask=col_offsets < n_cols, other=0.0).to(tl.float32)  # (n_cols,)
        tl.store(DX_ptr + row * X_row_stride + col_offsets, X_row * W_row, mask=col_offsets < n_cols)
        dW_row += X_row

    tl.store(DW_ptr + pid * n_cols + col_offsets, dW_row, mask=col_offsets < n_cols)


def host(x, w):
    n_rows, n_cols = x.shape
    dx = torch.empty_like(x)
    dw = torch.empty((3, n_cols), dtype=torch.float32, device=x.device)
    _scale_backward_kernel[(3,)](
        x, x.stride(0), w, dx, dw, n_rows, n_cols, triton.cdiv(n_rows, 3), BLOCK_SIZE=triton.next_power_of_2(n_cols)
    )
    return dx, dw
"""

#: A row in chunks of columns, and a scalar of the row loaded in each of them; saved tensors of an autograd function.
CHUNKS = f"""{HEAD}@triton.jit
def chunk_bwd_kernel(dy, x, rstd, dx, D: tl.constexpr, BD: tl.constexpr):
    i_n = tl.program_id(0).to(tl.int64)
    for i_d in range(tl.cdiv(D, BD)):
        o_d = i_d * BD + tl.arange(0, BD)
        m_d = o_d < D
        p_rstd = rstd + i_n
        b_dy = tl.load(dy + i_n * D + o_d, mask=m_d, other=0.)
        b_rstd = tl.load(p_rstd)
        tl.store(dx + i_n * D + o_d, b_dy * b_rstd, mask=m_d)


class Scale(torch.autograd.Function):
    @staticmethod
    def backward(ctx, dy):
        x, rstd = ctx.saved_tensors
        dx = torch.empty_like(x)
        chunk_bwd_kernel[(x.shape[0],)](dy, x, rstd, dx, D=x.shape[1], BD=32)
        return dx, None


def host(x, w):
    class ctx:
        saved_tensors = (x, w)

    return Scale.backward(ctx, x + 1)
"""

#: A `while` that walks over rows, and a load in the midst of an expression.
WHILE = f"""{HEAD}@triton.jit
def _walk(x_ptr, scale_ptr, out_ptr, stride, n_rows, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    while row < n_rows:
        total += tl.load(x_ptr + row * stride + offs, mask=offs < n_cols, other=0.0) * tl.load(
            scale_ptr + 1,
            eviction_policy="evict_last",
        ).to(tl.float32)
        row += tl.num_programs(0)
    tl.store(out_ptr + tl.program_id(0) * n_cols + offs, total, mask=offs < n_cols)


def host(x, w):
    out = torch.empty((2, x.shape[1]), dtype=torch.float32, device=x.device)
    _walk[(2,)](x, w, out, x.stride(0), x.shape[0], x.shape[1], BLOCK=128)
    return (out,)
"""

#: Two loops inside one another, generated names, and a step between the address and the load.
GENERATED = f"""{HEAD}@triton.jit
def triton_red_fused_mul_0(in_ptr0, in_ptr1, out_ptr0, xnumel, rnumel, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    for x0 in range(xoffset, min(xoffset + XBLOCK, xnumel)):
        for roffset in range(0, rnumel, RBLOCK):
            rindex = roffset + tl.arange(0, RBLOCK)
            rmask = rindex < rnumel
            tmp0 = tl.load(in_ptr0 + (rindex + (rnumel * x0)), rmask, eviction_policy="evict_first", other=0.0)
            lanes = tl.arange(0, RBLOCK) % 4
            tmp1 = tl.load(in_ptr1 + lanes, None, eviction_policy="evict_last")
            tl.store(out_ptr0 + (rindex + (rnumel * x0)), tmp0 * tmp1, rmask)


def call(args):
    arg0_1, arg1_1 = args
    buf0 = torch.empty_strided((7, 100), (100, 1), dtype=torch.float32)
    triton_red_fused_mul_0[(2,)](arg0_1, arg1_1, buf0, 7, 100, XBLOCK=4, RBLOCK=32)
    return (buf0,)


def host(x, w):
    return call([x, w])
"""

STYLES: dict[str, tuple[str, list[str]]] = {
    "capitals": (
        CAPITALS,
        [
            "+    # the weight, in fp32",
            "+    W_row = tl.load(W_ptr + col_offsets, mask=col_offsets < n_cols, other=0.0)"
            ".to(tl.float32)  # (n_cols,)",
            "-",
            "-        # the weight, in fp32",
            "-        W_row = tl.load(W_ptr + col_offsets, mask=col_offsets < n_cols, other=0.0)"
            ".to(tl.float32)  # (n_cols,)",
        ],
    ),
    "chunks": (
        CHUNKS,
        [
            "+    p_rstd = rstd + i_n",
            "+    b_rstd = tl.load(p_rstd)",
            "-        p_rstd = rstd + i_n",
            "-        b_rstd = tl.load(p_rstd)",
        ],
    ),
    "while": (
        WHILE,
        [
            "+    scale = tl.load(",
            "+        scale_ptr + 1,",
            '+        eviction_policy="evict_last",',
            "+    )",
            "-        total += tl.load(x_ptr + row * stride + offs, mask=offs < n_cols, other=0.0) * tl.load(",
            "-            scale_ptr + 1,",
            '-            eviction_policy="evict_last",',
            "-        ).to(tl.float32)",
            "+        total += tl.load(x_ptr + row * stride + offs, mask=offs < n_cols, other=0.0)"
            " * scale.to(tl.float32)",
        ],
    ),
    "generated": (
        GENERATED,
        [
            "+    lanes = tl.arange(0, RBLOCK) % 4",
            '+    tmp1 = tl.load(in_ptr1 + lanes, None, eviction_policy="evict_last")',
            "-            lanes = tl.arange(0, RBLOCK) % 4",
            '-            tmp1 = tl.load(in_ptr1 + lanes, None, eviction_policy="evict_last")',
        ],
    ),
}
