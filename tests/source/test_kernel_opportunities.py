"""What a person is told about a kernel's loops, addresses and arithmetic, and where the audit keeps quiet."""

from __future__ import annotations

import pytest

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.scan import scan

HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
PARAMETERS = "x_ptr, w_ptr, y_ptr, stride, n_rows, n_cols, BLOCK: tl.constexpr"


def kernel(body: str, parameters: str = PARAMETERS, arguments: str = "x, w, y, x.stride(0), 8, 8, BLOCK=64") -> str:
    inside = "".join(f"    {line}\n" if line else "\n" for line in body.splitlines())
    host = f"def host(x, w, y):\n    _kernel[(8,)]({arguments})\n"
    return f"{HEAD}@triton.jit\ndef _kernel({parameters}):\n{inside}\n\n{host}"


def found(source: str, kind: OpportunityKind) -> list[Opportunity]:
    return [o for o in scan(source).opportunities if o.kind is kind]


# Loads that do not change in a loop

INVARIANT = """\
cols = tl.arange(0, BLOCK)
for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
    mask = cols < n_cols
    w = tl.load(w_ptr + cols, mask=mask)
    x = tl.load(x_ptr + row * stride + cols, mask=mask)
    tl.store(y_ptr + row * stride + cols, x * w, mask=mask)
"""


def test_a_load_that_never_changes_in_a_loop_that_stores_is_named() -> None:
    (said,) = found(kernel(INVARIANT), OpportunityKind.LOOP_INVARIANT_LOAD)

    assert (said.function, said.line) == ("_kernel", 11)
    assert (
        said.what == "w_ptr is loaded in every pass of the loop in line 9, and neither address nor mask changes in it"
    )


def test_a_while_loop_keeps_an_invariant_load_even_without_a_store() -> None:
    body = (
        "row = tl.program_id(0)\ntotal = 0.0\nwhile row < n_rows:\n    total += tl.load(w_ptr)\n    row += 1\n"
        "tl.store(y_ptr, total)"
    )

    assert [o.line for o in found(kernel(body), OpportunityKind.LOOP_INVARIANT_LOAD)] == [11]


def test_the_outermost_loop_in_which_nothing_changes_is_the_one_named() -> None:
    body = (
        "for row in range(n_rows):\n    for start in range(0, n_cols, BLOCK):\n        w = tl.load(w_ptr)\n"
        "        tl.store(y_ptr + row * stride + start, w)"
    )

    (said,) = found(kernel(body), OpportunityKind.LOOP_INVARIANT_LOAD)

    assert "the loop in line 8," in said.what


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    tl.store(y_ptr + row * stride + cols, x * w, mask=mask)\n", "    y = x * w\n"),
        ("w_ptr + cols, mask=mask", "w_ptr + cols + row, mask=mask"),
        ("w_ptr + cols, mask=mask", "w_ptr + cols, mask=cols < row"),
        ("tl.store(y_ptr", "tl.store(w_ptr"),
        ("w_ptr + cols, mask=mask", "w_ptr + cols, mask=mask, volatile=True"),
        ("    mask = cols", "    cols += BLOCK\n    mask = cols"),
        ("    w = tl.load(w_ptr", "    if row == 0:\n        w = tl.load(w_ptr"),
        ("    w = tl.load(w_ptr + cols", "    at = tl.load(y_ptr)\n    w = tl.load(w_ptr + at + cols"),
    ],
    ids=[
        "Triton takes it out itself",
        "the address changes",
        "the mask changes",
        "the loop stores to it",
        "volatile",
        "what the address is made of changes",
        "in one pass only",
        "the address is loaded from what the loop stores to",
    ],
)
def test_a_load_that_may_change_is_left_alone(old: str, new: str) -> None:
    assert old in INVARIANT

    assert found(kernel(INVARIANT.replace(old, new)), OpportunityKind.LOOP_INVARIANT_LOAD) == []


def test_polling_memory_is_no_invariant_load() -> None:
    body = "flag = 0\nwhile flag == 0:\n    flag = tl.load(w_ptr)\ntl.store(y_ptr, flag)"

    assert found(kernel(body), OpportunityKind.LOOP_INVARIANT_LOAD) == []


# Several passes over the same data

