"""A launch by a name of the host function: an alias, one of several kernels, one bound to its grid first."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.contracts.audit import KnobOrigin
from warpsmith.source.scan import scan
from warpsmith.source.table import Band, SettingsTable, without_settings, write_table
from warpsmith.source.tunable import make_tunable

KERNELS = """\
import torch
import triton
import triton.language as tl
from torch.library import wrap_triton


@triton.jit
def _wide_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 1, mask=offsets < n)


@triton.jit
def _narrow_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 1, mask=offsets < n)


def host(x, n):
"""
CHOOSING = """\
    if n > 512:
        kernel = _wide_kernel
    else:
        kernel = _narrow_kernel
    block = 128
    kernel[(triton.cdiv(n, block),)](x, n, BLOCK=block, num_warps=4)
"""
BEFORE_THE_CHOICE = """\
    block = 128
    kernel = _wide_kernel if n > 512 else _narrow_kernel
    kernel[(triton.cdiv(n, block),)](x, n, block, num_warps=4)
"""
IN_A_DICTIONARY = """\
    kernel = _wide_kernel if n > 512 else _narrow_kernel
    options = {"BLOCK": 128, "num_warps": 4}
    kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, n, **options)
"""
LITERALS = """\
    kernel = _wide_kernel if n > 512 else _narrow_kernel
    kernel[(triton.cdiv(n, 128),)](x, n, BLOCK=128, num_warps=4)
"""


@pytest.mark.parametrize("host", [CHOOSING, BEFORE_THE_CHOICE, IN_A_DICTIONARY, LITERALS],
                         ids=["if and else", "set before the choice", "a dictionary", "literals"])  # fmt: skip
def test_a_setting_holds_for_the_kernel_that_is_launched_and_not_for_the_other(machine: Any, host: str) -> None:
    source = KERNELS + host
    audit = scan(source)
    ids = [f"{kernel}.{name}" for kernel in ("_wide_kernel", "_narrow_kernel")
           for name in ("BLOCK", "num_warps", "num_stages", "maxnreg")]  # fmt: skip
    tunable = make_tunable(source, [audit.knob(each) for each in ids])
    settings = {"_wide_kernel.BLOCK": 64, "_wide_kernel.num_stages": 1, "_narrow_kernel.num_warps": 1}

    (wide,) = machine.run(tunable, settings=settings, x=None, n=1024)
    (narrow,) = machine.run(tunable, settings=settings, x=None, n=256)

    told = {"x_ptr": None, "n": 1024}
    assert (wide.kernel, wide.grid) == ("_wide_kernel", (16,))
    assert wide.arguments == {**told, "BLOCK": 64, "num_warps": 4, "num_stages": 1}
    assert (narrow.kernel, narrow.grid) == ("_narrow_kernel", (2,))
    assert {**narrow.arguments, "num_stages": 3} == {
        "x_ptr": None, "n": 256, "BLOCK": 128, "num_warps": 1, "num_stages": 3
    }  # fmt: skip
    assert audit.not_covered == ()
    for n in (1024, 256):
        assert [(each.kernel, each.grid) for each in machine.run(tunable, x=None, n=n)] == [
            (each.kernel, each.grid) for each in machine.run(source, x=None, n=n)
        ]


def test_a_block_that_the_choice_reads_cannot_be_moved_behind_it() -> None:
    host = BEFORE_THE_CHOICE.replace("n > 512", "n > block")

    assert scan(KERNELS + host).knob("_wide_kernel.BLOCK").why_not == (
        "it is read in line 21, before line 21 chooses between kernels as kernel"
    )


@pytest.mark.parametrize(
    "host",
    [
        "    run = _wide_kernel[(triton.cdiv(n, 128),)]\n    run(x, n, BLOCK=128, num_warps=4)\n",
        "    block = 128\n    run = _wide_kernel[(triton.cdiv(n, block),)]\n    run(x, n, block, num_warps=4)\n",
        "    kernel = _wide_kernel\n    kernel[(triton.cdiv(n, 128),)](x, n, BLOCK=128, num_warps=4)\n",
        "    kernel = None\n    kernel = wrap_triton(_wide_kernel)\n"
        "    kernel[(triton.cdiv(n, 128),)](x, n, BLOCK=128, num_warps=4)\n",
        "    wrap_triton(_wide_kernel)[(triton.cdiv(n, 128),)](x, n, BLOCK=128, num_warps=4)\n",
    ],
    ids=["bound", "bound after the block", "alias", "wrapped alias", "wrapped"],
)
def test_a_launch_by_another_name_is_a_launch_of_the_kernel(machine: Any, host: str) -> None:
    source = KERNELS + host
    audit = scan(source)
    knobs = [audit.knob(f"_wide_kernel.{name}") for name in ("BLOCK", "num_warps", "num_stages")]
    tunable = make_tunable(source, knobs)

    (launch,) = machine.run(tunable, settings={"_wide_kernel.BLOCK": 32, "_wide_kernel.num_warps": 1}, x=None, n=100)

    assert (launch.grid, launch.arguments["BLOCK"], launch.arguments["num_warps"]) == ((4,), 32, 1)
    assert [knob.origin for knob in knobs] == [KnobOrigin.LITERAL, KnobOrigin.LITERAL, KnobOrigin.ABSENT]
    assert audit.not_covered == ()


@pytest.mark.parametrize(
    "host",
    [
        "    run = _wide_kernel[(n,)]\n    return run\n",
        "    run = _wide_kernel[(n,)]\n    later(run)\n    run(x, n, BLOCK=128)\n",
        "    run = _wide_kernel[(n,)]\n    run = x\n    run(x, n, BLOCK=128)\n",
    ],
)
def test_a_bound_launch_that_goes_elsewhere_is_named(host: str) -> None:
    assert (
        "line 20: _wide_kernel is bound to its grid there, and launched elsewhere" in scan(KERNELS + host).not_covered
    )


@pytest.mark.parametrize("n", [1024, 256])
def test_a_table_of_one_kernel_leaves_the_other_as_it_was(machine: Any, tensor: Any, n: int) -> None:
    source = KERNELS.replace("def host(x, n):", "def host(x):\n    n, m = x.shape") + CHOOSING
    table = SettingsTable(
        jit_function="_wide_kernel",
        host_function="host",
        capability=(9, 0),
        sm_count=132,
        itemsize=2,
        tensor="x",
        axes=("n", "m"),
        bands=(Band(ranges=((1, 4096), (1, 8)), settings={"BLOCK": 32, "num_warps": 1, "num_stages": 2}),),
    )
    written = write_table(source, scan(source), [table])

    (launch,) = machine.run(written, x=tensor((n, 4)))

    (original,) = machine.run(source, x=tensor((n, 4)))
    if n > 512:
        assert (launch.kernel, launch.grid, launch.arguments["num_stages"]) == ("_wide_kernel", (32,), 2)
    else:
        assert launch == original
    assert without_settings(written, "_wide_kernel").endswith(CHOOSING)
