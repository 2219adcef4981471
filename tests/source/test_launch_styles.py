"""One small kernel launched in the styles found in the wild: what is tunable takes effect, what is not is named."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

import pytest

from warpsmith.contracts.audit import KnobKind, KnobOrigin
from warpsmith.source.scan import scan
from warpsmith.source.tunable import make_tunable

KERNEL = """\
import torch
import triton
import triton.language as tl

{before}
@triton.jit
def _scale_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(x_ptr + offsets, x * 2, mask=offsets < n)


{host}
"""
#: The blocks of 128 in each style, and 4 warps, where the style gives them.
BLOCK, WARPS = "_scale_kernel.BLOCK", "_scale_kernel.num_warps"


@dataclass(frozen=True)
class Style:
    host: str
    origin: KnobOrigin
    before: str = ""
    knob: str = BLOCK

    @property
    def source(self) -> str:
        return KERNEL.format(before=self.before, host=self.host)


STYLES = {
    "literal at the launch, repeated in the grid": Style(
        "def host(x, n):\n    _scale_kernel[(triton.cdiv(n, 128),)](x, n, BLOCK=128, num_warps=4)\n", KnobOrigin.LITERAL
    ),
    "literal in a grid that is a name": Style(
        "def host(x, n):\n    grid = (triton.cdiv(n, 128),)\n    _scale_kernel[grid](x, n, BLOCK=128)\n",
        KnobOrigin.LITERAL,
    ),
    "local literal": Style(
        "def host(x, n):\n    block = 128\n    grid = (triton.cdiv(n, block),)\n"
        "    _scale_kernel[grid](x, n, BLOCK=block)\n",
        KnobOrigin.LITERAL,
    ),
    "tuple from a helper": Style(
        "def _pick(n):\n    return 128, 4\n\n\ndef host(x, n):\n    block, warps = _pick(n)\n"
        "    _scale_kernel[(triton.cdiv(n, block),)](x, n, block, num_warps=warps)\n",
        KnobOrigin.HELPER,
    ),
    "parameter with a default": Style(
        "def host(x, n, block=128):\n    '''Scales.'''\n"
        "    _scale_kernel[(triton.cdiv(n, block),)](x, n, BLOCK=block)\n",
        KnobOrigin.PARAMETER,
    ),
    "grid that reads META": Style(
        "def host(x, n):\n    _scale_kernel[lambda META: (triton.cdiv(n, META['BLOCK']),)](x, n, BLOCK=128)\n",
        KnobOrigin.LITERAL,
    ),
    "nested grid function": Style(
        "def host(x, n):\n    def grid(meta):\n        return (triton.cdiv(n, meta['BLOCK']),)\n\n"
        "    _scale_kernel[grid](x, n, BLOCK=128)\n",
        KnobOrigin.LITERAL,
    ),
    "positional": Style(
        "def host(x, n):\n    block = 128\n    _scale_kernel[(triton.cdiv(n, block),)](x, n, block)\n",
        KnobOrigin.LITERAL,
    ),
    "if and elif": Style(
        "def host(x, n):\n    if n > 4096:\n        block = 64\n    elif n > 10:\n        block = 128\n    else:\n"
        "        block = 256\n    grid = (triton.cdiv(n, block),)\n    _scale_kernel[grid](x, n, BLOCK=block)\n",
        KnobOrigin.FORMULA,
    ),
    "conditional expression": Style(
        "def host(x, n):\n    block = 128 if n > 10 else 256\n"
        "    _scale_kernel[(triton.cdiv(n, block),)](x, n, BLOCK=block)\n",
        KnobOrigin.FORMULA,
    ),
    "shape formula": Style(
        "def host(x, n):\n    block = min(128, triton.next_power_of_2(n))\n"
        "    _scale_kernel[(triton.cdiv(n, block),)](x, n, BLOCK=block)\n",
        KnobOrigin.FORMULA,
    ),
    "module constant": Style(
        "def host(x, n):\n    _scale_kernel[(triton.cdiv(n, SIZE),)](x, n, BLOCK=SIZE)\n",
        KnobOrigin.OTHER,
        "SIZE = 128\n\n",
    ),
    "dictionary that is unpacked": Style(
        "def host(x, n):\n    options = {'BLOCK': 128, 'num_warps': 4}\n"
        "    grid = (triton.cdiv(n, options['BLOCK']),)\n"
        "    _scale_kernel[grid](x, n, **options)\n",
        KnobOrigin.LITERAL,
    ),
    "dictionary set by key": Style(
        "def host(x, n):\n    block = 128\n    options = {}\n    options['BLOCK'] = block\n"
        "    _scale_kernel[(triton.cdiv(n, block),)](x, n, **options)\n",
        KnobOrigin.LITERAL,
    ),
    "subscript of a dictionary": Style(
        "def host(x, n):\n    config = {'B': 128}\n"
        "    _scale_kernel[(triton.cdiv(n, config['B']),)](x, n, BLOCK=config['B'])\n",
        KnobOrigin.OTHER,
    ),
    "asserted": Style(
        "def host(x, n):\n    block = 128\n    assert block <= 1024\n    grid = (triton.cdiv(n, block),)\n"
        "    _scale_kernel[grid](x, n, BLOCK=block)\n",
        KnobOrigin.LITERAL,
    ),
    "under a with": Style(
        "import contextlib\n\n\ndef host(x, n):\n    block = 128\n    with contextlib.nullcontext():\n"
        "        _scale_kernel[(triton.cdiv(n, block),)](x, n, BLOCK=block)\n",
        KnobOrigin.LITERAL,
    ),
}


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES.keys())
def test_an_override_reaches_the_kernel_and_its_grid_and_without_one_nothing_changes(
    machine: Any, style: Style
) -> None:
    audit = scan(style.source)
    knob = audit.knob(style.knob)
    tunable = make_tunable(style.source, [knob])

    original = machine.run(style.source, x=None, n=1000)
    untouched = machine.run(tunable, x=None, n=1000)
    (changed,) = machine.run(tunable, settings={style.knob: 32}, x=None, n=1000)

    assert (knob.tunable, knob.kind, knob.origin) == (True, KnobKind.BLOCK_TILING, style.origin)
    assert untouched == original
    assert original[0].grid == (8,)
    assert (changed.grid, changed.arguments["BLOCK"]) == ((32,), 32)
    assert audit.not_covered == ()


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES.keys())
def test_a_tunable_source_keeps_every_line_of_the_original_but_those_it_overrides(style: Style) -> None:
    knobs = [k for k in scan(style.source).knobs if k.tunable and k.origin is not KnobOrigin.ABSENT]
    lines = make_tunable(style.source, knobs).splitlines()

    kept = [line for line in style.source.splitlines() if line in lines]
    changed = [line for line in style.source.splitlines() if line not in lines]

    assert kept + changed != []
    assert all("128" in line or "SIZE" in line or "config" in line or "4" in line for line in changed)
    written = ("WARPSMITH_SETTINGS", "any other is the caller's choice")
    left = [line for line in lines if line and not any(text in line for text in written)]
    assert left == [line for line in kept if line]


@pytest.mark.parametrize("name", ["num_warps", "num_stages"])
def test_an_absent_launch_option_is_added_to_the_launch(machine: Any, name: str) -> None:
    source = STYLES["local literal"].source
    knob = scan(source).knob(f"_scale_kernel.{name}")

    (launch,) = machine.run(make_tunable(source, [knob]), settings={knob.id: 2}, x=None, n=1000)

    assert (knob.origin, knob.tunable, knob.anchor_line) == (KnobOrigin.ABSENT, True, knob.line)
    assert launch.arguments[name] == 2


def test_an_absent_option_goes_into_the_dictionary_that_the_launch_unpacks(machine: Any) -> None:
    source = STYLES["dictionary that is unpacked"].source
    knob = scan(source).knob("_scale_kernel.num_stages")

    (launch,) = machine.run(make_tunable(source, [knob]), settings={knob.id: 5}, x=None, n=1000)

    assert launch.arguments["num_stages"] == 5
    assert launch.arguments["num_warps"] == 4


def test_warps_carried_by_ctx_are_overridden_at_the_launch() -> None:
    host = "def host(ctx, x, n):\n    _scale_kernel[(n,)](x, n, BLOCK=128, num_warps=ctx.num_warps)\n"
    source = KERNEL.format(before="", host=host)

    tunable = make_tunable(source, [scan(source).knob(WARPS)])

    assert f'num_warps=WARPSMITH_SETTINGS.get("{WARPS}", ctx.num_warps)' in tunable


NOT_TUNABLE = {
    "a block carried by ctx": (
        "def host(ctx, x, n):\n    _scale_kernel[(n,)](x, n, BLOCK=ctx.BLOCK)\n",
        "carried from the forward pass",
    ),
    "a block hidden in a caller's dictionary": (
        "def host(x, n, **options):\n    _scale_kernel[(n,)](x, n, **options)\n",
        "hidden behind * or **",
    ),
    "a block behind a star": (
        "def host(x, n, *rest):\n    _scale_kernel[(n,)](x, n, *rest)\n",
        "hidden behind * or **",
    ),
    "a number that means something else too": (
        "def host(x, n):\n    buffer = torch.empty(128)\n"
        "    _scale_kernel[(triton.cdiv(n, 128),)](buffer, n, BLOCK=128)\n",
        "the number 128 also stands in line 14",
    ),
    "a value that is read where it is set": (
        "def host(x, n):\n    if n:\n        block = 128\n        grid = (triton.cdiv(n, block),)\n"
        "    _scale_kernel[grid](x, n, BLOCK=block)\n",
        "is read in line 16, inside what sets it",
    ),
    "a loop's variable": (
        "def host(x, n):\n    for block in (64, 128):\n"
        "        _scale_kernel[(triton.cdiv(n, block),)](x, n, BLOCK=block)\n",
        "block is a loop's variable",
    ),
    "a value that changes after the launch in its loop": (
        "def host(x, n):\n    block = 128\n    while n:\n"
        "        _scale_kernel[(triton.cdiv(n, block),)](x, n, BLOCK=block)\n        block = 64\n",
        "block is changed in line 17",
    ),
}


@pytest.mark.parametrize(("host", "reason"), NOT_TUNABLE.values(), ids=NOT_TUNABLE.keys())
def test_what_cannot_be_changed_is_named_with_its_line(host: str, reason: str) -> None:
    audit = scan(KERNEL.format(before="", host=host))
    knob = audit.knob(BLOCK)

    assert not knob.tunable
    assert reason in (knob.why_not or "")
    (said,) = [line for line in audit.not_covered if BLOCK in line]
    assert said.startswith("line ") and reason in said


def test_autotuned_knobs_belong_to_the_decorator_and_given_ones_do_not() -> None:
    before = "@triton.autotune(configs=[triton.Config({'BLOCK': 64})], key=['n'])"
    source = KERNEL.format(before=before, host="def host(x, n):\n    _scale_kernel[lambda m: (n,)](x, n)\n")

    knobs = {k.name: (k.origin, k.tunable, k.listed) for k in scan(source).knobs}

    assert knobs == {
        "num_warps": (KnobOrigin.AUTOTUNE, True, (4,)),
        "num_stages": (KnobOrigin.AUTOTUNE, True, (3,)),
        "BLOCK": (KnobOrigin.AUTOTUNE, True, (64,)),
        "maxnreg": (KnobOrigin.ABSENT, True, ()),
    }


@pytest.mark.parametrize(
    ("decorator", "option", "why"),
    [
        ("@triton.heuristics(pick('scale'))", "num_warps", "line 5 may set it, whatever the launch says"),
        ("@triton.heuristics(pick('scale'))", "BLOCK", "line 5 may set it, whatever the launch says"),
        ("@libtuner(configs=pick('scale'), key=['n'])", "num_stages", "the autotune decorator in line 5 sets it"),
    ],
    ids=["a table from elsewhere", "a block in such a table", "a tuner of another name"],
)
def test_what_a_decorator_sets_or_may_set_is_not_tunable_at_the_launch(decorator: str, option: str, why: str) -> None:
    audit = scan(KERNEL.format(before=f"{decorator}\n", host="def host(x, n):\n    _scale_kernel[(n,)](x, n)\n"))
    knob = audit.knob(f"_scale_kernel.{option}")

    assert not knob.tunable
    assert why in (knob.why_not or "")


@pytest.mark.parametrize(
    ("host", "said"),
    [
        (
            "def host(kernel, x, n):\n    kernel[(n,)](x, n, BLOCK=128)\n",
            "line 14: launches kernel, a kernel that arrives",
        ),
        (
            "def host(x, n):\n    kernel = KERNELS[n]\n    kernel[(n,)](x, n, BLOCK=128)\n",
            "line 15: launches kernel, which is chosen at run time in host",
        ),
        (
            "def host(x, n):\n    _scale_kernel.warmup(x, n, BLOCK=128, grid=(1,))\n",
            "line 14: _scale_kernel.warmup takes",
        ),
        (
            "def host(x, n):\n    return _scale_kernel[(n,)]\n",
            "line 14: _scale_kernel is bound to its grid there, and launched elsewhere",
        ),
        (
            "@triton.jit\ndef _scale_kernel(x_ptr, n, BLOCK: tl.constexpr):\n    tl.store(x_ptr, n)\n",
            "line 7: _scale_kernel is defined again in line 14, which is the one read",
        ),
        ("other = triton.jit(print)\n", "line 13: other is made by a call, not by a decorator"),
    ],
)
def test_launches_that_are_not_understood_are_reported(host: str, said: str) -> None:
    audit = scan(KERNEL.format(before="", host=host))

    assert [line for line in audit.not_covered if line.startswith(said)] == list(audit.not_covered) != []


def test_a_call_out_of_a_table_of_functions_is_no_launch() -> None:
    audit = scan("HANDLERS = {}\n\n\ndef host(name):\n    return HANDLERS[name](name)\n")

    assert (audit.launches, audit.not_covered) == ((), ())


def test_an_imported_kernel_keeps_its_warps_tunable_and_its_block_unknown() -> None:
    source = "from kernels import scale\n\n\ndef host(x, n):\n    scale[(n,)](x, n, BLOCK=128, num_warps=4)\n"
    audit = scan(source)

    assert audit.knob("scale.num_warps").tunable
    assert "whether it must cover a row is unknown" in (audit.knob("scale.BLOCK").why_not or "")


def test_one_variable_that_feeds_two_kernels_is_one_knob_and_the_other_is_tied_to_it(machine: Any) -> None:
    kernel = KERNEL.format(before="", host="").replace("_scale_kernel", "_other_kernel").split("\n\n", 1)[1]
    host = (
        "def host(x, n):\n    warps = 4\n    _scale_kernel[(n,)](x, n, BLOCK=128, num_warps=warps)\n"
        "    _other_kernel[(n,)](x, n, BLOCK=256, num_warps=warps)\n"
    )
    source = KERNEL.format(before=kernel, host=host)
    audit = scan(source)
    tunable = make_tunable(source, [audit.knob(WARPS)])

    launches = machine.run(tunable, settings={WARPS: 16}, x=None, n=8)

    assert [launch.arguments["num_warps"] for launch in launches] == [16, 16]
    assert audit.knob("_other_kernel.num_warps").why_not == f"tied to {WARPS}: the variable warps feeds both launches"


def test_warps_computed_from_a_block_follow_it_unless_they_are_set_too(machine: Any) -> None:
    host = (
        "def host(x, n):\n    block = 128\n    warps = 8 if block > 64 else 2\n"
        "    _scale_kernel[(triton.cdiv(n, block),)](x, n, BLOCK=block, num_warps=warps)\n"
    )
    source = KERNEL.format(before="", host=host)
    tunable = make_tunable(source, [scan(source).knob(BLOCK), scan(source).knob(WARPS)])

    (moved,) = machine.run(tunable, settings={BLOCK: 32}, x=None, n=64)
    (both,) = machine.run(tunable, settings={BLOCK: 32, WARPS: 4}, x=None, n=64)

    assert [(each.grid, each.arguments["num_warps"]) for each in (moved, both)] == [((2,), 2), ((2,), 4)]


def test_one_kernel_in_two_passes_has_a_site_in_each(machine: Any) -> None:
    host = (
        "def forward(x, n):\n    block = 128\n    _scale_kernel[(triton.cdiv(n, block),)](x, n, BLOCK=block)\n\n\n"
        "def backward(x, n):\n    size = min(n, 64)\n    _scale_kernel[(triton.cdiv(n, size),)](x, n, BLOCK=size)\n\n\n"
        "def host(x, n):\n    forward(x, n)\n    backward(x, n)\n"
    )
    source = KERNEL.format(before="", host=host)
    tunable = make_tunable(source, [scan(source).knob(BLOCK)])

    launches = machine.run(tunable, settings={BLOCK: 32}, x=None, n=1024)

    assert [(each.grid, each.arguments["BLOCK"]) for each in launches] == [((32,), 32), ((32,), 32)]
    assert [each.grid for each in machine.run(tunable, x=None, n=1024)] == [(8,), (16,)]


def test_crlf_and_non_ascii_text_survive(machine: Any) -> None:
    source = STYLES["literal at the launch, repeated in the grid"].source.replace(
        "x * 2,", "x * 2,  # ×2 – größer\n       "
    )
    source = source.replace("\n", "\r\n")

    tunable = make_tunable(source, [scan(source).knob(BLOCK)])

    assert tunable.count("\n") == tunable.count("\r\n")
    assert "# ×2 – größer" in tunable
    ast.parse(tunable)
