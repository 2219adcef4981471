"""Settings tables in the launch styles that libraries have: written small, formatted, replaced, and taken out again."""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from warpsmith.source.refusal import NotApplicable
from warpsmith.source.scan import scan
from warpsmith.source.syntax import equal_syntax_tree
from warpsmith.source.table import Band, SettingsTable, without_settings, without_tables, write_table

HEAD = '''\
"""Row kernels."""

import math

import torch
import triton
import triton.language as tl

from library.settings import calculate_settings


@triton.jit
def _forward_kernel(y_ptr, x_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    cols = tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + tl.program_id(0) * n_cols + cols, mask=cols < n_cols)
    tl.store(y_ptr + tl.program_id(0) * n_cols + cols, x, mask=cols < n_cols)


@triton.jit
def _backward_kernel(dx_ptr, dw_ptr, dy_ptr, n_rows, n_cols, rows_per_program, BLOCK_SIZE: tl.constexpr):
    cols = tl.arange(0, BLOCK_SIZE)
    dw = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    first = tl.program_id(0) * rows_per_program
    for row in range(first, min(first + rows_per_program, n_rows)):
        dy = tl.load(dy_ptr + row * n_cols + cols, mask=cols < n_cols)
        dw += dy
        tl.store(dx_ptr + row * n_cols + cols, dy, mask=cols < n_cols)
    tl.store(dw_ptr + tl.program_id(0) * n_cols + cols, dw, mask=cols < n_cols)


'''

FROM_A_TUPLE = (
    HEAD
    + '''\
def norm_forward(x):
    shape = x.shape
    x = x.view(-1, shape[-1])
    n_rows, n_cols = x.shape
    BLOCK_SIZE, num_warps = calculate_settings(n_cols)
    y = torch.empty_like(x)
    with torch.cuda.device(x.device):
        _forward_kernel[(n_rows,)](
            y,
            x,
            n_cols,
            BLOCK_SIZE=BLOCK_SIZE,
            num_warps=num_warps,  # from the width
        )
    return y.view(*shape), BLOCK_SIZE, num_warps


# The gradient of the weight is summed in two steps.
def norm_backward(dy, BLOCK_SIZE, num_warps):
    """The gradients of the input and the weight."""
    n_rows, n_cols = dy.shape
    sm_count = 1
    if dy.device.type == "cuda":
        sm_count = torch.cuda.get_device_properties(dy.device).multi_processor_count
    dw = torch.empty((sm_count, n_cols), dtype=torch.float32, device=dy.device)
    dx = torch.empty_like(dy)
    rows_per_program = math.ceil(n_rows / sm_count)
    kernel_args = {"num_warps": num_warps}
    _backward_kernel[(sm_count,)](
        dx,
        dw,
        dy,
        n_rows,
        n_cols,
        rows_per_program,
        BLOCK_SIZE=BLOCK_SIZE,
        **kernel_args,
    )
    return dx, dw.sum(dim=0)


class NormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y, ctx.BLOCK_SIZE, ctx.num_warps = norm_forward(x)
        return y

    @staticmethod
    def backward(ctx, dy):
        return norm_backward(dy, ctx.BLOCK_SIZE, ctx.num_warps)[0]
'''
)

IN_AN_AUTOGRAD_FUNCTION = (
    HEAD
    + '''\
class CopyFunction(torch.autograd.Function):
    """Both passes launch by themselves."""

    @staticmethod
    def forward(ctx, x):
        n_rows, n_cols = x.shape
        ctx.num_warps = 8 if n_cols > 2048 else 4
        y = torch.empty_like(x)
        grid = (n_rows,)
        _forward_kernel[grid](y, x, n_cols, BLOCK_SIZE=triton.next_power_of_2(n_cols), num_warps=ctx.num_warps)
        return y

    @staticmethod
    def backward(ctx, dy):
        n_rows, n_cols = dy.shape
        programs = torch.cuda.get_device_properties(dy.device).multi_processor_count
        dx, dw = torch.empty_like(dy), dy.new_empty((programs, n_cols))
        rows_per_program = triton.cdiv(n_rows, programs)
        BLOCK_SIZE = triton.next_power_of_2(n_cols)
        num_warps = 4 if BLOCK_SIZE < 2048 else 8
        _backward_kernel[(programs,)](
            dx, dw, dy, n_rows, n_cols, rows_per_program, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps
        )
        return dx
'''
)

