"""The number of programs that loop over the rows, where the host code says it: it replaces what the source computes."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.contracts.audit import KnobKind, KnobOrigin
from warpsmith.source.scan import scan
from warpsmith.source.table import Band, SettingsTable, write_table
from warpsmith.source.tunable import make_tunable

STRIDED = """\
    for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        total += tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
"""
CAST = """\
    first = tl.program_id(axis=0).to(tl.int64)
    for row in tl.range(first, n_rows, tl.num_programs(axis=0), num_stages=2):
        total += tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
"""
CAST_LATER = """\
    program = tl.program_id(0)
    wide = tl.cast(program, tl.int64)
    for row in range(wide.to(tl.int64), n_rows, tl.num_programs(0)):
        total += tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
"""
STEPPED = """\
    row = tl.program_id(0)
    while row < n_rows:
        total += tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
        row += tl.num_programs(0)
"""
IN_RUNS = """\
    program = tl.program_id(0)
    first = program * rows_each
    for row in range(first, min(first + rows_each, n_rows)):
        total += tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
"""
COUNTED = """\
    for row in range(tl.program_id(0), n_rows, rows_each):
        total += tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols)
"""
SOURCE = """\
import torch
import triton
import triton.language as tl

PROGRAMS = 256
NUM_SMS = 100


