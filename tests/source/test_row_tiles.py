"""Several rows a program: where it is found, what it changes, that results stay; what is not known is refused."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from source.row_kernels import GATED, IN_PLACE, MOVED_POINTERS, NAMED_POINTERS, QUANTIZED, STYLES

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.measurement import SourceRef
from warpsmith.device.known_gpus import known_gpu
from warpsmith.measure.compiled.offline import compile_offline
from warpsmith.measure.worker.protocol import CompileOffline, TargetRef
from warpsmith.source.admit import admit
from warpsmith.source.rewrites import NotApplicable, tile_rows
from warpsmith.source.scan import scan

INTERPRETER = Path(__file__).parents[1] / "kernels" / "interpret.py"
#: A target whose call is the source's `run`.
TARGET = """\
import torch
from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.target import Target

target = Target(
    name="rows",
    source="rows.py",
    module="rows",
    make_inputs=lambda case, device, generator: {
        "x": torch.randn(1000, 100, device=device, generator=generator, dtype=torch.bfloat16),
        "w": torch.randn(100, device=device, generator=generator, dtype=torch.bfloat16),
    },
    call=lambda module, inputs: module.run(inputs["x"], inputs["w"]),
    reference=lambda inputs: inputs["x"],
    cost=lambda case, mode: Cost(bytes_moved=1, flops=1),
    cases=(Case(axes={"N": 100}, dtype=DType.BFLOAT16),),
    modes=(Mode.FORWARD,),
    plot_axis="N",
)
"""


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def places(source: str) -> list[Opportunity]:
    return [o for o in scan(source).opportunities if o.kind is OpportunityKind.ROW_A_PROGRAM]


def rewritten(source: str) -> str:
    (place,) = places(source)
    return tile_rows(source, place)


def changed(before: str, after: str) -> list[str]:
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line for line in diff if not line.startswith(("---", "+++", "@@"))]


def test_a_row_kernel_that_counts_its_rows_changes_in_these_lines_and_no_others() -> None:
    assert changed(NAMED_POINTERS, rewritten(NAMED_POINTERS)) == [
        "-def softmax_kernel(output_ptr, input_ptr, M, N, BLOCK: tl.constexpr):",
        "-    row_idx = tl.program_id(axis=0)",
        "+def softmax_kernel(output_ptr, input_ptr, M, N, BLOCK: tl.constexpr, ROWS: tl.constexpr = 1):",
        "+    row_idx = tl.program_id(axis=0) * ROWS + tl.arange(0, ROWS)[:, None]",
        "+    # With one row a program, as where a launch does not give ROWS, each has its row.",
        "+    row_mask = (row_idx < M) | (ROWS == 1)",
        "-    col_offsets = tl.arange(0, BLOCK)",
        "+    col_offsets = tl.arange(0, BLOCK)[None, :]",
        '-    row = tl.load(row_start + col_offsets, mask=mask, other=-float("inf")).to(tl.float32)',
        "-    row_minus_max = row - tl.max(row, axis=0)",
        '+    row = tl.load(row_start + col_offsets, mask=row_mask & mask, other=-float("inf")).to(tl.float32)',
        "+    row_minus_max = row - tl.max(row, axis=1, keep_dims=True)",
        "-    denominator = tl.sum(numerator, 0)",
        "-    tl.store(output_ptr + row_idx * N + col_offsets, numerator / denominator, mask)",
        "+    denominator = tl.sum(numerator, 1, keep_dims=True)",
        "+    tl.store(output_ptr + row_idx * N + col_offsets, numerator / denominator, row_mask & mask)",
        "-    grid = (M, )",
        "-    softmax_kernel[grid](out, x, M, N, BLOCK=BLOCK)",
        "+    # Short rows share a program: one alone keeps few bytes in flight.",
        "+    rows_per_program = max(1, 2048 // BLOCK)",
        "+    grid = (triton.cdiv(M, rows_per_program), )",
        "+    softmax_kernel[grid](out, x, M, N, BLOCK=BLOCK, ROWS=rows_per_program)",
    ]


def test_rows_that_the_kernel_does_not_count_are_counted_by_a_further_parameter() -> None:
    after = rewritten(IN_PLACE)

    for line in (
        "    n_rows=0,\n    ROWS: tl.constexpr = 1,\n):\n",
        "    # With one row a program, as where a launch does not give ROWS, each has its row.\n"
        "    row_mask = (pid < n_rows) | (ROWS == 1)\n",
        "    x = tl.load(x_ptr + at, mask=row_mask & (offsets < N), other=0.0).to(tl.float32)\n",
        "    variance = tl.sum(x * x, axis=1, keep_dims=True) / N\n",
        "    w = tl.load(w_ptr + offsets, mask=offsets < N, other=0.0)\n",
        "    rows_per_program = max(1, 1024 // triton.next_power_of_2(y.shape[1]))\n",
        "        n_rows=y.numel() // y.shape[-1],\n        ROWS=rows_per_program,\n",
    ):
        assert line in after
    assert max(map(len, after.splitlines())) <= 120


def test_scalars_of_a_row_are_masked_and_a_taken_name_is_left_alone() -> None:
    after = rewritten(QUANTIZED)

    assert "    in_rows = (pid < n_rows) | (ROWS == 1)\n" in after
    assert "    row_mask = arange < n_elements\n" in after
    assert "    tl.store(scale_ptr + pid, largest / 127.0, mask=in_rows)\n" in after
    assert "    source = tl.load(index_ptr + program_id, mask=row_mask)\n" in rewritten(GATED)


@pytest.mark.parametrize("source", STYLES.values(), ids=STYLES.keys())
def test_what_is_written_is_admitted_and_has_nothing_to_do_the_second_time(source: str) -> None:
    (place,) = places(source)
    after = tile_rows(source, place)

    assert admit(source, after) == ()
    assert places(after) == []
    with pytest.raises(NotApplicable, match="no room for a last parameter ROWS"):
        tile_rows(after, place)


def test_results_stay_where_rows_share_a_program(tmp_path: Path) -> None:
    for style, source in STYLES.items():
        (tmp_path / f"{style}_before.py").write_text(source)
        (tmp_path / f"{style}_after.py").write_text(rewritten(source))
    script = Path(__file__).with_name("interpreted_row_tiles.py")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(INTERPRETER), str(script), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    differences = json.loads(done.stdout)
    assert len(differences) == 8 * len(STYLES) + 1
    # Sums are added in another order at most. Written so that a NaN is a failure.
    tolerance = {"float32": 1e-6, "bfloat16": 2**-7}
    assert {name: d for name, d in differences.items() if not d <= tolerance[name.rpartition("-")[2]]} == {}


@pytest.mark.parametrize("source", STYLES.values(), ids=STYLES.keys())
def test_what_is_written_compiles_for_a_gpu_that_is_not_there(source: str, tmp_path: Path) -> None:
    target, after = tmp_path / "target.py", tmp_path / "after.py"
    target.write_text(TARGET)
    after.write_text(rewritten(source))
    (found,) = compile_offline(
        CompileOffline(
            target=TargetRef(path=str(target), root=str(tmp_path), sha256=sha256(target)),
            source=SourceRef(path=str(after), sha256=sha256(after)),
            case=Case(axes={"N": 100}, dtype=DType.BFLOAT16),
            mode=Mode.FORWARD,
            gpu=known_gpu("H200"),
        )
    )

    assert found.failure is None
    (launch,) = found.launches
    rows = launch.constexprs["ROWS"]
    assert isinstance(rows, int) and rows > 1
    assert launch.grid == (-(-1000 // rows), 1, 1)
    assert launch.compiled.spills == 0


ROW = "    row_idx = tl.program_id(axis=0)\n"
STORE = "    tl.store(output_ptr"
GRID = "    grid = (M, )\n"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (STORE, "    tl.atomic_add(input_ptr, denominator)\n" + STORE, "tl.atomic_add.* is not known to the rewrite"),
        (STORE, "    for _ in range(2):\n        numerator += 1\n" + STORE, "line 16: for _ in range.* is not known"),
        (STORE, "    tl.store(input_ptr + col_offsets, 1.0, mask)\n" + STORE, "store of every program to one place"),
        (STORE, "    total = tl.cumsum(numerator, 0)\n" + STORE, "line 16: tl.cumsum is not known"),
        (STORE, "    other = tl.arange(0, 16)\n" + STORE, "no range over the one block that holds a row"),
        (STORE, "    if denominator > 0:\n        numerator += 1\n" + STORE, "if denominator > 0: is not known"),
        (STORE, "    total = tl.sum(col_offsets, axis=0)\n" + STORE, "does not vary along both rows and columns"),
        (STORE, "    best = tl.max(row, axis=0, return_indices=True)\n" + STORE, "return_indices=True.* is not known"),
        (ROW, ROW + "    head = tl.program_id(1)\n", "is of another axis than the first"),
        (ROW, "    row_idx = tl.program_id(axis=0) // 2\n", "has not one program for each row of columns"),
        ("mask = col_offsets < N", "mask = row_idx * N + col_offsets < M * N", "has not one program for each row"),
        ("numerator / denominator, mask", "numerator / denominator, tl.arange(0, BLOCK) < N", "stands inside a mask"),
        (GRID, "    grid = (M, 2)\n", "is not seen to count its rows alone"),
        (GRID, "    grid = (rows_of(x), )\n", r"rows_of\(x\) may do more than it says"),
        (GRID, GRID + "    M = M + 0\n", "M is set again after it"),
        (GRID, GRID + "    print(grid)\n", "grid is not the grid of this launch alone"),
        ("    return (out,)", "    softmax_kernel.warmup(out)\n    return (out,)", "used there other than in a launch"),
        ("BLOCK=BLOCK)", "**options)", "the launch does not give BLOCK itself"),
        ("@triton.jit\n", "@triton.heuristics({'BLOCK': width})\n@triton.jit\n", "has decorators that may count"),
    ],
)
def test_what_is_not_known_is_refused_and_not_found(old: str, new: str, reason: str) -> None:
    (place,) = places(NAMED_POINTERS)
    assert NAMED_POINTERS.count(old) == 1
    source = NAMED_POINTERS.replace(old, new)

    assert places(source) == []
    with pytest.raises(NotApplicable, match=reason):
        tile_rows(source, place)


@pytest.mark.parametrize(
    ("then", "otherwise", "found"),
    [("row_start", "row_start + col_offsets", 0), ("row_start + col_offsets", "col_offsets + row_start", 1)],
)
def test_an_address_that_two_branches_leave_in_two_shapes_is_refused(then: str, otherwise: str, found: int) -> None:
    branches = f"    if BLOCK > 64:\n        at = {then}\n    else:\n        at = {otherwise}\n"
    source = NAMED_POINTERS.replace("    row = tl.load(row_start + col_offsets", f"{branches}    row = tl.load(at")
    assert len(places(source)) == found


def test_a_program_takes_more_rows_the_more_warps_it_has() -> None:
    assert "rows_per_program = max(1, 512 * num_warps // BLOCK_SIZE)" in rewritten(MOVED_POINTERS)


def test_a_kernel_without_rows_is_no_place() -> None:
    element_wise = NAMED_POINTERS.replace("tl.arange(0, BLOCK)", "row_idx * BLOCK + tl.arange(0, BLOCK)")
    assert places(element_wise) == []