TILED = """\
import torch
import triton
import triton.language as tl


@triton.jit
def _scale_kernel(x_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) * 2, mask=offsets < n)


def host(x):
    n = x.numel()
    BLOCK_SIZE = 1024
    _scale_kernel[(triton.cdiv(n, BLOCK_SIZE),)](x, n, BLOCK_SIZE=BLOCK_SIZE, num_warps=4)
"""

WIDE, NARROW = (4096, 8192), (1024, 2048)
ROWS = (64, 4096)


def table(jit: str, host: str, tensor: str, *axes: str, itemsize: int = 2, **settings: int) -> SettingsTable:
    ranges = [(WIDE, ROWS, ROWS), (NARROW, ROWS, ROWS)][: 2 if axes else 1]
    bands = tuple(Band(ranges=each[: len(axes)], settings=settings) for each in ranges)
    return SettingsTable(
        jit_function=jit, host_function=host, capability=(9, 0), sm_count=132, itemsize=itemsize, tensor=tensor,
        axes=axes, bands=bands,
    )  # fmt: skip


AXES = ("n_cols", "n_rows")
STYLES = {
    "settings from a tuple, buffers of one row an SM": (
        FROM_A_TUPLE,
        [
            table("_forward_kernel", "norm_forward", "x", *AXES, num_warps=16),
            table("_backward_kernel", "norm_backward", "dy", *AXES, num_warps=16, programs_per_sm=2),
        ],
    ),
    "static methods of an autograd function": (
        IN_AN_AUTOGRAD_FUNCTION,
        [
            table("_forward_kernel", "forward", "x", "n_cols", num_warps=16),
            table("_backward_kernel", "backward", "dy", "n_cols", num_warps=16, programs_per_sm=2),
        ],
    ),
    "a tile and one size": (TILED, [table("_scale_kernel", "host", "x", "n", num_warps=8, BLOCK_SIZE=2048)]),
    "no size at all": (TILED, [table("_scale_kernel", "host", "x", num_warps=8, BLOCK_SIZE=2048)]),
    "one size forward and two backward": (
        FROM_A_TUPLE,
        [
            table("_forward_kernel", "norm_forward", "x", "n_cols", num_warps=16),
            table("_backward_kernel", "norm_backward", "dy", *AXES, num_warps=16, num_stages=2),
        ],
    ),
}  # fmt: skip


@pytest.fixture(params=STYLES.values(), ids=STYLES.keys())
def style(request: pytest.FixtureRequest) -> tuple[str, list[SettingsTable]]:
    found: tuple[str, list[SettingsTable]] = request.param
    return found


def written(source: str, *tables: SettingsTable) -> str:
    return write_table(source, scan(source), tables)


def ruff(command: list[str], text: str) -> str:
    config = Path(__file__).resolve().parents[2] / "pyproject.toml"
    given = [sys.executable, "-m", "ruff", *command, "--config", str(config), "--stdin-filename", "kernel.py", "-"]
    return subprocess.run(given, input=text, capture_output=True, text=True).stdout


def test_a_table_leaves_every_line_of_the_source_but_those_that_read_a_setting(
    style: tuple[str, list[SettingsTable]],
) -> None:
    source, tables = style
    diff = difflib.ndiff(source.splitlines(), written(source, *tables).splitlines())
    gone = [line for line in diff if line.startswith("- ")]
    assert all("num_warps=" in line for line in gone)
    assert len(gone) <= 1


def test_what_is_written_is_formatted_where_the_source_was(style: tuple[str, list[SettingsTable]]) -> None:
    source, tables = style
    assert ruff(["format"], source) == source
    text = written(source, *tables)
    assert ruff(["format"], text) == text


def test_a_second_writing_replaces_the_first_and_taking_the_tables_out_gives_the_source_back(
    style: tuple[str, list[SettingsTable]],
) -> None:
    source, tables = style
    once = written(source, *tables)
    assert once != source
    assert written(once, *tables) == once
    assert without_tables(once) == source


def test_taking_tables_out_of_a_source_without_any_changes_nothing() -> None:
    assert without_tables(FROM_A_TUPLE) == FROM_A_TUPLE


