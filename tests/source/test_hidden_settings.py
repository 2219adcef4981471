"""Settings whose value stands elsewhere: dictionaries, objects, defaults, ctx; and the cap on registers nobody sets."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.contracts.audit import KnobKind, KnobOrigin
from warpsmith.contracts.errors import PreflightError
from warpsmith.report.audit_view import knobs_of_the_source
from warpsmith.source.editing import Edits
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.scan import scan
from warpsmith.source.table import Band, SettingsTable, write_table
from warpsmith.source.tunable import make_tunable

KERNEL = """\
import functools

import torch
import triton
import triton.language as tl

NOTHING = {"extra": 1}


@triton.jit
def _scale_kernel(x_ptr, n, BLOCK: tl.constexpr DEFAULT):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) * 2, mask=offsets < n)


@functools.lru_cache
def pick(n):
    return {"BLOCK": 128, "num_warps": 4}


class Settings:
    def __init__(self):
        self.block = 128
        self.warps = 4


"""
BLOCK, WARPS, CAP = (f"_scale_kernel.{name}" for name in ("BLOCK", "num_warps", "maxnreg"))
META = "lambda meta: (triton.cdiv(n, meta['BLOCK']),)"


def source(host: str, default: str = "") -> str:
    return KERNEL.replace(" DEFAULT", default) + host


@pytest.mark.parametrize(
    ("host", "default"),
    [
        (f"def host(x, n):\n    config = pick(n)\n    _scale_kernel[{META}](x, n, **config)\n", ""),
        (
            "def host(x, n):\n    config = pick(n)\n"
            "    _scale_kernel[(triton.cdiv(n, config['BLOCK']),)](x, n, **config)\n",
            "",
        ),
        (f"def launch(x, n, **config):\n    _scale_kernel[{META}](x, n, **config)\n\n\n"
         "def host(x, n):\n    launch(x, n, **pick(n))\n", ""),
        (f"def launch(x, n, config):\n    _scale_kernel[{META}](x, n, **config)\n\n\n"
         "def host(x, n):\n    launch(x, n, pick(n))\n", ""),
        (
            "class Scale(Settings):\n    def run(self, x, n):\n        _scale_kernel[(triton.cdiv(n, self.block),)](\n"
            "            x, n, BLOCK=self.block, num_warps=self.warps\n        )\n\n\n"
            "def host(x, n):\n    Scale().run(x, n)\n",
            "",
        ),
        (f"def host(x, n):\n    _scale_kernel[{META}](x, n, BLOCK=128, num_warps=4, **NOTHING)\n", ""),
    ],
    ids=["helper's dictionary", "read by the grid", "keywords of the function", "dictionary as an argument", "object",
         "a constant dictionary beside"],
)  # fmt: skip
def test_a_setting_from_elsewhere_is_overridden_and_what_holds_it_is_left_alone(
    machine: Any, host: str, default: str
) -> None:
    text = source(host, default)
    audit = scan(text)
    tunable = make_tunable(text, [audit.knob(BLOCK), audit.knob(WARPS), audit.knob(CAP)])
    module = machine.load(tunable)

    (original,) = machine.run(text, x=None, n=1024)
    module.WARPSMITH_SETTINGS.update({BLOCK: 32, WARPS: 2, CAP: 64})
    machine.launched.clear()
    module.host(x=None, n=1024)
    module.WARPSMITH_SETTINGS.clear()
    module.host(x=None, n=1024)

    changed, untouched = machine.launched
    assert untouched == original
    assert (original.grid, changed.grid) == ((8,), (32,))
    told = {name: changed.arguments[name] for name in ("BLOCK", "num_warps", "maxnreg")}
    assert told == {"BLOCK": 32, "num_warps": 2, "maxnreg": 64}
    assert module.pick(1024) == {"BLOCK": 128, "num_warps": 4}
    assert audit.not_covered == ()


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("def host(x, n):\n    _scale_kernel[(n,)](x, n, **pick(n))\n", "it may be inside **pick(n)"),
        ("def host(x, n, a, b):\n    _scale_kernel[(n,)](x, n, **a, **b)\n", "it may be inside **a or **b"),
        (
            "OPTIONS = pick(1)\n\n\ndef host(x, n):\n    _scale_kernel[(n,)](x, n, **OPTIONS)\n",
            "made outside the function",
        ),
    ],
)
def test_a_dictionary_that_is_not_seen_is_named(host: str, why: str) -> None:
    audit = scan(source(host))

    assert why in (audit.knob(WARPS).why_not or "")
    assert any(WARPS in said and why in said for said in audit.not_covered)


def test_a_default_of_the_kernel_is_overridden_at_the_launch(machine: Any) -> None:
    text = source(f"def host(x, n):\n    _scale_kernel[{META}](x, n)\n", " = 128")
    knob = scan(text).knob(BLOCK)
    tunable = make_tunable(text, [knob])

    (launch,) = machine.run(tunable, settings={BLOCK: 32}, x=None, n=1024)

    assert (knob.origin, knob.kind, knob.expression) == (KnobOrigin.ABSENT, KnobKind.BLOCK_TILING, "128")
    assert (launch.grid, launch.arguments["BLOCK"]) == ((32,), 32)


def test_a_default_that_the_host_repeats_is_refused() -> None:
    text = source("def host(x, n):\n    _scale_kernel[(triton.cdiv(n, 128),)](x, n)\n", " = 128")

    assert scan(text).knob(BLOCK).why_not == "the kernel's own 128 also stands in line 28, and may depend on it"


PLAIN = f"def host(x, n):\n    _scale_kernel[{META}](x, n, BLOCK=128)\n"


def test_a_cap_on_registers_that_nobody_sets_is_a_knob_that_is_not_shown(machine: Any) -> None:
    audit = scan(source(PLAIN))
    knob = audit.knob(CAP)
    tunable = make_tunable(source(PLAIN), [knob])

    (launch,) = machine.run(tunable, settings={CAP: 96}, x=None, n=1024)

    assert (knob.kind, knob.origin, knob.expression, knob.tunable) == (
        KnobKind.MAXNREG, KnobOrigin.ABSENT, "no cap", True
    )  # fmt: skip
    assert launch.arguments["maxnreg"] == 96
    assert machine.run(tunable, x=None, n=1024) == machine.run(source(PLAIN), x=None, n=1024)
    assert CAP not in {each.id for each in knobs_of_the_source(audit)}


def test_a_cap_that_the_source_sets_is_shown() -> None:
    audit = scan(source(PLAIN.replace("BLOCK=128", "BLOCK=128, maxnreg=64")))

    assert (audit.knob(CAP).origin, audit.knob(CAP).expression) == (KnobOrigin.LITERAL, "64")
    assert CAP in {each.id for each in knobs_of_the_source(audit)}


def test_a_kernel_of_another_module_has_no_cap_of_its_own() -> None:
    text = "from kernels import scale\n\n\ndef host(x, n):\n    scale[(n,)](x, n, BLOCK=128)\n"

    assert "scale.maxnreg" not in {knob.id for knob in scan(text).knobs}


CTX = """\
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        block = 128
        KEPT
        ctx.block = block
        return x

    @staticmethod
    def backward(ctx, dy):
        n = dy.shape[0]
        _scale_kernel[(triton.cdiv(n, ctx.block),)](dy, n, BLOCK=ctx.block)
        return dy


