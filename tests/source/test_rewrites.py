"""Automatic rewrites: the lines they change, what they leave alone, and that they do nothing twice."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable
from typing import Any

import pytest

from warpsmith.contracts.audit import KnobKind, OpportunityKind
from warpsmith.source.admit import admit
from warpsmith.source.rewrites import (
    NotApplicable,
    add_eviction_policy,
    allocate_empty,
    parametrise_loop_stages,
)
from warpsmith.source.scan import scan
from warpsmith.source.tunable import make_tunable

SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def _norm_kernel(
    x_ptr,  # (n_rows, n_cols)
    y_ptr,
    w_ptr,
    partial_ptr,
    n_rows,
    n_cols,
    BLOCK: tl.constexpr,  # covers a row
):
    program = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    w = tl.load(w_ptr + cols, mask=mask)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(program, n_rows, tl.num_programs(0)):
        scale = tl.load(y_ptr + row)
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask)
        tl.store(x_ptr + row * n_cols + cols, x * w * scale, mask=mask)
        total += x
    tl.store(partial_ptr + program * n_cols + cols, total, mask=mask)


def host(x, y, w):
    n_rows, n_cols = x.shape
    programs = torch.cuda.get_device_properties(x.device.index).multi_processor_count
    partial = torch.zeros((programs, n_cols), dtype=torch.float32)
    _norm_kernel[(programs,)](x, y, w, partial, n_rows, n_cols, BLOCK=triton.next_power_of_2(n_cols))
    return partial
"""


def hinted(source: str) -> str:
    (found,) = [o for o in scan(SOURCE).opportunities if o.kind is OpportunityKind.STREAM_ONCE]
    return add_eviction_policy(source, found)


def empty(source: str) -> str:
    found = [o for o in scan(SOURCE).opportunities if o.kind is OpportunityKind.NEEDLESS_INITIALISATION]
    return allocate_empty(source, found[0])


REWRITES: dict[str, tuple[Callable[[str], str], list[str]]] = {
    "allocate_empty": (
        empty,
        [
            "-    partial = torch.zeros((programs, n_cols), dtype=torch.float32)",
            "+    # Not zeroed: every element is stored before it is read.",
            "+    partial = torch.empty((programs, n_cols), dtype=torch.float32)",
        ],
    ),
    "add_eviction_policy": (
        hinted,
        [
            "-    w = tl.load(w_ptr + cols, mask=mask)",
            '+    w = tl.load(w_ptr + cols, mask=mask, eviction_policy="evict_last")',
            "-        x = tl.load(x_ptr + row * n_cols + cols, mask=mask)",
            '+        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, eviction_policy="evict_first")',
        ],
    ),
    "parametrise_loop_stages": (
        lambda source: parametrise_loop_stages(source, "_norm_kernel"),
        [
            "+    LOOP_STAGES: tl.constexpr = 1,",
            "-    for row in range(program, n_rows, tl.num_programs(0)):",
            "+    for row in tl.range(program, n_rows, tl.num_programs(0), num_stages=LOOP_STAGES):",
        ],
    ),
}


@pytest.mark.parametrize(("rewrite", "changed"), REWRITES.values(), ids=REWRITES.keys())
def test_a_rewrite_changes_these_lines_and_no_others(rewrite: Callable[[str], str], changed: list[str]) -> None:
    after = rewrite(SOURCE)
    diff = list(difflib.unified_diff(SOURCE.splitlines(), after.splitlines(), lineterm="", n=0))

    assert [line for line in diff if not line.startswith(("---", "+++", "@@"))] == changed
    ast.parse(after)


@pytest.mark.parametrize("rewrite", [r for r, _ in REWRITES.values()], ids=REWRITES.keys())
def test_a_rewrite_has_nothing_to_do_the_second_time(rewrite: Callable[[str], str]) -> None:
    with pytest.raises(NotApplicable):
        rewrite(rewrite(SOURCE))


@pytest.mark.parametrize("rewrite", [r for r, _ in REWRITES.values()], ids=REWRITES.keys())
def test_what_a_rewrite_writes_is_admitted(rewrite: Callable[[str], str]) -> None:
    assert admit(SOURCE, rewrite(SOURCE)) == ()


def test_stages_of_a_loop_become_a_knob_that_the_launch_gives(machine: Any, tensor: Any) -> None:
    source = parametrise_loop_stages(SOURCE, "_norm_kernel")
    knob = scan(source).knob("_norm_kernel.LOOP_STAGES")
    arguments = {"x": tensor((8, 64)), "y": None, "w": None}

    (launch,) = machine.run(make_tunable(source, [knob]), settings={knob.id: 3}, **arguments)
    (original,) = machine.run(make_tunable(source, [knob]), **arguments)

    assert (knob.kind, knob.tunable) == (KnobKind.LOOP_STAGES, True)
    assert (launch.arguments["LOOP_STAGES"], original.arguments["LOOP_STAGES"]) == (3, 1)


def test_a_call_that_grows_too_long_is_spread_over_lines() -> None:
    long = SOURCE.replace("x = tl.load(x_ptr", "x = tl.load(x_ptr + 0 * n_rows + 0 * n_cols + 0 * program")

    lines = hinted(long).splitlines()

    assert max(len(line) for line in lines) <= 120
    assert '            eviction_policy="evict_first",' in lines


def test_a_kernel_with_matrix_products_gets_no_eviction_policy() -> None:
    with pytest.raises(NotApplicable, match="used once"):
        hinted(SOURCE.replace("x * w * scale", "tl.dot(x, w)"))


def test_the_allocation_is_found_although_its_line_moved() -> None:
    assert "torch.empty((programs" in empty("# a comment\n" + SOURCE)


def test_a_kernel_that_is_not_there_is_named() -> None:
    with pytest.raises(NotApplicable, match="_absent is no jit function"):
        parametrise_loop_stages(SOURCE, "_absent")
