"""What the caller of a host function chooses holds: an override replaces a default, and nothing that was passed."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.source.refusal import NotApplicable
from warpsmith.source.scan import scan
from warpsmith.source.table import Band, SettingsTable, without_tables, write_table
from warpsmith.source.tunable import make_tunable

KERNEL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def _scale_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) * 2, mask=offsets < n)


"""
WARPS, BLOCK = "_scale_kernel.num_warps", "_scale_kernel.BLOCK"
META = "lambda meta: (triton.cdiv(n, meta['BLOCK']),)"
GIVEN = f"    n = x.numel()\n    _scale_kernel[{META}](x, n, BLOCK=128, num_warps=num_warps)\n"
BY_DEFAULT = KERNEL + f"def host(x, num_warps=4):\n{GIVEN}"
LEFT_OUT = (
    KERNEL + "def host(x, num_warps=None):\n    n = x.numel()\n    if num_warps is None:\n        num_warps = 4\n"
    f"    _scale_kernel[{META}](x, n, BLOCK=128, num_warps=num_warps)\n"
)
KEYWORDS = KERNEL + f"def host(x, **META):\n    n = x.numel()\n    _scale_kernel[{META}](x, n, BLOCK=128, **META)\n"
IN_A_DICTIONARY = (
    KERNEL + "def host(x, num_warps=4):\n    n = x.numel()\n    options = {'num_warps': num_warps}\n"
    f"    _scale_kernel[{META}](x, n, BLOCK=128, **options)\n"
)


def table(**settings: int) -> SettingsTable:
    return SettingsTable(
        jit_function="_scale_kernel", host_function="host", capability=(9, 0), sm_count=132, itemsize=2, tensor="x",
        axes=("n",), bands=(Band(ranges=((1, 4096),), settings=settings),),
    )  # fmt: skip


@pytest.mark.parametrize(
    "text", [BY_DEFAULT, LEFT_OUT, KEYWORDS, IN_A_DICTIONARY],
    ids=["a default", "None for a default", "keywords", "a dictionary that holds a parameter"],
)  # fmt: skip
def test_a_table_and_a_search_replace_the_default_and_never_what_the_caller_chose(
    machine: Any, tensor: Any, text: str
) -> None:
    written = write_table(text, scan(text), [table(num_warps=32)])
    tunable = make_tunable(text, [scan(text).knob(WARPS)])
    x = tensor((1024,))

    assert machine.run(written, x=x)[0].arguments["num_warps"] == 32
    assert machine.run(tunable, settings={WARPS: 16}, x=x)[0].arguments["num_warps"] == 16
    assert machine.run(written, x=x, num_warps=2) == machine.run(text, x=x, num_warps=2)
    assert machine.run(tunable, settings={WARPS: 16}, x=x, num_warps=2) == machine.run(text, x=x, num_warps=2)
    assert machine.run(written, x=tensor((8192,))) == machine.run(text, x=tensor((8192,)))


@pytest.mark.parametrize("text", [BY_DEFAULT, LEFT_OUT, KEYWORDS, IN_A_DICTIONARY])
def test_such_a_table_is_written_once_and_taken_out_without_a_trace(text: str) -> None:
    once = write_table(text, scan(text), [table(num_warps=32)])

    assert write_table(once, scan(once), [table(num_warps=32)]) == once
    assert without_tables(once) == text


LAUNCH = f"    _scale_kernel[{META}](x, n, BLOCK=BLOCK, num_warps=num_warps)\n"
UNPACKED = f"    _scale_kernel[{META}](x, n, **options)\n"


