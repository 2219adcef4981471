"""Tiles in groups: where they may change places and where not, the lines that are written, and that nothing else is."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from source.tiled_kernels import DIVIDED, STYLES, TWO_AXES

from warpsmith.contracts.audit import KnobKind, OpportunityKind
from warpsmith.source.admit import admit
from warpsmith.source.rewrites import NotApplicable, group_tiles
from warpsmith.source.scan import scan
from warpsmith.source.tunable import make_tunable

WHY = "+    # Programs that run together share operands in L2."
AS_PARAMETER = "+    GROUP_TILES: tl.constexpr = 1,"
KERNEL = "_scaled_mm_kernel"

CHANGED = {
    "two axes": [
        AS_PARAMETER,
        WHY,
        "+    pid_n, pid_m = tl.swizzle2d(pid_n, pid_m, tl.num_programs(1), tl.num_programs(0), GROUP_TILES)",
    ],
    "one axis, divided": [
        AS_PARAMETER,
        WHY,
        "+    pid_m, pid_n = tl.swizzle2d(pid_m, pid_n, tl.cdiv(tl.num_programs(0), num_n), num_n, GROUP_TILES)",
    ],
    "both at once, with a batch": [
        AS_PARAMETER,
        WHY,
        "+    i_m, i_n = tl.swizzle2d(i_m, i_n, tl.num_programs(1), tl.num_programs(0), GROUP_TILES)",
    ],
    "block pointers and a parameter": [
        "-    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,",
        "+    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_TILES: tl.constexpr = 1,",
        WHY,
        "+    row, col = tl.swizzle2d(row, col, tl.cdiv(tl.num_programs(0), n_tiles), n_tiles, GROUP_TILES)",
    ],
    "ids of 64 bits": [
        AS_PARAMETER,
        WHY,
        "+    pid_n, pid_m = tl.swizzle2d(pid_n, pid_m, tl.num_programs(1), tl.num_programs(0), GROUP_TILES)",
    ],
}


def ungrouped(source: str) -> list[tuple[str, int]]:
    return [(o.function, o.line) for o in scan(source).opportunities if o.kind is OpportunityKind.UNGROUPED_TILES]


@pytest.mark.parametrize("style", STYLES)
def test_these_lines_are_written_and_no_others(style: str) -> None:
    source, function = STYLES[style]
    diff = difflib.unified_diff(source.splitlines(), group_tiles(source, function).splitlines(), lineterm="", n=0)

    assert [line for line in diff if not line.startswith(("---", "+++", "@@"))] == CHANGED[style]


@pytest.mark.parametrize("style", STYLES)
def test_tiles_in_groups_are_admitted_and_found_no_more(style: str) -> None:
    source, function = STYLES[style]
    after = group_tiles(source, function)

    assert (admit(source, after), ungrouped(after)) == ((), [])
    assert [found for found, _ in ungrouped(source)] == [function]
    with pytest.raises(NotApplicable, match="groups its tiles already"):
        group_tiles(after, function)


def test_the_tiles_and_the_product_are_told_by_their_lines() -> None:
    (found,) = [o for o in scan(TWO_AXES).opportunities if o.kind is OpportunityKind.UNGROUPED_TILES]

    assert found.line == TWO_AXES.splitlines().index("    pid_n = tl.program_id(axis=1)") + 1
    assert found.what == (
        "programs walk all pid_m for one pid_n, and the product in line 33 has one operand for each of them"
    )


def test_every_style_computes_the_same_in_groups_of_any_size_and_works_on_every_tile() -> None:
    folder = Path(__file__).parent
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    program = [sys.executable, str(folder / "interpreted_grouping.py")]
    answered = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)

    assert answered.returncode == 0, answered.stderr
    assert json.loads(answered.stdout) == {"compared": 80, "differing": []}


@pytest.mark.parametrize("style", STYLES)
def test_the_size_of_a_group_is_a_knob_that_the_launch_gives(style: str) -> None:
    source, function = STYLES[style]
    after = group_tiles(source, function)
    knob = scan(after).knob(f"{function}.GROUP_TILES")

    assert (knob.kind, knob.tunable, knob.expression) == (KnobKind.TILE_GROUP, True, "1")
    assert f'GROUP_TILES=WARPSMITH_SETTINGS.get("{function}.GROUP_TILES", 1)' in make_tunable(after, [knob])


def test_a_size_that_is_asked_for_is_the_default_of_the_parameter() -> None:
    assert "GROUP_TILES: tl.constexpr = 8," in group_tiles(TWO_AXES, KERNEL, 8)


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        (
            "tiles_along_columns",
            ["pid_m, pid_n, tl.cdiv(tl.num_programs(0), tiles_along_columns), tiles_along_columns, GROUP_TILES"],
        ),
        (
            "number_of_programs_along_the_columns",
            [
                "pid_m,",
                "pid_n,",
                "tl.cdiv(tl.num_programs(0), number_of_programs_along_the_columns),",
                "number_of_programs_along_the_columns,",
                "GROUP_TILES,",
            ],
        ),
    ],
)
def test_a_line_that_is_too_long_is_broken_as_formatters_break_it(name: str, inside: list[str]) -> None:
    lines = group_tiles(DIVIDED.replace("num_n", name), KERNEL).splitlines()
    first = lines.index("    pid_m, pid_n = tl.swizzle2d(")

    assert lines[first + 1 : first + 2 + len(inside)] == [*(f"        {each}" for each in inside), "    )"]


def test_a_kernel_that_is_not_there_is_named() -> None:
    with pytest.raises(NotApplicable, match="_absent is no jit function"):
        group_tiles(TWO_AXES, "_absent")


def test_a_launch_runs_with_the_size_that_is_set(machine: Any, tensor: Any) -> None:
    after = group_tiles(TWO_AXES, KERNEL)
    knob = scan(after).knob(f"{KERNEL}.GROUP_TILES")
    arguments = {"a": tensor((64, 32)), "b": tensor((32, 64)), "scale": None}

    (launch,) = machine.run(make_tunable(after, [knob]), settings={knob.id: 4}, **arguments)

    assert launch.arguments["GROUP_TILES"] == 4