PASSES = """\
row = x_ptr + tl.program_id(0) * stride
cols = tl.arange(0, BLOCK)
total = 0.0
for start in range(0, n_cols, BLOCK):
    at = start + cols
    total += tl.sum(tl.load(row + at, mask=at < n_cols))
for begin in tl.range(0, n_cols, BLOCK, num_stages=2):
    here = begin + cols
    x = tl.load(row + here, mask=here < n_cols)
    tl.store(y_ptr + here, x / total, mask=here < n_cols)
"""


def test_two_loops_that_load_the_same_addresses_are_a_repeated_pass() -> None:
    (said,) = found(kernel(PASSES), OpportunityKind.REPEATED_PASS)

    assert (said.function, said.line) == ("_kernel", 14)
    assert said.what == "the loops in lines 11 and 14 each load x_ptr over range(0, n_cols, BLOCK)"


def test_three_passes_are_one_finding() -> None:
    third = "for i in range(0, n_cols, BLOCK):\n    total += tl.sum(tl.load(row + (i + cols)))\n"

    (said,) = found(kernel(PASSES + third), OpportunityKind.REPEATED_PASS)

    assert said.what.startswith("the loops in lines 11, 14 and 18 each load x_ptr")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    x = tl.load(row + here", "    x = tl.load(w_ptr + here"),
        ("here = begin + cols", "here = begin + cols + n_cols"),
        ("tl.range(0, n_cols, BLOCK", "tl.range(0, n_rows, BLOCK"),
        ("tl.load(row + here, mask=here < n_cols)", "tl.load(x_ptr)"),
    ],
    ids=["another tensor", "another part of it", "another range", "a scalar"],
)
def test_loops_over_different_data_are_no_repeated_pass(old: str, new: str) -> None:
    assert old in PASSES

    assert found(kernel(PASSES.replace(old, new)), OpportunityKind.REPEATED_PASS) == []


@pytest.mark.parametrize(
    "between",
    ["else:\n{loop}", "    return\nif n_rows:\n{loop}"],
    ids=["the other branch", "after a branch that leaves"],
)
def test_loops_of_which_only_one_can_run_are_no_repeated_pass(between: str) -> None:
    loop = (
        "    for start in range(0, n_cols, BLOCK):\n        at = start + tl.arange(0, BLOCK)\n"
        "        x = tl.load(x_ptr + at)\n"
    )

    assert found(kernel(f"if n_rows > 8:\n{loop}{between.format(loop=loop)}"), OpportunityKind.REPEATED_PASS) == []
    assert len(found(kernel(f"if n_rows > 8:\n{loop}{loop}"), OpportunityKind.REPEATED_PASS)) == 1


# Steps between neighbouring elements

STRIDED = "row = tl.program_id(0)\ncols = tl.arange(0, BLOCK)\nx = tl.load(x_ptr + row * n_cols + cols * stride)\n"


@pytest.mark.parametrize(
    ("body", "passed"),
    [
        (STRIDED + "tl.store(y_ptr + row, tl.sum(x))", "x.stride(0)"),
        (
            "at = x_ptr + tl.program_id(0)\nat += tl.arange(0, BLOCK).to(tl.int64) * stride\nx = tl.load(at)",
            "x.stride(1)",
        ),
        ("x = tl.load(x_ptr + tl.arange(0, BLOCK)[None, :] * stride)", "x.stride(1)"),
    ],
    ids=["a row's columns", "a pointer that moves", "the only axis of a tile"],
)
def test_a_stride_between_neighbours_that_nothing_keeps_at_1_is_named(body: str, passed: str) -> None:
    source = kernel(body, arguments=f"x, w, y, {passed}, 8, 8, BLOCK=64")

    (said,) = found(source, OpportunityKind.UNCOALESCED)

    assert said.what == (
        f"if stride ({passed}) is not 1, neighbouring elements of x_ptr lie that far apart, and nothing in the host "
        "code makes it 1"
    )