@pytest.mark.parametrize(
    ("host", "knob", "why"),
    [
        (f"def host(x, n, BLOCK, num_warps=4):\n{LAUNCH}", BLOCK, "the parameter BLOCK of host, which has no default"),
        (f"def host(x, n, num_warps=None, BLOCK=64):\n{LAUNCH}", WARPS, "num_warps of host, whose default is None"),
        (
            f"def host(x, n, num_warps=4, BLOCK=64):\n{LAUNCH}\n\ndef wide(x, n):\n    host(x, n, num_warps=8)\n",
            WARPS,
            "a call in this file passes another than its default 4",
        ),
        (
            f"def host(x, n, num_warps=None, BLOCK=64):\n    num_warps = num_warps or 4\n{LAUNCH}",
            WARPS,
            "it comes from num_warps, which host is given",
        ),
        (
            f"def host(x, n, warps=None, BLOCK=64):\n    num_warps = 4 if warps is None else warps\n{LAUNCH}",
            WARPS,
            "it comes from warps, which host is given",
        ),
        (
            f"def host(x, n, BLOCK=64, **given):\n    num_warps = given.get('num_warps', 4)\n{LAUNCH}",
            WARPS,
            "it comes from given, which host is given",
        ),
        (
            "def host(x, n, **given):\n    options = {'BLOCK': 64, 'num_warps': 4}\n    options.update(given)\n"
            + UNPACKED,
            WARPS,
            "options takes up given in line 14",
        ),
        (
            f"def host(x, n, **given):\n    options = {{'BLOCK': 64, 'num_warps': 4, **given}}\n{UNPACKED}",
            WARPS,
            "options takes up given in line 13",
        ),
        (f"def host(x, n, **options):\n{UNPACKED}", BLOCK, "host is given it in options"),
        (
            f"def host(x, n, warps=4, BLOCK=64):\n    w = warps\n    num_warps = w\n{LAUNCH}",
            WARPS,
            "it comes from warps, which host is given",
        ),
        (
            f"def host(x, n, *given):\n    BLOCK = 64\n    num_warps = given[0] if given else 4\n{LAUNCH}",
            WARPS,
            "it comes from given, which host is given",
        ),
        (
            f"def host(x, n, num_warps=4, BLOCK=64):\n    num_warps = settled(n, num_warps)\n{LAUNCH}",
            WARPS,
            "it comes from num_warps, which host is given",
        ),
        (
            f"def host(x, n, num_warps=4):\n    BLOCK = 64\n\n    def inner():\n    {LAUNCH}\n    inner()\n",
            WARPS,
            "it comes from num_warps, which host is given",
        ),
        (
            "class Scale:\n    def __init__(self, warps=4):\n        self.warps = warps\n\n"
            f"    def run(self, x, n):\n        BLOCK = 64\n        num_warps = self.warps\n    {LAUNCH}",
            WARPS,
            "it comes from warps, which __init__ is given",
        ),
        (
            "class Scale(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, warps=4):\n"
            "        ctx.warps = warps\n        return x\n\n    @staticmethod\n    def backward(ctx, dy):\n"
            f"        n, BLOCK = dy.numel(), 64\n        num_warps = ctx.warps\n    {LAUNCH.replace('(x,', '(dy,')}",
            WARPS,
            "it comes from warps, which forward is given",
        ),
        (
            "def host(x, n, options=None):\n    if not options:\n        options = {'BLOCK': 64, 'num_warps': 4}\n"
            + UNPACKED,
            WARPS,
            "host may be given it in options",
        ),
    ],
)  # fmt: skip
def test_what_only_the_caller_chooses_is_refused_at_the_scan(host: str, knob: str, why: str) -> None:
    audit = scan(KERNEL + host)
    found = audit.knob(knob)

    assert not found.tunable
    assert (found.why_not or "").startswith("the caller chooses it: ") and why in (found.why_not or "")
    assert any(knob in said and why in said for said in audit.not_covered)


@pytest.mark.parametrize(
    "callers",
    [
        "def api(x):\n    host(x, 128, 4)\n",
        "def api(x, wide):\n    block, warps = (128, 4) if wide else (64, 2)\n    host(x, block, num_warps=warps)\n",
    ],
)
def test_what_the_file_s_own_code_passes_is_the_file_s_choice(machine: Any, tensor: Any, callers: str) -> None:
    text = KERNEL + f"def host(x, BLOCK, num_warps):\n    n = x.numel()\n{LAUNCH}\n\n{callers}"
    knobs = [scan(text).knob(name) for name in (WARPS, BLOCK)]

    (launch,) = machine.run(
        make_tunable(text, knobs), settings={WARPS: 8, BLOCK: 32}, x=tensor((64,)), BLOCK=64, num_warps=4
    )

    assert (launch.arguments["num_warps"], launch.arguments["BLOCK"]) == (8, 32)


@pytest.mark.parametrize(
    ("handed", "tunable"), [("def api(x, warps=4):\n    host(x, warps)\n", True),
                            ("def api(x, warps):\n    host(x, warps)\n", False),
                            ("def api(x, warps=4):\n    w = warps\n    host(x, w)\n", False)],
)  # fmt: skip
def test_a_parameter_that_is_handed_on_is_still_the_caller_s(
    machine: Any, tensor: Any, handed: str, tunable: bool
) -> None:
    text = KERNEL + f"def host(x, num_warps):\n{GIVEN}\n\n{handed}"
    assert scan(text).knob(WARPS).tunable is tunable
    if tunable:
        written = write_table(text, scan(text), [table(num_warps=32)])
        assert machine.run(written, x=tensor((64,)), num_warps=4)[0].arguments["num_warps"] == 32
        assert machine.run(written, x=tensor((64,)), num_warps=2)[0].arguments["num_warps"] == 2


