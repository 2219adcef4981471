from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from warpsmith.contracts.base import Settings
from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.device import TargetGpu
from warpsmith.contracts.launch import AccessKind, CompiledSettings, LaunchRecord
from warpsmith.contracts.measurement import Contender, SourceRef
from warpsmith.contracts.target import Target
from warpsmith.measure.compiled.launches import compile_settings, record_call
from warpsmith.measure.compiled.offline import compile_offline
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.loading import load_implementation
from warpsmith.measure.worker.protocol import CompileOffline, TargetRef
from warpsmith.source.scan import scan
from warpsmith.source.tunable import make_tunable

pytestmark = pytest.mark.gpu

CASE = Case(axes={"M": 300, "N": 2048}, dtype=DType.BFLOAT16)


def recorded(
    implementation: Implementation, target: Target, mode: Mode, *, launch: bool = True
) -> tuple[LaunchRecord, ...]:
    device = torch.device("cuda", torch.cuda.current_device())
    return record_call(implementation, target, CASE, mode, device=device, seed=0, launch=launch).launches


def test_forward_and_backward_launches_are_recorded_with_their_hosts(original: Implementation, target: Target) -> None:
    forward, backward = recorded(original, target, Mode.FULL)
    programs = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count

    assert (forward.jit_function, forward.host_function) == ("_rms_norm_forward_kernel", "rms_norm_forward")
    assert (backward.jit_function, backward.host_function) == ("_rms_norm_backward_kernel", "rms_norm_backward")
    assert (forward.grid, backward.grid) == ((300, 1, 1), (programs, 1, 1))
    assert forward.constexprs == {"OFFSET": 0.0, "ROUND_BEFORE_WEIGHT": True, "BLOCK_SIZE": 2048}
    assert backward.host_integers == {
        "n_rows": 300, "n_cols": 2048, "programs": programs, "block_size": 2048, "num_warps": 8,
    }  # fmt: skip
    assert backward.host_tensors["dy"] == "bfloat16"
    assert backward.host_tensors["dw_partial"] == "float32"
    for each in (forward, backward):
        assert each.compiled.num_warps == 8
        assert 0 < each.compiled.registers <= 255
        assert each.compiled.shared_bytes > 0


def test_backward_alone_leaves_the_forward_launch_out(original: Implementation, target: Target) -> None:
    _, backward = recorded(original, target, Mode.FULL)

    assert recorded(original, target, Mode.BACKWARD) == (backward,)


def test_compiling_alone_finds_what_launching_finds(original: Implementation, target: Target) -> None:
    assert recorded(original, target, Mode.FULL, launch=False) == recorded(original, target, Mode.FULL)


def test_a_copy_elsewhere_has_the_same_machine_code(
    original: Implementation, variant: Callable[..., Implementation], target: Target
) -> None:
    copy = variant(
        ("from __future__ import annotations\n", "# moved down a line\nfrom __future__ import annotations\n")
    )

    assert [each.compiled.binary_sha256 for each in recorded(copy, target, Mode.FULL)] == [
        each.compiled.binary_sha256 for each in recorded(original, target, Mode.FULL)
    ]


def test_a_block_that_does_not_fit_shared_memory_is_told(target: Target, tmp_path: Path) -> None:
    implementation = loaded(target, tmp_path, MATMUL)
    device = torch.device("cuda", torch.cuda.current_device())
    (found,) = compile_settings(
        lambda settings: implementation,
        forward_only(target),
        CASE,
        Mode.FORWARD,
        [{}],
        device=device,
        seed=0,
        launch=False,
    )

    assert found.launches == ()
    assert str(found.failure).startswith("needs more than the GPU has: OutOfResources: out of resource: shared memory")