@pytest.mark.parametrize(
    ("body", "host"),
    [
        (STRIDED, "_kernel[(8,)](x, w, y, 1, 8, 8, BLOCK=64)"),
        (STRIDED, "x = x.contiguous()\n    _kernel[(8,)](x, w, y, x.stride(-1), 8, 8, BLOCK=64)"),
        (STRIDED, "assert x.stride(-1) == 1\n    _kernel[(8,)](x, w, y, x.stride(-1), 8, 8, BLOCK=64)"),
        (STRIDED, "x = torch.empty(8)\n    _kernel[(8,)](x, w, y, x.stride(0), 8, 8, BLOCK=64)"),
        ("x = tl.load(x_ptr + tl.program_id(0) * stride + tl.arange(0, BLOCK))", ""),
        ("x = tl.load(x_ptr + tl.program_id(0) * stride)", ""),
        ("x = tl.load(x_ptr + tl.arange(0, BLOCK)[:, None] * stride + tl.arange(0, BLOCK)[None, :] * n_cols)", ""),
        (
            "r = tl.arange(0, BLOCK)\ns = tl.load(w_ptr + r * stride)\n"
            "x = tl.load(x_ptr + r[:, None] * stride + tl.arange(0, BLOCK)[None, :])",
            "",
        ),
        (STRIDED.replace("cols * stride", "cols * 2"), ""),
        (STRIDED + "z = tl.dot(x, x)", ""),
        (STRIDED.replace("cols * stride", "tl.load(w_ptr + cols) * stride"), ""),
    ],
    ids=[
        "a literal 1",
        "made contiguous",
        "asserted",
        "allocated with one dimension",
        "the row's stride",
        "a scalar",
        "a tile with two strides",
        "one value a row beside a tile",
        "a literal step",
        "a matrix product",
        "an index that is loaded",
    ],
)
def test_steps_that_are_1_or_that_nothing_can_be_said_of_are_left_alone(body: str, host: str) -> None:
    source = kernel(body)
    if host:
        source = source.replace("_kernel[(8,)](x, w, y, x.stride(0), 8, 8, BLOCK=64)", host)

    assert found(source, OpportunityKind.UNCOALESCED) == []


# 64-bit arithmetic


@pytest.mark.parametrize(
    ("body", "line", "what"),
    [
        ("x = tl.load(x_ptr).to(tl.float64)\ntl.store(y_ptr, x)", 8, "it computes in fp64 in line 8"),
        ("x = tl.zeros((BLOCK,), dtype=tl.float64)", 8, "it computes in fp64 in line 8"),
        (
            "cols = tl.arange(0, BLOCK).to(tl.int64)\nx = tl.load(x_ptr + cols)",
            8,
            "the offsets of a whole block are widened to int64 in line 8",
        ),
        (
            "for i in range(0, n_cols, BLOCK):\n    at = tl.cast(i + tl.arange(0, BLOCK), tl.int64)\n"
            "    x = tl.load(x_ptr + at)",
            9,
            "the offsets of a whole block are widened to int64 in line 9",
        ),
    ],
)
def test_arithmetic_in_64_bits_for_every_element_is_named(body: str, line: int, what: str) -> None:
    (said,) = found(kernel(body), OpportunityKind.WIDE_ARITHMETIC)

    assert (said.function, said.line, said.what) == ("_kernel", line, what)


@pytest.mark.parametrize(
    "body",
    [
        "row = tl.program_id(0).to(tl.int64)\nx = tl.load(x_ptr + row * stride + tl.arange(0, BLOCK))",
        "x = tl.load(x_ptr)\nif x.dtype == tl.float64:\n    x = x.to(tl.float64)",
        "for i in range(0, n_rows, BLOCK):\n    rows = (i + tl.arange(0, BLOCK)).to(tl.int64)\n"
        "    x = tl.load(x_ptr + rows[:, None] * stride + tl.arange(0, BLOCK)[None, :])",
        "for i in range(0, n_rows):\n    at = tl.load(w_ptr + i + tl.arange(0, BLOCK)).to(tl.int64)\n"
        "    x = tl.load(x_ptr + at)",
        "if LONG_INDEXING:\n    at = tl.arange(0, BLOCK).to(tl.int64)\n    x = tl.load(x_ptr + at)",
        "at = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)\nx = tl.load(x_ptr + at)",
    ],
    ids=["a scalar", "where the input is fp64", "a product may overflow", "loaded", "asked for", "once, in no loop"],
)
def test_widening_that_is_cheap_or_needed_is_left_alone(body: str) -> None:
    assert found(kernel(body), OpportunityKind.WIDE_ARITHMETIC) == []


def test_a_float64_tensor_on_the_way_to_a_launch_is_named_and_one_of_a_reference_is_not() -> None:
    source = kernel("tl.store(y_ptr, tl.load(x_ptr))").replace(
        "    _kernel[", "    w = x.to(torch.float64)\n    _kernel["
    )
    source += "\n\ndef reference(x):\n    return x.double().sum()\n"

    (said,) = found(source, OpportunityKind.WIDE_ARITHMETIC)

    assert (said.function, said.line) == ("host", 12)


