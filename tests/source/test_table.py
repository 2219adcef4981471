"""A settings table in the source: it holds inside its bands on its GPU, and the original everywhere else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from warpsmith.source.refusal import NotApplicable
from warpsmith.source.scan import scan
from warpsmith.source.table import Band, SettingsTable, write_table

SOURCE = """\
import math

import torch
import triton
import triton.language as tl

LARGEST = math.inf


@triton.jit
def _norm_kernel(x_ptr, partial_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * n_cols + cols)
        tl.store(x_ptr + row * n_cols + cols, x * tl.sum(x, axis=0))


# The host side.
def host(x, num_warps=4):
    n_rows, n_cols = x.shape
    programs = torch.cuda.get_device_properties(x.device.index).multi_processor_count
    partial = torch.empty((programs, n_cols))  # one row a program
    _norm_kernel[(programs,)](
        x,
        partial,
        n_rows,
        n_cols,
        BLOCK=triton.next_power_of_2(n_cols),
        num_warps=num_warps,  # stepped elsewhere
    )
    return partial
"""
H200 = ((9, 0), 132)


def table(*bands: Band, gpu: tuple[tuple[int, int], int] = H200, itemsize: int = 2) -> SettingsTable:
    return SettingsTable(
        jit_function="_norm_kernel",
        host_function="host",
        capability=gpu[0],
        sm_count=gpu[1],
        itemsize=itemsize,
        tensor="x",
        axes=("n_cols", "n_rows"),
        bands=bands,
    )


def band(**settings: int) -> Band:
    return Band(ranges=((1024, 2048), (64, 4096)), settings=settings)


TABLE = table(band(num_warps=16, num_stages=2, programs_per_sm=4))


def written(*tables: SettingsTable, source: str = SOURCE) -> str:
    return write_table(source, scan(source), tables)


@pytest.mark.parametrize("shape", [(64, 1024), (4096, 2048), (100, 1500)])
def test_inside_a_band_its_settings_hold(machine: Any, tensor: Any, shape: tuple[int, int]) -> None:
    (launch,) = machine.run(written(TABLE), x=tensor(shape))

    assert launch.grid == (132 * 4,)
    assert launch.arguments["partial_ptr"].shape == (132 * 4, shape[1])
    assert (launch.arguments["num_warps"], launch.arguments["num_stages"]) == (16, 2)


@pytest.mark.parametrize("shape", [(63, 1024), (4097, 1024), (64, 1023), (64, 2049), (0, 1024)])
def test_outside_the_bands_the_launch_is_the_original_one(machine: Any, tensor: Any, shape: tuple[int, int]) -> None:
    x = tensor(shape)

    assert machine.run(written(TABLE), x=x, num_warps=2) == machine.run(SOURCE, x=x, num_warps=2)


@pytest.mark.parametrize(
    "elsewhere",
    [{"capability": (8, 0)}, {"sm_count": 114}, {"cuda": None}],
    ids=["another architecture", "another SM count", "a GPU that is not NVIDIA's"],
)
def test_on_another_gpu_the_launch_is_the_original_one(machine: Any, tensor: Any, elsewhere: dict[str, Any]) -> None:
    x = tensor((64, 1024))
    for name, value in elsewhere.items():
        setattr(machine, name, value)
    sys.modules["torch"].version.cuda = machine.cuda

    assert machine.run(written(TABLE), x=x) == machine.run(SOURCE, x=x)


def test_another_element_size_keeps_the_original_launch(machine: Any, tensor: Any) -> None:
    x = tensor((64, 1024), itemsize=4)

    assert machine.run(written(TABLE), x=x) == machine.run(SOURCE, x=x)


def test_a_cpu_tensor_is_never_asked_for_its_gpu(machine: Any, tensor: Any) -> None:
    module = machine.load(written(TABLE))
    x = tensor((64, 1024))
    x.device.type = "cpu"

    assert module._tuned_settings(module._HOST_SETTINGS, x, 64, 1024) == {}
    assert machine.asked == 0


def test_the_gpu_is_asked_once(machine: Any, tensor: Any) -> None:
    module = machine.load(written(TABLE))
    for _ in range(3):
        module._tuned_settings(module._HOST_SETTINGS, tensor((64, 1024)), 64, 1024)

    assert machine.asked == 1


def test_what_is_written_changes_only_what_it_must() -> None:
    lines = written(TABLE).splitlines()
    start = lines.index("# Bands of (n_cols, n_rows) for host.")

    assert [line for line in SOURCE.splitlines() if line not in lines] == []
    assert lines[:4] == ["import functools", "import math", "", "import torch"]
    assert lines[start:] == [
        "# Bands of (n_cols, n_rows) for host.",
        "_HOST_SETTINGS: _SettingsTable = {",
        "    (9, 0, 132): {",
        "        2: [",
        '            ((1024, 2048), (64, 4096), {"num_warps": 16, "num_stages": 2, "programs_per_sm": 4}),',
        "        ],",
        "    },",
        "}",
        "",
        "",
        "# The host side.",
        "def host(x, num_warps=4):",
        "    n_rows, n_cols = x.shape",
        "    tuned = _tuned_settings(_HOST_SETTINGS, x, n_rows, n_cols)",
        '    launch_options = {name: tuned[name] for name in ("num_stages",) if name in tuned}',
        "    if num_warps == 4:  # the default; any other is the caller's choice",
        '        num_warps = tuned.get("num_warps", num_warps)',
        "    programs = torch.cuda.get_device_properties(x.device.index).multi_processor_count",
        '    programs = programs * tuned.get("programs_per_sm", 1)',
        "    partial = torch.empty((programs, n_cols))  # one row a program",
        "    _norm_kernel[(programs,)](",
        "        x,",
        "        partial,",
        "        n_rows,",
        "        n_cols,",
        "        BLOCK=triton.next_power_of_2(n_cols),",
        "        num_warps=num_warps,  # stepped elsewhere",
        "        **launch_options,",
        "    )",
        "    return partial",
    ]


def test_what_is_written_is_formatted_and_lint_clean(tmp_path: Path) -> None:
    file = tmp_path / "variant.py"
    file.write_text(written(TABLE, table(band(num_warps=8), itemsize=4)))
    config = Path(__file__).resolve().parents[2] / "pyproject.toml"

    for command in (["format", "--check"], ["check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--config", str(config), str(file)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_writing_the_same_table_twice_changes_nothing() -> None:
    once = written(TABLE)

    assert written(TABLE, source=once) == once


def test_a_second_table_replaces_the_first_as_if_it_had_been_written_alone() -> None:
    other = table(band(programs_per_sm=2))

    assert written(other, source=written(TABLE)) == written(other)


def test_entries_for_other_gpus_are_kept(machine: Any, tensor: Any) -> None:
    elsewhere = table(band(num_warps=2), gpu=((8, 0), 108))
    both = written(TABLE, source=written(elsewhere))
    machine.capability, machine.sm_count = (8, 0), 108

    (launch,) = machine.run(both, x=tensor((64, 1024)))

    assert launch.arguments["num_warps"] == 2
    assert launch.grid == (108,)


def test_the_look_up_asks_torch_by_the_name_that_stands_for_it() -> None:
    by_a_part, another = (SOURCE.replace("import torch", new) for new in ("import torch.nn", "import numpy as torch"))

    assert "import torch.nn\n" in written(TABLE, source=by_a_part)
    with pytest.raises(NotApplicable, match="does not import torch"):
        written(TABLE, source=another)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"tensor": "missing"}, "host has no variable missing"),
        ({"bands": (band(unheard_of=1),)}, "_norm_kernel.unheard_of is no knob"),
        ({"bands": (band(BLOCK=64),)}, "_norm_kernel.BLOCK cannot be changed: must cover a row"),
    ],
)
def test_a_table_that_cannot_be_written_says_why(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        written(TABLE.model_copy(update=wrong))


def test_a_table_without_bands_leaves_the_source_alone() -> None:
    assert written(table()) == SOURCE
