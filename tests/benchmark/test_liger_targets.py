"""Liger-Kernel's kernels as targets, without a GPU. What needs its package is skipped where that is not installed."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.measurement import L2, Contender, Correctness, SourceRef, Timing, TimingPlan
from warpsmith.contracts.target import Inputs, Target, TargetSpec
from warpsmith.device.known_gpus import known_gpu
from warpsmith.measure.compiled.offline import compile_offline
from warpsmith.measure.timing.rotation import RotationMaker
from warpsmith.measure.worker.inputs import InputMaker
from warpsmith.measure.worker.process import ProcessWorker
from warpsmith.measure.worker.protocol import Check, CompileOffline, Describe, TargetRef, Time, answer_of
from warpsmith.stages.preflight import refuse_unfit
from warpsmith.stages.session import NO_GPU, source_ref, target_ref, worker_outside_runs

ROOT = Path(__file__).resolve().parents[2]
BENCHMARK = ROOT / "benchmark"
sys.path.insert(0, str(BENCHMARK))

from liger.installed import KERNELS, MISSING, PACKAGE, copy_installed, installed_folder  # noqa: E402
from liger.targets import HELD_OUT, INCOMING_GRADIENT, TARGETS  # noqa: E402

needs_liger = pytest.mark.skipif(installed_folder() is None, reason=MISSING)

#: What Liger-Kernel 0.8.5 launches at 8192×4096 on 132 SMs, by kernel and pass: a jit function and its grid.
LAUNCHED = {
    "liger_rms_norm": (("_rms_norm_forward_kernel", 8192), ("_rms_norm_backward_kernel", 132)),
    "liger_rms_norm_in_place": (("_rms_norm_forward_kernel", 8192), ("_rms_norm_backward_kernel", 132)),
    "liger_layer_norm": (("_layer_norm_forward_kernel", 8192), ("_layer_norm_backward_kernel", 132)),
    "liger_softmax": (("_softmax_single_block_forward_kernel", 8192), ("_softmax_single_block_backward_kernel", 8192)),
    "liger_geglu": (("_geglu_tanh_forward_kernel", 8192), ("_geglu_tanh_backward_kernel", 8192)),
    "liger_swiglu": (("_swiglu_forward_kernel", 8192), ("_swiglu_backward_kernel", 8192)),
}
WIDE = Case(axes={"M": 8192, "N": 4096}, dtype=DType.BFLOAT16)
SMALLEST = HELD_OUT[0]


@pytest.fixture(params=KERNELS)
def name(request: pytest.FixtureRequest) -> str:
    kernel: str = request.param
    return kernel


@pytest.fixture
def target(name: str) -> Target:
    return TARGETS[name]


def as_tuple(found: Any) -> tuple[Tensor, ...]:
    return found if isinstance(found, tuple) else (found,)


def inputs_of(target: Target, case: Case = SMALLEST) -> Inputs:
    return target.make_inputs(case, "cpu", torch.Generator().manual_seed(0))


def test_every_kernel_that_is_named_is_a_target() -> None:
    assert tuple(TARGETS) == KERNELS


def test_five_tuning_cases_are_in_bf16_and_what_is_held_out_is_small(target: Target) -> None:
    tuning = [case for case in target.cases if case.role is Role.TUNING]
    assert [case.dtype for case in tuning] == [DType.BFLOAT16] * 5
    assert target.cases[len(tuning) :] == HELD_OUT
    assert all(target.cost(case, Mode.FORWARD).bytes_moved < 1 << 24 for case in HELD_OUT)
    assert all((ROOT / path).is_file() for path in target.tests)


def test_the_reference_gives_what_torch_does_and_stays_in_float64(target: Target) -> None:
    inputs = inputs_of(target)
    wide = {k: v.double() if isinstance(v, Tensor) and v.is_floating_point() else v for k, v in inputs.items()}
    references = as_tuple(target.reference(wide))
    plain = as_tuple(target.providers["torch"]()(inputs))
    assert {reference.dtype for reference in references} == {torch.float64}
    for reference, ours in zip(references, plain, strict=True):
        torch.testing.assert_close(ours.double(), reference, rtol=1e-4, atol=1e-5)


def test_cross_entropy_has_its_gradient_as_an_output_and_the_cost_of_both_passes() -> None:
    target = TARGETS["liger_cross_entropy"]
    loss, gradient = target.reference(inputs_of(target))
    assert (loss.shape, gradient.shape, target.modes) == (torch.Size([]), (4, 40), (Mode.FORWARD,))
    # 3×5: logits and gradient 30 bytes each, 12 a row for its target and its loss; six operations an element.
    case = Case(axes={"M": 3, "N": 5}, dtype=DType.BFLOAT16)
    assert target.cost(case, Mode.FORWARD) == Cost(bytes_moved=96, flops=90)


@pytest.mark.parametrize(
    ("name", "written"),
    [("liger_rms_norm", set()), ("liger_rms_norm_in_place", {INCOMING_GRADIENT}), ("liger_geglu", {"gate", "up"})],
)
def test_what_a_pass_backward_writes_over_is_given_back_before_it_is_timed_again(name: str, written: set[str]) -> None:
    target = TARGETS[name]
    rotation = RotationMaker(InputMaker(target, SMALLEST, Mode.BACKWARD, torch.device("cpu")), L2.WARM).make(0)
    (only,) = rotation.sets
    (gradient,) = only.output_gradients
    given_back = [tensor for tensor, _ in rotation.pristine[0]]
    assert set(target.overwrites) == written
    assert any(each is gradient for each in given_back) == bool(written)
    assert all(any(each is only.inputs[name] for each in given_back) for name in written - {INCOMING_GRADIENT})


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    copy_installed(root)
    return root


def file_of(project: Path, name: str) -> Path:
    """A target file of the project, as another project would have it."""
    path = project / f"{name}.py"
    found = f"from liger.targets import TARGETS\ntarget = TARGETS[{name!r}]\n"
    path.write_text(f"import sys\nsys.path.append({str(BENCHMARK)!r})\n{found}")
    return path


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@needs_liger
def test_the_copy_has_the_installed_files_byte_for_byte_and_no_bytecode(tmp_path: Path) -> None:
    copy_installed(tmp_path)
    folder = installed_folder()
    assert folder is not None
    for source in {target.source for target in TARGETS.values()}:
        assert (tmp_path / source).read_bytes() == (folder / Path(source).relative_to(PACKAGE)).read_bytes()
    assert not list(tmp_path.rglob("*.pyc"))


def test_what_is_not_installed_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert installed_folder() is None
    with pytest.raises(FileNotFoundError, match="Liger-Kernel is not installed"):
        copy_installed(tmp_path)
    assert list(tmp_path.iterdir()) == []


def question(project: Path, target: Target, mode: Mode) -> CompileOffline:
    path, source = file_of(project, target.name), project / target.source
    return CompileOffline(
        target=TargetRef(path=str(path), root=str(project), sha256=sha256(path)),
        source=SourceRef(path=str(source), sha256=sha256(source)),
        case=WIDE,
        mode=mode,
        gpu=known_gpu("H200"),
    )


@needs_liger
@pytest.mark.parametrize("name", LAUNCHED)
def test_a_call_launches_liger_s_own_kernel_in_each_pass(project: Path, name: str) -> None:
    for mode, (kernel, programs) in zip((Mode.FORWARD, Mode.BACKWARD), LAUNCHED[name], strict=True):
        found = compile_offline(question(project, TARGETS[name], mode))
        assert found.failure is None
        assert [(each.jit_function, each.grid) for each in found.launches] == [(kernel, (programs, 1, 1))]


@needs_liger
def test_cross_entropy_reads_values_and_so_needs_a_gpu(project: Path) -> None:
    found = compile_offline(question(project, TARGETS["liger_cross_entropy"], Mode.FORWARD))
    assert (found.failure or "").startswith("the call reads a tensor's values")


@needs_liger
@pytest.mark.parametrize("name", ["liger_softmax", "liger_cross_entropy"])
def test_what_triton_s_interpreter_can_run_passes_its_own_gate(project: Path, name: str) -> None:
    """The others compute with scalars as values that have a dtype, or by libdevice, which the interpreter has not."""
    path = file_of(project, name)
    with worker_outside_runs(project, NO_GPU, interprets=True) as worker:
        target = target_ref(project, path)
        spec = answer_of(worker, Describe(target=target), TargetSpec)
        source = source_ref(project / spec.source)
        asked = Check(target=target, seed=0, original=source, candidate=source, cases=(SMALLEST,))
        found = answer_of(worker, asked, Correctness)
    refuse_unfit(spec, found)
    assert found.mutants


@needs_liger
@pytest.mark.gpu
def test_on_a_gpu_each_kernel_passes_its_own_gate_and_is_timed_in_each_mode(
    project: Path, name: str, target: Target, tmp_path: Path
) -> None:
    """Those that write over what they are handed too: it is given back before each call."""
    path, worker = file_of(project, name), ProcessWorker(project, tmp_path / "worker.log")
    try:
        asked = target_ref(project, path)
        spec = answer_of(worker, Describe(target=asked), TargetSpec)
        source = source_ref(project / spec.source)
        checked = Check(target=asked, seed=0, original=source, candidate=source, cases=(SMALLEST, HELD_OUT[2]))
        refuse_unfit(spec, answer_of(worker, checked, Correctness))
        for mode in spec.modes:
            sides = tuple(Contender(name=side, source=source) for side in ("original", "original_copy"))
            few = TimingPlan(rounds=2, most_rounds=2)
            question = Time(target=asked, seed=0, contenders=sides, case=spec.tuning_cases[0], mode=mode, plan=few)
            assert answer_of(worker, question, Timing).failures == {}
    finally:
        worker.close()