# Blocks that do not follow the row

ROW = """\
cols = tl.arange(0, BLOCK)
x = tl.load(x_ptr + tl.program_id(0) * stride + cols, mask=cols < n_cols)
tl.store(y_ptr + tl.program_id(0) * stride + cols, x, mask=cols < n_cols)
"""
STEPS = """\
for start in range(0, n_cols, BLOCK):
    cols = start + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * stride + cols, mask=cols < n_cols)
"""


@pytest.mark.parametrize(
    ("body", "setting", "what"),
    [
        (ROW, "block = 1024", "is always 1024"),
        (ROW, "block = max(1024, triton.next_power_of_2(x.shape[1]))", "is never less than 1024"),
        (ROW, "block = triton.next_power_of_2(max(x.shape[1], 512))", "is never less than 512"),
        (ROW, "block = WIDTH", "is always 4096"),
        (ROW, "block, warps = pick(8)", "is always 2048"),
        (STEPS, "block = 2048", "is always 2048"),
    ],
)
def test_a_block_that_is_wide_whatever_the_row_is_named(body: str, setting: str, what: str) -> None:
    source = kernel(body).replace("    _kernel[", f"    {setting}\n    _kernel[").replace("BLOCK=64", "BLOCK=block")
    source += "\n\nWIDTH = 4096\n\n\ndef pick(n):\n    return 2048, 4\n"

    (said,) = found(source, OpportunityKind.SHORT_ROWS)

    assert (said.function, said.what) == ("host", f"BLOCK of _kernel {what}, however short a row is")


@pytest.mark.parametrize(
    ("body", "setting"),
    [
        (ROW, "block = triton.next_power_of_2(x.shape[1])"),
        (ROW, "block = max(16, triton.next_power_of_2(x.shape[1]))"),
        (ROW, "block = min(1024, triton.next_power_of_2(x.shape[1]))"),
        (ROW, "block = 128"),
        (ROW, "block = elsewhere(x)"),
        (ROW.replace(", mask=cols < n_cols", ""), "block = 1024"),
        (
            "cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\nx = tl.load(x_ptr + cols, mask=cols < n_cols)",
            "block = 1024",
        ),
        ("for start in range(0, n_rows, BLOCK):\n    x = tl.load(x_ptr + start + tl.arange(0, BLOCK))", "block = 1024"),
    ],
    ids=[
        "it follows the row",
        "a small floor",
        "a ceiling",
        "narrow",
        "a helper of another module",
        "the row is as wide as the block",
        "it tiles all elements",
        "one program walks along everything",
    ],
)
def test_a_block_that_follows_the_row_or_tiles_is_left_alone(body: str, setting: str) -> None:
    source = kernel(body).replace("    _kernel[", f"    {setting}\n    _kernel[").replace("BLOCK=64", "BLOCK=block")

    assert found(source, OpportunityKind.SHORT_ROWS) == []


# Grids that follow the SM count


@pytest.mark.parametrize(
    "helper", ["device_sm_count(x.device)", "get_npu_core_count()", "triton_runtime.get_num_sms()"]
)
def test_a_count_that_a_helper_of_another_module_gives_is_an_sm_count(helper: str) -> None:
    body = (
        "program = tl.program_id(0)\nfirst = program * n_rows\nlast = min((program + 1) * n_rows, n_cols)\n"
        "for row in range(first, last):\n    x = tl.load(x_ptr + row * stride + tl.arange(0, BLOCK))\n"
        "    tl.store(y_ptr + row, tl.sum(x))"
    )
    source = kernel(body).replace("    _kernel[(8,)]", f"    count = {helper}\n    grid = (count,)\n    _kernel[grid]")

    (said,) = found(source, OpportunityKind.ONE_PROGRAM_PER_SM)

    assert (said.function, said.line) == ("_kernel", 17)
    assert scan(source).launches[0].grid == "(count,)"


def test_a_persistent_matrix_product_fills_an_sm_by_itself() -> None:
    body = (
        "for tile in range(tl.program_id(0), n_rows, 8):\n    y = tl.dot(tl.load(x_ptr), tl.load(w_ptr))\n"
        "    s = tl.sum(y)"
    )
    source = kernel(body).replace("    _kernel[(8,)]", "    count = num_sms()\n    _kernel[(count,)]")

    assert found(source, OpportunityKind.ONE_PROGRAM_PER_SM) == []