def host(x):
    class Kept:
        block = 128

    Scale.backward(Kept, x)
"""


def test_a_block_on_ctx_is_the_backward_pass_s_own_where_no_saved_buffer_depends_on_it(
    machine: Any, tensor: Any
) -> None:
    text = source(CTX.replace("KEPT", "ctx.save_for_backward(x, torch.empty_like(x))"))
    text = text.replace("torch.autograd.Function", "object")
    knob = scan(text).knob(BLOCK)

    (launch,) = machine.run(make_tunable(text, [knob]), settings={BLOCK: 32}, x=tensor((1024,)))

    assert (knob.origin, knob.tunable) == (KnobOrigin.CONTEXT, True)
    assert (launch.grid, launch.arguments["BLOCK"]) == ((32,), 32)


@pytest.mark.parametrize(
    "kept",
    [
        "partial = torch.empty(triton.cdiv(x.shape[0], block))\n        ctx.save_for_backward(x, partial)",
        "count = triton.cdiv(x.shape[0], block)\n        partial = torch.empty(count)\n        ctx.partial = partial",
        "y, block = elsewhere(x)\n        ctx.save_for_backward(y)",
    ],
    ids=["its size", "through a count", "returned together"],
)
def test_a_block_on_ctx_that_a_saved_buffer_may_depend_on_is_refused(kept: str) -> None:
    why_not = scan(source(CTX.replace("KEPT", kept))).knob(BLOCK).why_not

    assert "ctx.block is carried from the forward pass, and " in (why_not or "")
    assert "may depend on it" in (why_not or "")


TABLE = SettingsTable(
    jit_function="_scale_kernel",
    host_function="host",
    capability=(9, 0),
    sm_count=132,
    itemsize=2,
    tensor="x",
    axes=("n", "m"),
    bands=(Band(ranges=((1, 4096), (1, 8)), settings={"BLOCK": 32, "num_warps": 2}),),
)


@pytest.mark.parametrize(
    "decorator",
    ["", "@torch.library.triton_op('a::b', mutates_args={})\n", "@torch.library.custom_op('a::b', mutates_args=())\n"],
)
def test_a_table_is_plain_python_in_a_registered_operator_and_copies_a_helper_s_dictionary(
    machine: Any, tensor: Any, decorator: str
) -> None:
    text = source(
        f"{decorator}def host(x: torch.Tensor) -> None:\n    n, m = x.shape\n    config = pick(n)\n"
        f"    _scale_kernel[{META}](x, n, **config)\n"
    )
    written = write_table(text, scan(text), [TABLE])
    module = machine.load(written)

    module.host(tensor((1024, 4)))
    module.host(tensor((8192, 4)))

    tuned, original = machine.launched
    assert (tuned.grid, tuned.arguments["BLOCK"], tuned.arguments["num_warps"]) == ((32,), 32, 2)
    assert (original.grid, original.arguments["BLOCK"], original.arguments["num_warps"]) == ((64,), 128, 4)
    assert module.pick(1024) == {"BLOCK": 128, "num_warps": 4}


def test_syntax_that_this_python_does_not_know_is_said_with_its_line() -> None:
    with pytest.raises(PreflightError, match=r"line 3: .*; Python 3\.14 may read it, and this is Python 3\.\d+: run "):
        scan("try:\n    pass\nexcept TypeError, ValueError:\n    pass\n")
    with pytest.raises(PreflightError, match=r"line 2: the source is not valid Python: [^;]*$"):
        scan("def f():\n    return 1 +* 2\n")


def test_syntax_that_cannot_be_rewritten_is_said_with_its_line() -> None:
    edits = Edits("x = 1\ny = 2 2\n")

    with pytest.raises(NotApplicable, match=r"line 2: the source cannot be rewritten: libcst [\d.]+ cannot read"):
        edits.apply()