@triton.jit
def _sum_kernel(x_ptr, out_ptr, n_rows, n_cols, rows_each, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
{loop}
    tl.store(out_ptr + tl.program_id(0) * n_cols + cols, total, mask=cols < n_cols)


def host(x, programs_given=64):
    n_rows, n_cols = x.shape
    block = triton.next_power_of_2(n_cols)
{host}
"""
PROGRAMS = "_sum_kernel.programs"
LAUNCH = "    _sum_kernel[({count},)](x, out, n_rows, n_cols, {each}, BLOCK=block)\n"


def source(host: str, loop: str = STRIDED) -> str:
    return SOURCE.format(loop=loop, host=host)


def launching(count: str, *, each: str = "0", buffer: str | None = None, before: str = "") -> str:
    return f"{before}    out = torch.empty(({buffer or count}, n_cols))\n" + LAUNCH.format(count=count, each=each)


@pytest.mark.parametrize(
    ("host", "loop", "programs", "origin"),
    [
        (launching("256", buffer="n_rows"), STRIDED, 256, KnobOrigin.LITERAL),
        (launching("256", buffer="n_rows"), CAST, 256, KnobOrigin.LITERAL),
        (launching("256", buffer="n_rows"), CAST_LATER, 256, KnobOrigin.LITERAL),
        (launching("PROGRAMS"), STEPPED, 256, KnobOrigin.OTHER),
        (launching("min(n_rows, 1024)"), STRIDED, 1000, KnobOrigin.FORMULA),
        (launching("NUM_SMS * 4"), STRIDED, 400, KnobOrigin.FORMULA),
        (launching("programs_given"), STRIDED, 64, KnobOrigin.PARAMETER),
        (launching("programs", before="    programs = min(n_rows, 512)\n"), STRIDED, 512, KnobOrigin.FORMULA),
        (launching("programs", before="    programs = 128\n"), STEPPED, 128, KnobOrigin.LITERAL),
        (
            launching("programs", each="triton.cdiv(n_rows, programs)", before="    programs = 128\n"),
            IN_RUNS,
            128,
            KnobOrigin.LITERAL,
        ),
        (
            launching("programs", each="programs", before="    programs = 128\n"),
            COUNTED,
            128,
            KnobOrigin.LITERAL,
        ),
        (
            "    count = 96\n    out = torch.empty((count, n_cols))\n    grid = (min(count, n_rows),)\n"
            "    _sum_kernel[grid](x, out, n_rows, n_cols, count, BLOCK=block)\n",
            COUNTED,
            96,
            KnobOrigin.LITERAL,
        ),
        (
            "    out = torch.empty((n_rows, n_cols))\n"
            "    _sum_kernel[lambda meta: (256,)](x, out, n_rows, n_cols, 0, BLOCK=block)\n",
            STRIDED,
            256,
            KnobOrigin.LITERAL,
        ),
    ],
    ids=["literal", "literal and casts", "casts by name", "constant, by while", "at most as many as rows", "four an SM",
         "parameter",
         "variable", "variable, by while", "so many rows each", "passed as the step", "capped by the rows", "lambda"],
)  # fmt: skip
def test_the_number_of_programs_is_replaced_with_all_that_follows_from_it(
    machine: Any, tensor: Any, host: str, loop: str, programs: int, origin: KnobOrigin
) -> None:
    text = source(host, loop)
    knob = scan(text).knob(PROGRAMS)
    tunable = make_tunable(text, [knob])
    x = tensor((1000, 64))

    (original,) = machine.run(text, x=x)
    (changed,) = machine.run(tunable, settings={PROGRAMS: 20}, x=x)

    assert (knob.kind, knob.origin, knob.tunable) == (KnobKind.PROGRAMS, origin, True)
    assert machine.run(tunable, x=x) == [original]
    assert (original.grid, changed.grid) == ((programs,), (20,))
    if original.arguments["out_ptr"].shape == (programs, 64):
        assert changed.arguments["out_ptr"].shape == (20, 64)
    if loop == IN_RUNS:
        assert (original.arguments["rows_each"], changed.arguments["rows_each"]) == (8, 50)
    if loop == COUNTED:
        assert changed.arguments["rows_each"] == 20


@pytest.mark.parametrize(
    ("host", "loop"),
    [
        (launching("n_rows"), STRIDED),
        (launching("x.shape[0]"), STRIDED),
        (launching("m", before="    m = x.shape[0]\n"), STRIDED),
        (launching("256", each="8", buffer="n_rows"), IN_RUNS),
        (launching("programs", each="8", before="    programs = 128\n"), COUNTED),
        (launching("256", buffer="n_rows"), STRIDED.replace("tl.num_programs(0)", "1")),
        (launching("256", buffer="n_rows"), STRIDED.replace("tl.num_programs(0)", "tl.num_programs(1)")),
        (launching("256", buffer="n_rows"), STRIDED.replace("tl.program_id(0), n", "0, n")),
        (
            launching("groups", each="n_rows // groups", before="    groups = 32\n"),
            f"    mean = tl.load(out_ptr + tl.program_id(0))\n{IN_RUNS}",
        ),
        (
            launching("groups", each="n_rows // groups", before="    groups = 32\n"),
            IN_RUNS.replace("x_ptr + row", "x_ptr + program * rows_each + row"),
        ),
    ],
    ids=["a program a row", "a size", "a size by name", "rows each that would not follow", "a step that would not",
         "a step of one", "another axis", "no program", "something read by program", "rows read by program"],
)  # fmt: skip
def test_a_grid_that_is_no_free_number_of_programs_is_no_such_knob(host: str, loop: str) -> None:
    assert PROGRAMS not in {knob.id for knob in scan(source(host, loop)).knobs}


def test_a_number_that_also_stands_elsewhere_is_refused_with_its_line() -> None:
    audit = scan(source(launching("256")))

    assert audit.knob(PROGRAMS).why_not == "the number 256 also stands in line 22, and may depend on it"
    assert any(PROGRAMS in said and "256" in said for said in audit.not_covered)


def test_what_is_derived_from_the_sm_count_keeps_its_own_knob() -> None:
    before = "    programs = torch.cuda.get_device_properties(0).multi_processor_count\n"
    names = {knob.name for knob in scan(source(launching("programs", before=before))).knobs}

    assert "programs_per_sm" in names and "programs" not in names


def test_a_table_replaces_the_number_of_programs(machine: Any, tensor: Any) -> None:
    text = source(launching("programs", before="    programs = min(n_rows, 512)\n"))
    table = SettingsTable(
        jit_function="_sum_kernel",
        host_function="host",
        capability=(9, 0),
        sm_count=132,
        itemsize=2,
        tensor="x",
        axes=("n_cols", "n_rows"),
        bands=(Band(ranges=((1, 64), (1, 2000)), settings={"programs": 264}),),
    )
    written = write_table(text, scan(text), [table])

    (launch,) = machine.run(written, x=tensor((1000, 64)))

    assert (launch.grid, launch.arguments["out_ptr"].shape) == ((264,), (264, 64))
    assert machine.run(written, x=tensor((1000, 128))) == machine.run(text, x=tensor((1000, 128)))


@pytest.mark.parametrize("loop", [
    "    a = b\n    b = a\n    for row in range(a, n_rows, b):\n        pass\n",
    "    a = tl.cast()\n    for row in range(a, n_rows, a):\n        pass\n",
    "    a = a.to(tl.int64)\n    for row in range(a, n_rows, a):\n        pass\n",
])  # fmt: skip
def test_a_loop_over_nothing_sensible_ends_nothing(loop: str) -> None:
    assert PROGRAMS not in {knob.id for knob in scan(source(launching("256"), loop)).knobs}
