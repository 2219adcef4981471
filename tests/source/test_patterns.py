"""How a kernel accesses memory and what passes hand to each other, as the audit tells it."""

from __future__ import annotations

import pytest

from warpsmith.contracts.audit import Pattern, PatternKind
from warpsmith.source.scan import scan

SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def _gate_forward_kernel(a_ptr, b_ptr, y_ptr, rstd_ptr, a_row, a_col, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    a = tl.load(a_ptr + row * a_row + cols * a_col, mask=mask, cache_modifier=".ca").to(tl.float32)
    b = tl.load(b_ptr + row * n_cols + cols, mask, eviction_policy="evict_first")
    tl.store(rstd_ptr + row, tl.rsqrt(tl.sum(a * a)))
    tl.store(y_ptr + row * n_cols + cols, (tl.sigmoid(a) * b).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _gate_backward_kernel(dy_ptr, a_ptr, b_ptr, rstd_ptr, total_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = row * n_cols + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + at)
    rstd = tl.load(rstd_ptr + row)
    gate = tl.sigmoid(a)
    tl.store(a_ptr + at, tl.load(dy_ptr + at) * gate * rstd)
    tl.atomic_add(total_ptr, tl.sum(gate))


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        y, rstd = torch.empty_like(a), a.new_empty(a.shape[0])
        _gate_forward_kernel[(8,)](a, b, y, rstd, a.stride(0), a.stride(1), 8, BLOCK=8)
        ctx.save_for_backward(a, b, rstd)
        ctx.n_cols = 8
        return y

    @staticmethod
    def backward(ctx, dy):
        a, b, rstd = ctx.saved_tensors
        total = a.new_zeros(1)
        _gate_backward_kernel[(8,)](dy, a, b, rstd, total, ctx.n_cols, BLOCK=8)
        return a, b
"""
FORWARD, BACKWARD = "_gate_forward_kernel", "_gate_backward_kernel"


def told(source: str, kind: PatternKind, function: str) -> Pattern | None:
    """The pattern, of which there is at most one."""
    found = [p for p in scan(source).patterns if (p.kind, p.function) == (kind, function)]
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize(
    ("kind", "function", "lines", "what"),
    [
        (
            PatternKind.MASK,
            FORWARD,
            (11, 12, 14),
            "a_ptr, b_ptr, y_ptr masked by cols < n_cols; not masked: rstd_ptr (line 13)",
        ),
        (
            PatternKind.MASK,
            BACKWARD,
            (21, 22, 24, 25),
            "not masked: a_ptr (lines 21, 24), rstd_ptr (line 22), dy_ptr (line 24), total_ptr (line 25)",
        ),
        (
            PatternKind.STRIDE,
            FORWARD,
            (11, 12, 13, 14),
            "strides are arguments: a_ptr (a_row, a_col); computed from sizes, so contiguous: b_ptr (n_cols), "
            "y_ptr (n_cols); inner stride taken to be 1: b_ptr, y_ptr",
        ),
        (PatternKind.EVICTION_POLICY, FORWARD, (11, 12), ".ca: a_ptr; evict_first: b_ptr"),
        (
            PatternKind.CAST,
            FORWARD,
            (8, 11, 14),
            "to int64 in line 8; to float32 in line 11; to y_ptr.dtype.element_ty in line 14",
        ),
        (PatternKind.IN_PLACE, BACKWARD, (24,), "loads and overwrites a_ptr"),
        (PatternKind.ATOMIC, BACKWARD, (25,), "atomic_add on total_ptr"),
        (PatternKind.RECOMPUTED, BACKWARD, (23,), f"sigmoid of a (line 23), as in {FORWARD}"),
        (PatternKind.SAVED_FOR_BACKWARD, "forward", (33,), "Gate saves a, b, rstd and keeps n_cols on ctx"),
    ],
)
def test_each_pattern_names_what_it_concerns(
    kind: PatternKind, function: str, lines: tuple[int, ...], what: str
) -> None:
    assert told(SOURCE, kind, function) == Pattern(kind=kind, function=function, lines=lines, what=what)


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        (PatternKind.EVICTION_POLICY, BACKWARD),
        (PatternKind.CAST, BACKWARD),
        (PatternKind.IN_PLACE, FORWARD),
        (PatternKind.ATOMIC, FORWARD),
        (PatternKind.RECOMPUTED, FORWARD),
        (PatternKind.ONLINE, FORWARD),
        (PatternKind.SAVED_FOR_BACKWARD, "backward"),
        (PatternKind.IN_PLACE, "forward"),
    ],
)
def test_what_a_function_does_not_do_is_not_told(kind: PatternKind, function: str) -> None:
    assert told(SOURCE, kind, function) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    gate = tl.sigmoid(a)", "    gate = tl.load(y_ptr + at)"),
        ("    gate = tl.sigmoid(a)", "    gate = tl.sigmoid(rstd)"),
    ],
    ids=["it is loaded", "it is of something else"],
)
def test_only_what_both_passes_compute_from_the_same_tensor_is_recomputed(old: str, new: str) -> None:
    assert told(SOURCE.replace(old, new), PatternKind.RECOMPUTED, BACKWARD) is None


def test_what_a_helper_of_the_kernel_computes_is_seen_through_it() -> None:
    helper = "@triton.jit\ndef silu(x):\n    return x * tl.sigmoid(x)\n\n\n@triton.jit\ndef _gate_forward"
    source = SOURCE.replace("(tl.sigmoid(a) * b)", "(silu(a) * b)").replace("@triton.jit\ndef _gate_forward", helper)

    found = told(source, PatternKind.RECOMPUTED, BACKWARD)

    assert found is not None and found.what.startswith("sigmoid of a")


def test_a_tensor_that_is_handed_over_twice_is_in_place() -> None:
    source = SOURCE.replace("(a, b, y, rstd, a.stride", "(a, b, a, rstd, a.stride")

    found = told(source, PatternKind.IN_PLACE, "forward")

    assert found is not None
    assert (found.lines, found.what) == ((32,), f"a is handed to {FORWARD} as a_ptr and y_ptr")


def test_methods_of_the_same_name_share_one_pattern() -> None:
    second = SOURCE.partition("class Gate")[2].replace("(a, b, rstd)", "(b)", 1)
    found = told(f"{SOURCE}\n\nclass Other{second}", PatternKind.SAVED_FOR_BACKWARD, "forward")

    assert found is not None
    assert found.what == "Gate saves a, b, rstd and keeps n_cols on ctx; Other saves b and keeps n_cols on ctx"


ONLINE = """\
import triton
import triton.language as tl


@triton.jit
def _kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    m = -float("inf")
    d = 0.0
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + start + tl.arange(0, BLOCK))
        m_new = tl.maximum(m, tl.max(x))
        d = d * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new))
        m = m_new
    tl.store(y_ptr, m + tl.log(d))
"""


def test_a_running_maximum_that_rescales_is_an_online_algorithm() -> None:
    found = told(ONLINE, PatternKind.ONLINE, "_kernel")

    assert found is not None
    assert (found.lines, found.what) == ((12,), "m is a running maximum, and sums are rescaled where it grows")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("d * tl.exp(m - m_new)", "d"),
        ("        m = m_new\n", ""),
        ("tl.maximum(m, tl.max(x))", "tl.load(y_ptr + start)"),
    ],
    ids=["nothing is rescaled", "the maximum is of each block alone", "no maximum"],
)
def test_other_loops_are_no_online_algorithm(old: str, new: str) -> None:
    assert old in ONLINE

    assert told(ONLINE.replace(old, new), PatternKind.ONLINE, "_kernel") is None


def test_bounds_that_a_descriptor_checks_are_not_called_unmasked() -> None:
    source = ONLINE.replace("tl.load(x_ptr + start + tl.arange(0, BLOCK))", "x_ptr.load([start])")

    found = told(source, PatternKind.MASK, "_kernel")

    assert found is not None and found.what == "not masked: y_ptr (line 14)"