def test_a_dictionary_that_the_caller_may_pass_is_changed_where_he_passed_none(machine: Any, tensor: Any) -> None:
    text = KERNEL + (
        "def host(x, options=None):\n    n = x.numel()\n    if options is None:\n"
        f"        options = {{'BLOCK': 128, 'num_warps': 4}}\n    _scale_kernel[{META}](x, n, **options)\n"
    )
    written = write_table(text, scan(text), [table(num_warps=32)])
    passed = {"BLOCK": 64, "num_warps": 2}

    assert machine.run(written, x=tensor((64,)))[0].arguments["num_warps"] == 32
    assert machine.run(written, x=tensor((64,)), options=passed)[0].arguments["num_warps"] == 2
    assert passed == {"BLOCK": 64, "num_warps": 2}
    assert write_table(written, scan(written), [table(num_warps=32)]) == written
    assert without_tables(written) == text


def test_a_formula_of_what_is_passed_is_no_choice_of_the_caller() -> None:
    text = (
        KERNEL + f"def host(x, n, causal=True):\n    num_warps = 4 if causal else 8\n    BLOCK = min(128, n)\n{LAUNCH}"
    )
    assert scan(text).knob(WARPS).tunable and scan(text).knob(BLOCK).tunable


def test_a_parameter_that_is_set_in_a_branch_before_the_sizes_are_known_is_not_written() -> None:
    text = KERNEL + (
        "def host(x, num_warps=None):\n    if num_warps is None:\n        num_warps = 4\n    n = x.numel()\n"
        f"    _scale_kernel[{META}](x, n, BLOCK=128, num_warps=num_warps)\n"
    )
    with pytest.raises(NotApplicable, match=r"line 14: num_warps is set in a branch before"):
        write_table(text, scan(text), [table(num_warps=32)])


@pytest.mark.parametrize(
    ("host", "why"),
    [
        (f"def host(x, n):\n    num_warps = 4; _scale_kernel[{META}](x, n, BLOCK=64, num_warps=num_warps)\n",
         "line 13 sets num_warps and reads it: split its line"),
        (f"def host(x, n, num_warps=4): _scale_kernel[{META}](x, n, BLOCK=64, num_warps=num_warps)\n",
         "the body of host stands beside its name: split its line"),
        (f"def host(x, n):\n    _scale_kernel[{META}](x, n, BLOCK=64, num_warps=(warps := 4))\n    return warps\n",
         "line 13: it is assigned within the launch"),
    ],
)  # fmt: skip
def test_a_value_that_is_set_and_read_in_one_line_is_refused(host: str, why: str) -> None:
    assert scan(KERNEL + host).knob(WARPS).why_not == why


def test_a_value_whose_line_sets_something_else_as_well_is_replaced_below_that_line(machine: Any, tensor: Any) -> None:
    text = KERNEL + (
        "def host(x):\n    num_warps = 4; n = x.numel()\n"
        f"    _scale_kernel[{META}](x, n, BLOCK=128, num_warps=num_warps)\n"
    )
    written = write_table(text, scan(text), [table(num_warps=32)])

    assert machine.run(written, x=tensor((1024,)))[0].arguments["num_warps"] == 32
    assert machine.run(written, x=tensor((8192,))) == machine.run(text, x=tensor((8192,)))
    assert without_tables(written) == text


def test_a_launch_in_the_line_that_sets_its_sizes_gets_no_table() -> None:
    text = KERNEL + f"def host(x):\n    n = x.numel(); _scale_kernel[{META}](x, n, BLOCK=128)\n"
    with pytest.raises(NotApplicable, match=r"^line 13: _scale_kernel is launched in the same line: split"):
        write_table(text, scan(text), [table(num_warps=32)])


@pytest.mark.parametrize(
    "launch", ["functools.partial(_scale_kernel.run, grid=(1,), warmup=False, num_warps=4)(x, n)",
               "_scale_kernel.run(x, n, grid=(1,), warmup=False, num_warps=4)"],
)  # fmt: skip
def test_a_kernel_that_is_run_past_its_brackets_is_named(launch: str) -> None:
    said = scan(f"import functools\n{KERNEL}def host(x, n):\n    {launch}\n").not_covered
    assert said == ("line 14: _scale_kernel.run takes its grid and options as arguments",)