def test_an_autotuners_trials_are_not_recorded(target: Target, tmp_path: Path) -> None:
    (found,) = recorded(loaded(target, tmp_path, AUTOTUNED), forward_only(target), Mode.FORWARD)

    assert (found.jit_function, found.host_function) == ("double_kernel", "rms_norm")
    assert found.grid == (-(-300 * 2048 // int(str(found.constexprs["BLOCK"]))), 1, 1)


def forward_only(target: Target) -> Target:
    return replace(target, modes=(Mode.FORWARD,), differentiable=())


def loaded(target: Target, folder: Path, text: str) -> Implementation:
    path = folder / "rms_norm_v1.py"
    path.write_text(text, encoding="utf-8")
    source = SourceRef(path=str(path), sha256=hashlib.sha256(text.encode()).hexdigest())
    return load_implementation(target, Contender(name="candidate", source=source), str(folder))


AUTOTUNED = """\
import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": 512}), triton.Config({"BLOCK": 1024}, num_warps=8)], key=["n"])
@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


def rms_norm(x, weight, eps, *, offset, casting):
    y = torch.empty_like(x)
    n = x.numel()
    double_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n)
    return y
"""

MATMUL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(x_ptr, y_ptr, K: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    rows, cols, inner = tl.arange(0, BLOCK), tl.arange(0, BLOCK), tl.arange(0, WIDE)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, K, WIDE):
        a = tl.load(x_ptr + rows[:, None] * K + start + inner[None, :])
        b = tl.load(x_ptr + cols[None, :] * K + start + inner[:, None])
        total = tl.dot(a, b, total)
    tl.store(y_ptr + rows[:, None] * BLOCK + cols[None, :], total)


def rms_norm(x, weight, eps, *, offset, casting):
    y = torch.empty((128, 128), device=x.device)
    matmul_kernel[(1,)](x, y, K=2048, BLOCK=128, WIDE=256, num_stages=4, num_warps=8)
    return y
"""


@pytest.fixture
def offline(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[CompiledSettings, ...]]:
    """Compiles for the GPU that is here as if there were none, and finds nothing compiled before."""

    def answer(
        implementation: Implementation, mode: Mode, settings: tuple[dict[str, int], ...] = ({},)
    ) -> tuple[CompiledSettings, ...]:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        gpu = TargetGpu(
            name=properties.name,
            capability=(properties.major, properties.minor),
            sm_count=properties.multi_processor_count,
            memory_bytes=properties.total_memory,
            l2_bytes=properties.L2_cache_size,
        )
        file, source = root / "benchmark" / "benchmark_rms_norm.py", Path(str(implementation.source_path))
        question = CompileOffline(
            target=TargetRef(path=str(file), root=str(root), sha256=hashlib.sha256(file.read_bytes()).hexdigest()),
            source=SourceRef(path=str(source), sha256=hashlib.sha256(source.read_bytes()).hexdigest()),
            case=CASE,
            mode=mode,
            gpu=gpu,
            settings=settings,
        )
        with monkeypatch.context() as patched:
            patched.setenv("TRITON_CACHE_DIR", str(tmp_path / "compiled offline"))
            return compile_offline(question)

    return answer


@pytest.mark.parametrize("mode", [Mode.FORWARD, Mode.BACKWARD])
def test_compiling_with_no_gpu_finds_what_launching_finds_here(
    original: Implementation, target: Target, offline: Callable[..., tuple[CompiledSettings, ...]], mode: Mode
) -> None:
    launched = recorded(original, target, mode)
    (found,) = offline(original, mode)

    assert found.launches == launched
    assert all(each.compiled.accesses for each in found.launches)
    assert recorded(original, target, mode) == launched


def test_copies_and_matrix_instructions_are_the_same_with_no_gpu(
    target: Target, offline: Callable[..., tuple[CompiledSettings, ...]], tmp_path: Path
) -> None:
    implementation = loaded(target, tmp_path, MATMUL.replace("WIDE=256, num_stages=4", "WIDE=64, num_stages=3"))
    launched = recorded(implementation, forward_only(target), Mode.FORWARD)
    (found,) = offline(implementation, Mode.FORWARD)

    assert found.launches == launched
    (facts,) = (each.compiled for each in launched)
    assert facts.matrix_instructions
    assert AccessKind.ASYNC_COPY in {each.kind for each in facts.accesses or ()}


def test_settings_compile_to_the_same_code_with_no_gpu(
    original: Implementation, target: Target, offline: Callable[..., tuple[CompiledSettings, ...]], tmp_path: Path
) -> None:
    text = Path(str(original.source_path)).read_text(encoding="utf-8")
    knobs = [knob for knob in scan(text).knobs if knob.tunable]
    path = tmp_path / "tunable_rms_norm.py"
    path.write_text(make_tunable(text, knobs), encoding="utf-8")
    source = SourceRef(path=str(path), sha256=hashlib.sha256(path.read_bytes()).hexdigest())

    def implementation(settings: Settings) -> Implementation:
        return load_implementation(target, Contender(name="candidate", source=source, settings=settings), str(tmp_path))

    settings = tuple(
        {f"_rms_norm_{each}_kernel.num_warps": warps} for each in ("forward", "backward") for warps in (4, 16)
    )
    here = compile_settings(
        implementation,
        target,
        CASE,
        Mode.FULL,
        settings,
        device=torch.device("cuda", torch.cuda.current_device()),
        seed=0,
        launch=False,
    )

    assert [each.launches for each in offline(implementation({}), Mode.FULL, settings)] == [
        each.launches for each in here
    ]
