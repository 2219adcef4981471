"""Kernels with a matrix product, in several styles of taking a tile from the grid; all multiply (M, K) by (K, N)."""

from __future__ import annotations

HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n"

#: Two axes, the row's first, as vLLM writes scaled products.
TWO_AXES = f'''{HEAD}@triton.jit
def _scaled_mm_kernel(
    a_ptr,
    b_ptr,
    scale_ptr,
    c_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """C = (A @ B) * scale, a scale a row."""
    # one program a tile
    pid_m = tl.program_id(axis=0)
    pid_n = tl.program_id(axis=1)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * N + cols[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - k * BLOCK_K
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (inner[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(inner[:, None] < left) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    scale = tl.load(scale_ptr + rows, mask=rows < M, other=0.0)
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc * scale[:, None], mask=inside)


def host(a, b, scale):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=torch.float32, device=a.device)
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
    _scaled_mm_kernel[grid](a, b, scale, c, M, N, K, BLOCK_M=16, BLOCK_N=16, BLOCK_K=16)
    return c
'''

#: One axis that is divided, as early matrix products in tutorials and FlagGems; the scale comes with the epilogue.
DIVIDED = (
    TWO_AXES.replace(
        "    pid_m = tl.program_id(axis=0)\n    pid_n = tl.program_id(axis=1)\n",
        "    pid = tl.program_id(0)\n    num_n = tl.cdiv(N, BLOCK_N)\n"
        "    pid_m = pid // num_n\n    pid_n = pid % num_n\n",
    )
    .replace(
        "    grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))\n",
        '    grid = lambda META: (triton.cdiv(M, META["BLOCK_M"]) * triton.cdiv(N, META["BLOCK_N"]),)\n',
    )
    .replace('"""C = (A @ B) * scale, a scale a row."""', '"""C = (A @ B) * scale: tiles row by row."""')
)

#: Both ids in one statement, batches on the third axis, as flash-linear-attention writes its products.
BATCHED = (
    TWO_AXES.replace(
        "    pid_m = tl.program_id(axis=0)\n    pid_n = tl.program_id(axis=1)\n",
        "    i_n, i_m, i_b = tl.program_id(0), tl.program_id(1), tl.program_id(2)\n"
        "    a_ptr += i_b * M * K\n    b_ptr += i_b * K * N\n    c_ptr += i_b * M * N\n",
    )
    .replace("pid_m", "i_m")
    .replace("pid_n", "i_n")
    .replace(
        "    M, K = a.shape\n    N = b.shape[1]\n    c = torch.empty((M, N)",
        "    B = 2\n    M, K = a.shape[0] // B, a.shape[1]\n    N = b.shape[1]\n"
        "    b = torch.stack((b, 2 * b))\n    c = torch.empty((B * M, N)",
    )
    .replace("(triton.cdiv(M, 16), triton.cdiv(N, 16))", "(triton.cdiv(N, 16), triton.cdiv(M, 16), B)")
    .replace("scale_ptr + rows", "scale_ptr + i_b * M + rows")
)

#: Ids of 64 bits, block pointers, a remainder by subtraction and a grid by a function, as SGLang and xformers write.
BLOCK_POINTERS = f"""{HEAD}@triton.jit
def _gemm_kernel(
    a_ptr, b_ptr, scale_ptr, c_ptr, M, N, K, n_tiles,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    row = tile // n_tiles
    col = tile - row * n_tiles
    a_block = tl.make_block_ptr(a_ptr, (M, K), (K, 1), (row * BLOCK_M, 0), (BLOCK_M, BLOCK_K), (1, 0))
    b_block = tl.make_block_ptr(b_ptr, (K, N), (N, 1), (0, col * BLOCK_N), (BLOCK_K, BLOCK_N), (1, 0))
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc += tl.dot(
            tl.load(a_block, boundary_check=(0, 1), padding_option="zero"),
            tl.load(b_block, boundary_check=(0, 1), padding_option="zero"),
        )
        a_block = tl.advance(a_block, (0, BLOCK_K))
        b_block = tl.advance(b_block, (BLOCK_K, 0))
    rows = row * BLOCK_M + tl.arange(0, BLOCK_M)
    acc *= tl.load(scale_ptr + rows, mask=rows < M, other=0.0)[:, None]
    c_block = tl.make_block_ptr(
        c_ptr, (M, N), (N, 1), (row * BLOCK_M, col * BLOCK_N), (BLOCK_M, BLOCK_N), (1, 0)
    )
    tl.store(c_block, acc, boundary_check=(0, 1))


def host(a, b, scale):
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty((m, n), dtype=torch.float32, device=a.device)
    tiles_m = (m + 16 - 1) // 16
    n_tiles = (n + 16 - 1) // 16

    def grid(meta):
        return (tiles_m * n_tiles,)

    _gemm_kernel[grid](a, b, scale, c, m, n, k, n_tiles, BLOCK_M=16, BLOCK_N=16, BLOCK_K=16)
    return c
"""

#: 64-bit ids by `.to`, the column's axis first, and a spread-out launch, as unsloth and bitsandbytes write.
WIDE_IDS = TWO_AXES.replace("tl.program_id(axis=0)", "tl.program_id(axis=0).to(tl.int64)").replace(
    "    pid_n = tl.program_id(axis=1)\n",
    "    pid_n = tl.program_id(axis=1).to(tl.int64)\n    if pid_m * BLOCK_M >= M:\n        return\n",
)

STYLES = {
    "two axes": (TWO_AXES, "_scaled_mm_kernel"),
    "one axis, divided": (DIVIDED, "_scaled_mm_kernel"),
    "both at once, with a batch": (BATCHED, "_scaled_mm_kernel"),
    "block pointers and a parameter": (BLOCK_POINTERS, "_gemm_kernel"),
    "ids of 64 bits": (WIDE_IDS, "_scaled_mm_kernel"),
}
