"""Settings that reach a launch by way of an autograd function's ctx."""

from __future__ import annotations

import pytest

from warpsmith.contracts.audit import KnobOrigin
from warpsmith.source.scan import scan
from warpsmith.source.tunable import make_tunable

SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def _scale_kernel(x_ptr, n_cols, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + cols, mask=cols < n_cols)
    tl.store(x_ptr + cols, 2 * x, mask=cols < n_cols)


def scale_backward(dy, block, num_warps):
    _scale_kernel[(1,)](dy, dy.shape[0], BLOCK=block, num_warps=num_warps)
    return dy


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.block, ctx.num_warps = 1024, 4
        return x

    @staticmethod
    def backward(ctx, dy):
        return scale_backward(dy, ctx.block, num_warps=ctx.num_warps)
"""
WARPS = "_scale_kernel.num_warps"
HELPER = """\
def scale_backward(dy, block, num_warps):
    _scale_kernel[(1,)](dy, dy.shape[0], BLOCK=block, num_warps=num_warps)
    return dy
"""


def test_a_parameter_that_every_caller_takes_from_ctx_is_told_so_and_still_overridden_at_entry() -> None:
    audit = scan(SOURCE)

    warps, block = audit.knob(WARPS), audit.knob("_scale_kernel.BLOCK")
    assert (warps.origin, warps.expression, warps.anchor_line) == (KnobOrigin.CONTEXT, "ctx.num_warps", 13)
    assert (block.origin, block.expression) == (KnobOrigin.CONTEXT, "ctx.block")
    assert f'num_warps = WARPSMITH_SETTINGS.get("{WARPS}", num_warps)' in make_tunable(SOURCE, [warps])


def test_the_name_that_a_caller_gives_it_does_not_matter() -> None:
    source = SOURCE.replace(
        "        return scale_backward(dy, ctx.block, num_warps=ctx.num_warps)",
        "        warps = ctx.num_warps\n        return scale_backward(dy, ctx.block, warps)",
    )

    assert scan(source).knob(WARPS).origin is KnobOrigin.CONTEXT


@pytest.mark.parametrize(
    ("body", "origin"),
    [
        ("_scale_kernel[(1,)](dy, 8, BLOCK=1024, num_warps=ctx.num_warps)", KnobOrigin.CONTEXT),
        ("warps = ctx.num_warps\n        _scale_kernel[(1,)](dy, 8, 1024, num_warps=warps)", KnobOrigin.CONTEXT),
        (
            "options = {'num_warps': ctx.num_warps}\n        _scale_kernel[(1,)](dy, 8, BLOCK=1024, **options)",
            KnobOrigin.CONTEXT,
        ),
        ("_scale_kernel[(1,)](dy, 8, BLOCK=1024, num_warps=dy.num_warps)", KnobOrigin.OTHER),
    ],
    ids=["at the launch", "by a variable", "by a dictionary", "another object's attribute"],
)
def test_ctx_is_followed_in_the_backward_pass_itself(body: str, origin: KnobOrigin) -> None:
    launching, helper = SOURCE.replace("return scale_backward(dy, ctx.block, num_warps=ctx.num_warps)", body), HELPER
    assert helper in launching

    assert scan(launching.replace(helper, "")).knob(WARPS).origin is origin


@pytest.mark.parametrize(
    "further", ["def other(x):\n    scale_backward(x, 1024, 8)\n", "def other(x, **o):\n    scale_backward(x, **o)\n"]
)
def test_a_caller_that_passes_something_else_makes_it_a_parameter(further: str) -> None:
    assert scan(f"{SOURCE}\n\n{further}").knob(WARPS).origin is KnobOrigin.PARAMETER


def test_an_attribute_of_a_module_is_not_kept_on_ctx() -> None:
    source = SOURCE.replace("ctx", "self")

    assert scan(source).knob(WARPS).origin is KnobOrigin.PARAMETER


def test_an_entry_that_holds_a_variable_says_how_the_variable_is_set() -> None:
    by_name = HELPER.replace("num_warps):\n", "_):\n    warps = pick(dy)\n    options = {'num_warps': warps}\n")
    source = SOURCE.replace(HELPER, by_name.replace("num_warps=num_warps", "**options"))

    knob = scan(source).knob(WARPS)

    assert (knob.origin, knob.expression) == (KnobOrigin.HELPER, "warps = pick(dy)")
