"""What switches make of machine code, compiled for GPUs that are not there, and that they change no result."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.launch import CompiledFacts
from warpsmith.contracts.measurement import SourceRef
from warpsmith.device.known_gpus import known_gpu
from warpsmith.measure.compiled.offline import compile_offline
from warpsmith.measure.worker.protocol import CompileOffline, TargetRef
from warpsmith.source.rewrites import load_past_l1, parametrise_warp_specialization
from warpsmith.source.scan import scan
from warpsmith.source.tunable import make_tunable

TARGET = """\
import torch
from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.target import Target

CASE = Case(axes={"N": 256}, dtype=DType.FLOAT16)
target = Target(
    name="square",
    source="square.py",
    module="square",
    make_inputs=lambda case, device, generator: {
        "x": torch.randn(256, 256, device=device, generator=generator).to(torch.float16)
    },
    call=lambda module, inputs: module.run(inputs["x"]),
    reference=lambda inputs: inputs["x"],
    cost=lambda case, mode: Cost(bytes_moved=1, flops=1),
    cases=(CASE,),
    modes=(Mode.FORWARD,),
    plot_axis="N",
)
"""
HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n@triton.jit\n"
RUN = """

def run(x):
    y = torch.empty_like(x)
    kernel[(4, 4)](x, y, x.shape[1], BLOCK=64, STEP=64)
    return y
"""
POINTERS = f"""{HEAD}def kernel(x_ptr, y_ptr, n: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, n, STEP):
        inner = k + tl.arange(0, STEP)
        a = tl.load(x_ptr + rows[:, None] * n + inner[None, :])
        b = tl.load(x_ptr + inner[:, None] * n + cols[None, :])
        sums = tl.dot(a, b, sums)
    tl.store(y_ptr + rows[:, None] * n + cols[None, :], sums.to(y_ptr.dtype.element_ty))
{RUN}"""
DESCRIPTORS = f"""{HEAD}def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, STEP: tl.constexpr):
    row, col = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    a_desc = tl.make_tensor_descriptor(x_ptr, [n, n], [n, 1], [BLOCK, STEP])
    b_desc = tl.make_tensor_descriptor(x_ptr, [n, n], [n, 1], [STEP, BLOCK])
    sums = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in tl.range(0, n, STEP):
        sums = tl.dot(a_desc.load([row, k]), b_desc.load([k, col]), sums)
    rows, cols = row + tl.arange(0, BLOCK), col + tl.arange(0, BLOCK)
    tl.store(y_ptr + rows[:, None] * n + cols[None, :], sums.to(y_ptr.dtype.element_ty))
{RUN}"""
ROWS = f"""{HEAD}def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, STEP: tl.constexpr):
    place = (tl.program_id(0) * 4 + tl.program_id(1)) * BLOCK * STEP + tl.arange(0, BLOCK * STEP)
    x = tl.load(x_ptr + place)
    tl.store(y_ptr + place, x * 2)
{RUN}"""
SWITCHED = {
    "pointers": parametrise_warp_specialization(POINTERS, "kernel", by_descriptor_alone=False),
    "descriptors": parametrise_warp_specialization(DESCRIPTORS, "kernel", by_descriptor_alone=True),
    "rows": load_past_l1(ROWS, "kernel"),
}


def off_and_on(tmp_path: Path, gpu: str, name: str, num_warps: int) -> tuple[CompiledFacts, CompiledFacts | None]:
    """The kernel with its switch off and on; None where it does not compile."""
    text = SWITCHED[name].replace("STEP=64)", f"STEP=64, num_warps={num_warps})")
    (knob,) = [k for k in scan(text).knobs if k.name in ("WARP_SPECIALIZE", "PAST_L1")]
    target, source = tmp_path / "target.py", tmp_path / "square.py"
    target.write_text(TARGET, encoding="utf-8")
    source.write_text(make_tunable(text, [knob]), encoding="utf-8")
    asked = CompileOffline(
        target=TargetRef(path=str(target), root=str(tmp_path), sha256=sha256(target)),
        source=SourceRef(path=str(source), sha256=sha256(source)),
        case=Case(axes={"N": 256}, dtype=DType.FLOAT16),
        mode=Mode.FORWARD,
        gpu=known_gpu(gpu),
        settings=({}, {knob.id: 1}),
    )
    off, on = compile_offline(asked)
    return off.launches[0].compiled, on.launches[0].compiled if on.failure is None else None


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("gpu", "name", "num_warps"),
    [
        ("A100", "rows", 4),
        ("RTX 4090", "rows", 4),
        ("H200", "descriptors", 4),
        ("RTX 5090", "descriptors", 4),
        ("B200", "descriptors", 8),
        ("B200", "pointers", 4),
    ],
)
def test_a_switch_compiles_to_other_code_on_the_gpus_that_it_is_for(
    tmp_path: Path, gpu: str, name: str, num_warps: int
) -> None:
    off, on = off_and_on(tmp_path, gpu, name, num_warps)

    assert on is not None and on.binary_sha256 != off.binary_sha256


def test_hopper_takes_a_loop_apart_with_four_warps_alone(tmp_path: Path) -> None:
    """So the number of warps is searched with it."""
    off, on = off_and_on(tmp_path, "H200", "descriptors", 8)

    assert on is not None and on.binary_sha256 == off.binary_sha256


def test_hopper_does_not_compile_a_specialized_loop_that_pointers_load(tmp_path: Path) -> None:
    _, on = off_and_on(tmp_path, "H200", "pointers", 4)

    assert on is None


COMPARED = """
import torch
x = torch.randn(256, 256, generator=torch.Generator().manual_seed(0)).to(torch.float16)
def ran(**switches):
    y = torch.zeros_like(x)
    kernel[(4, 4)](x, y, 256, BLOCK=64, STEP=64, **switches)
    return y
off, on = ran(), ran(**{switch: 1})
assert torch.equal(off, run(x)) and torch.equal(off, on) and off.any()
"""


@pytest.mark.parametrize(
    ("name", "original", "switch"),
    [("pointers", POINTERS, "WARP_SPECIALIZE"), ("rows", ROWS, "PAST_L1")],
    ids=["pointers", "rows"],
)
def test_on_or_off_the_results_are_those_of_the_original(tmp_path: Path, name: str, original: str, switch: str) -> None:
    """Interpreted, in a program of its own: `run` is the original's."""
    (tmp_path / "original.py").write_text(original, encoding="utf-8")
    script = tmp_path / "compared.py"
    script.write_text(f"{SWITCHED[name]}\nswitch = '{switch}'\nfrom original import run\n{COMPARED}", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