@pytest.mark.parametrize(
    ("n", "num_warps", "block"), [(1024, 8, 2048), (8192, 8, 2048), (1023, 4, 1024), (3000, 4, 1024)]
)
def test_a_table_of_one_size_holds_inside_its_bands_alone(
    machine: Any, tensor: Any, n: int, num_warps: int, block: int
) -> None:
    text = written(TILED, table("_scale_kernel", "host", "x", "n", num_warps=8, BLOCK_SIZE=2048))
    (launch,) = machine.run(text, x=tensor((n,)))
    assert (launch.arguments["num_warps"], launch.arguments["BLOCK_SIZE"]) == (num_warps, block)
    assert launch.grid == (-(-n // block),)


def test_a_table_of_no_size_holds_for_its_gpu_and_element_size_alone(machine: Any, tensor: Any) -> None:
    text = written(TILED, table("_scale_kernel", "host", "x", num_warps=8))
    assert machine.run(text, x=tensor((5,)))[0].arguments["num_warps"] == 8
    assert machine.run(text, x=tensor((5,), itemsize=4))[0].arguments["num_warps"] == 4
    machine.capability = (8, 0)
    assert machine.run(text, x=tensor((5,)))[0].arguments["num_warps"] == 4


def test_a_table_may_be_keyed_by_an_expression_of_the_launch(machine: Any, tensor: Any) -> None:
    text = written(TILED, table("_scale_kernel", "host", "x", "x.numel()", num_warps=8))
    assert machine.run(text, x=tensor((1024,)))[0].arguments["num_warps"] == 8


def test_a_table_of_another_number_of_sizes_brings_the_others_of_the_file_into_its_form(
    machine: Any, tensor: Any
) -> None:
    rows = FROM_A_TUPLE.replace("from library.settings import calculate_settings\n", "").replace(
        "calculate_settings(n_cols)", "triton.next_power_of_2(n_cols), 4"
    ).replace("def norm_backward(dy, BLOCK_SIZE, num_warps)", "def host(dy, BLOCK_SIZE=4096, num_warps=4)")  # fmt: skip
    backward = table("_backward_kernel", "host", "dy", "n_cols", "n_rows", num_warps=16)
    forward = table("_forward_kernel", "norm_forward", "x", "n_cols", num_warps=16)
    source = rows.split("class NormFunction")[0].rstrip().replace("dw.sum(dim=0)", "dw") + "\n"

    together = written(written(source, backward), forward)

    assert together == written(source, forward, backward)
    assert without_tables(together) == source
    module_source = together.replace("with torch.cuda.device(x.device):", "if True:")
    assert machine.run(module_source, dy=tensor((100, 5000)))[0].arguments["num_warps"] == 16
    assert machine.run(module_source, dy=tensor((5000, 5000)))[0].arguments["num_warps"] == 4


def test_a_table_with_entries_for_another_gpu_that_are_keyed_otherwise_is_not_replaced() -> None:
    elsewhere = table("_scale_kernel", "host", "x", num_warps=8).model_copy(update={"capability": (8, 0)})
    with pytest.raises(NotApplicable, match="entries for another GPU that are keyed by nothing, and not by n"):
        written(written(TILED, elsewhere), table("_scale_kernel", "host", "x", "n", num_warps=8))


def test_every_band_has_a_range_for_each_size() -> None:
    with pytest.raises(ValueError, match="expected a range for each of"):
        SettingsTable.model_validate({**dict(table("_scale_kernel", "host", "x", num_warps=8)), "axes": ("n",)})


OWN_NAMES = {
    "_gpu_key": 'def _gpu_key(dev):\n    return "sm%d" % dev\n\n\nNAME = _gpu_key(0)\n',
    "_tuned_settings": 'def _tuned_settings():\n    return {"num_warps": 4}\n\n\nNAME = _tuned_settings()\n',
    "_SettingsTable": "_SettingsTable = dict\n",
    "_HOST_SETTINGS": "_HOST_SETTINGS = {}\n",
}
ALL_OWN = "_HOST_SETTINGS: dict[str, int] = {}\n\n\n" + "\n\n".join(
    OWN_NAMES[name] for name in ("_gpu_key", "_tuned_settings")
)


@pytest.mark.parametrize(
    ("name", "own"),
    [
        *OWN_NAMES.items(),
        ("_gpu_key", "class _gpu_key:\n    pass\n"),
        ("_gpu_key", "from library.gpus import key as _gpu_key\n"),
        ("_tuned_settings", "if True:\n    from settings import _tuned_settings\n"),
        ("_SettingsTable", "try:\n    import _SettingsTable\nexcept ImportError:\n    pass\n"),
        ("_tuned_settings", "with open('settings') as _tuned_settings:\n    pass\n"),
    ],
)
def test_a_definition_of_the_source_s_own_is_never_taken_for_the_look_up(name: str, own: str) -> None:
    source = TILED.replace("def host", f"{own}\n\ndef host")
    line = next(n for n, text in enumerate(source.split("\n"), 1) if name in text)

    with pytest.raises(NotApplicable, match=f"^line {line}: {name} is the source's own, .* rename it first$"):
        written(source, table("_scale_kernel", "host", "x", "n", num_warps=8))
    assert without_tables(source) == source
    assert without_settings(source, "_scale_kernel") == source


def test_taking_tables_out_leaves_a_source_that_has_all_our_names_alone() -> None:
    source = TILED.replace("def host", f"{ALL_OWN}\n\ndef host")
    assert without_tables(source) == source


def test_a_look_up_that_the_author_changed_is_his_own() -> None:
    once = written(TILED, table("_scale_kernel", "host", "x", "n", num_warps=8))
    changed = once.replace('device.type != "cuda"', 'device.type not in ("cuda", "meta")')
    assert changed != once

    assert without_tables(changed) == changed
    with pytest.raises(NotApplicable, match="is the source's own"):
        written(changed, table("_scale_kernel", "host", "x", "n", num_warps=4))


def test_a_look_up_that_other_code_reads_stays() -> None:
    once = written(TILED, table("_scale_kernel", "host", "x", "n", num_warps=8))
    without = without_tables(f"{once}\n\nHERE = _gpu_key(0)\n")

    assert "def _gpu_key" in without and "import functools" in without
    assert "_HOST_SETTINGS" not in without


def test_an_argument_that_needs_its_parentheses_is_put_back_in_them() -> None:
    source = TILED.replace("num_warps=4", "num_warps=(\n        4 if n > 8\n        else 2\n    )")
    wanted = table("_scale_kernel", "host", "x", "n", num_warps=8)
    once = written(source, wanted)

    assert equal_syntax_tree(written(once, wanted), once)
    assert equal_syntax_tree(without_tables(once), source)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"settings": {}}, "expected a setting in every band, found none"),
        ({"settings": {"num_warps": 7}}, "expected num_warps to be one of .*, found 7"),
        ({"settings": {"num_warps": 64}}, "expected num_warps to be one of .*, found 64"),
        ({"settings": {"num_stages": 0}}, "expected settings of 1 and more, found {'num_stages': 0}"),
        ({"ranges": ((64, 32),)}, r"expected ranges from their low end to their high end, found \(64, 32\)"),
    ],
)
def test_a_band_that_no_launch_could_take_is_refused(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Band.model_validate({"ranges": ((32, 64),), "settings": {"num_warps": 8}, **changed})


def test_taking_the_last_table_of_a_jit_function_takes_the_look_up_as_well() -> None:
    forward = table("_forward_kernel", "norm_forward", "x", *AXES, num_warps=16)
    backward = table("_backward_kernel", "norm_backward", "dy", *AXES, num_warps=16)
    both = written(FROM_A_TUPLE, forward, backward)

    one = without_settings(both, "_forward_kernel")
    assert "_NORM_BACKWARD_SETTINGS" in one and "def _tuned_settings" in one and "import functools" in one
    assert without_settings(one, "_backward_kernel") == without_tables(both)


def test_a_variable_of_the_function_around_is_told_as_such() -> None:
    head, host = TILED.split("def host(x):\n")
    inner = "".join(f"    {line}" for line in host.splitlines(keepends=True)[1:])
    source = f"{head}def host(x):\n    n = x.numel()\n\n    def inner():\n{inner}\n    inner()\n"
    with pytest.raises(NotApplicable, match=r"^inner takes x from the function around it, and a table reads"):
        written(source, table("_scale_kernel", "inner", "x", "n", num_warps=8))
