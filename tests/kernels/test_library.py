"""What holds for every kernel of the library and its target: cases, costs, the correctness gate, admission, the scan.

In Triton's interpreter each original stands beside itself at one small case; on a GPU, at every small case.
"""

from __future__ import annotations

import ast
import importlib
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from warpsmith.contracts.case import Case, DType, Mode, Role
from warpsmith.contracts.measurement import Correctness, SourceRef
from warpsmith.contracts.target import Inputs, Target, TargetSpec
from warpsmith.measure.worker.loading import load_target
from warpsmith.measure.worker.process import ProcessWorker
from warpsmith.measure.worker.protocol import Check, Describe, TargetRef, answer_of
from warpsmith.project.config import load_config
from warpsmith.project.discover import list_targets
from warpsmith.project.snapshot import file_sha256
from warpsmith.source.admit import admit
from warpsmith.source.scan import scan
from warpsmith.source.tunable import make_tunable
from warpsmith.stages.preflight import preflight_files, refuse_unfit
from warpsmith.stages.session import NO_GPU, source_ref, target_ref

ROOT = Path(__file__).resolve().parents[2]
TARGETS = list_targets(ROOT, load_config(ROOT))
SOURCES = sorted((ROOT / "src" / "warpsmith" / "kernels").glob("*.py"))
#: The axes besides its width along which a kernel has rows, M where none is named.
ROWS = {"rope": "T", "vector_add": "N"}
#: Axes that cannot be prime: a head has pairs.
NEVER_PRIME = {"rope": {"N"}}
#: The output that the pass backward reads, as that of torch's softmax does.
SAVED_OUTPUTS = {"fused_add_rms_norm": 1, "softmax": 0}
#: How many tuning cases a target has, five where none is named: of quantized_matmul, four of each quantized dtype.
TUNING_CASES = {"quantized_matmul": 8}
#: What moves less is small to the gate: it makes every check there.
SMALL_BYTES = 1 << 24

#: What the gate may skip: kernel, the check or probe, the reason that it gives.
EXPLAINED = (
    # A row of no values is refused, and rope rotates pairs.
    ("cross_entropy", "shapes, N=0", "last dimension of at least 1"),
    ("fused_add_rms_norm|layer_norm|layer_norm_gelu|rms_norm|softmax", "shapes, N=0", "last dimension of at least 1"),
    ("fused_linear_cross_entropy", "shapes, N=0", "weight must be \\(classes, hidden size\\)"),
    ("fused_linear_cross_entropy", "shapes, H=0", "last dimension of at least 1"),
    # The products are torch's, and the kernels those of cross_entropy.
    ("fused_linear_cross_entropy", "own kernels", "launches no kernel of its own"),
    ("fused_linear_cross_entropy", "kernels needed", "calls operators, as the original does"),
    # torch passes gradients back through an activation.
    ("matmul", "kernels needed", "calls operators, as the original does"),
    # Where all classes have the same weights, what is left of the gradient of hidden are roundings.
    ("fused_linear_cross_entropy", "layouts, expanded inputs", "the original's gradient of hidden is off"),
    # The targets hand 1 back whatever comes in, but where an option says so.
    ("cross_entropy|fused_linear_cross_entropy", "backward again", "the original's second pass gives something else"),
    ("rope", "shapes, N=[01]", "cos must have 1 to head / 2 columns"),
    # One value is normalized to its sign or to 0, whatever it was: what is left of its gradient are roundings.
    ("layer_norm|layer_norm_gelu|rms_norm", "shapes, N=1", "the original's gradient of x is off"),
    # Of an output gradient that is the same everywhere, softmax passes nothing back but roundings.
    ("softmax", "gradient layouts, an expanded output gradient", "the original's gradient of x is off"),
    # It casts what it multiplies, as torch does.
    ("matmul", "autocast", "under torch.autocast\\(.*\\) the original is far from float64"),
)

#: Why the gate may leave a result as it is, where it spoils others.
UNSPOILED = {None, "it has one axis", "it is one number", "no input has its shape"}

pytestmark = pytest.mark.filterwarnings("ignore:.*Triton cannot run on")


@pytest.fixture(params=TARGETS)
def name(request: pytest.FixtureRequest) -> str:
    kernel: str = request.param
    return kernel


@pytest.fixture
def target(name: str) -> Target:
    return load_target(str(TARGETS[name]))


# The targets


def shrunk(case: Case) -> Case:
    """The same of few rows; rows stay as wide as the options need them."""
    axes = {axis: size if axis == "N" and len(case.axes) > 1 else min(size, 4) for axis, size in case.axes.items()}
    return case.model_copy(update={"axes": axes})


def inputs_of(target: Target, case: Case) -> Inputs:
    return target.make_inputs(case, "cpu", torch.Generator().manual_seed(0))


def cases_of_each_option(target: Target) -> list[Case]:
    """In fp32, one for all cases of the same options."""
    narrowest: dict[str, Case] = {}
    for case in sorted(target.cases, key=lambda each: each.axes["N"]):
        narrowest.setdefault(str(sorted(case.options.items())), shrunk(case))
    return [case.model_copy(update={"dtype": DType.FLOAT32}) for case in narrowest.values()]


def told(value: object) -> object:
    """What can be compared of an input: of a tensor its form and its values."""
    if isinstance(value, Tensor):
        return value.dtype, value.shape, value.stride(), value.tolist()
    return value


def is_prime(number: int) -> bool:
    return number > 1 and all(number % factor for factor in range(2, math.isqrt(number) + 1))


def test_every_kernel_with_a_target_is_of_the_library() -> None:
    assert set(TARGETS) <= {source.stem for source in SOURCES}
    assert len(TARGETS) >= 9


def test_what_the_target_names_exists(name: str, target: Target) -> None:
    assert target.name == name
    assert (ROOT / target.source).is_file()
    assert f"tests/kernels/test_{name}.py" in target.tests
    source = importlib.import_module(target.module).__file__
    assert source is not None and Path(source).resolve() == ROOT / target.source
    assert all(target.plot_axis in case.axes for case in target.cases)
    differentiable = Mode.BACKWARD in target.modes
    assert bool(target.differentiable) == differentiable
    assert set(target.differentiable) <= set(inputs_of(target, shrunk(target.cases[0])))


def test_cases_have_unique_names_and_every_role_dtype_and_awkward_size(name: str, target: Target) -> None:
    assert len({case.name for case in target.cases}) == len(target.cases)
    assert {case.role for case in target.cases} == set(Role)
    assert len([case for case in target.cases if case.role is Role.TUNING]) == TUNING_CASES.get(name, 5)
    assert {case.dtype for case in target.cases} == set(DType)
    exempt = NEVER_PRIME.get(name, set())
    assert any(all(is_prime(n) for axis, n in case.axes.items() if axis not in exempt) for case in target.cases)
    assert any(case.axes[ROWS.get(name, "M")] == 1 for case in target.cases)


@pytest.mark.parametrize("dtype", DType)
def test_every_dtype_has_a_case_at_which_the_gate_makes_every_check(target: Target, dtype: DType) -> None:
    assert any(min(case.axes.values()) > 1 for case in small_cases(target, dtype))


def test_every_case_has_work_to_do_in_each_mode(target: Target) -> None:
    for case in target.cases:
        costs = {mode: target.cost(case, mode) for mode in target.modes}
        assert all(cost.bytes_moved > 0 and cost.flops > 0 for cost in costs.values()), case.name
        if Mode.FULL in costs:
            forward, backward, full = (costs[mode] for mode in (Mode.FORWARD, Mode.BACKWARD, Mode.FULL))
            assert full.bytes_moved == forward.bytes_moved + backward.bytes_moved
            assert full.flops == forward.flops + backward.flops


def test_inputs_follow_every_option(target: Target) -> None:
    for case in (shrunk(case) for case in target.cases if case.options):
        found = {name: told(value) for name, value in inputs_of(target, case).items()}
        for option in case.options:
            others = {key: value for key, value in case.options.items() if key != option}
            without = inputs_of(target, case.model_copy(update={"options": others}))
            assert found != {name: told(value) for name, value in without.items()}, (case.name, option)


def test_inputs_are_the_generators_alone_and_no_constants(target: Target) -> None:
    case = shrunk(target.cases[0])
    first, second = ({n: told(v) for n, v in inputs_of(target, case).items()} for _ in range(2))
    assert first == second
    tensors = [value for value in inputs_of(target, case).values() if isinstance(value, Tensor)]
    assert tensors and all(value.unique().numel() > 1 for value in tensors)


def test_a_call_and_the_torch_baseline_match_the_reference_in_float64(target: Target) -> None:
    module, torch_baseline = importlib.import_module(target.module), target.providers["torch"]()
    for case in cases_of_each_option(target):
        inputs = inputs_of(target, case)
        upcast = {name: in_float64(value) for name, value in inputs.items()}
        exact = as_tuple(target.reference(upcast))
        assert {result.dtype for result in exact} == {torch.float64}
        rounded = tuple(result.float() for result in exact)
        torch.testing.assert_close(as_tuple(target.call(module, inputs)), rounded)
        torch.testing.assert_close(as_tuple(torch_baseline(inputs)), rounded)


def in_float64(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def as_tuple(outputs: Any) -> tuple[Tensor, ...]:
    return (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)


def test_a_worker_describes_the_target(name: str, interpreting: ProcessWorker) -> None:
    spec = described(interpreting, name)
    preflight_files(ROOT, spec)
    assert {"torch", "torch_compile"} <= set(spec.providers)
    assert all(re.search("liger_kernel|quack", reason) for reason in spec.missing_providers.values())


# The correctness gate


def small_cases(target: Target, dtype: DType) -> list[Case]:
    return [
        case
        for case in target.cases
        if case.dtype is dtype and target.cost(case, Mode.FORWARD).bytes_moved < SMALL_BYTES
    ]


def described(worker: ProcessWorker, name: str) -> TargetSpec:
    return answer_of(worker, Describe(target=target_ref(ROOT, TARGETS[name])), TargetSpec)


def unexplained(name: str, skipped: Mapping[str, str]) -> dict[str, str]:
    return {
        check: reason
        for check, reason in skipped.items()
        if not any(
            re.fullmatch(kernels, name) and re.fullmatch(what, check) and re.search(because, reason)
            for kernels, what, because in EXPLAINED
        )
    }


@pytest.fixture(scope="module")
def interpreting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessWorker]:
    log = tmp_path_factory.mktemp("interpreting") / "worker.log"
    worker = ProcessWorker(ROOT, log, gpu_uuid=NO_GPU, interprets=True)
    yield worker
    worker.close()


#: Of the library, rms_norm alone has torch compute when it is interpreted, and its target no case that is small enough:
#: both stay as they were recorded.
RMS_NORM_ON_A_CPU = """

import dataclasses as _dataclasses

def _by_its_kernels(module, inputs):
    x, weight, eps, offset, casting = (inputs[name] for name in ("x", "weight", "eps", "offset", "casting"))
    module._check_arguments(x, weight, casting)
    return module.RMSNormFunction.apply(x, None if weight is None else weight.contiguous(), eps, offset, casting)

target = _dataclasses.replace(target, call=_by_its_kernels, cases=(*target.cases, _held_out(4, 40, DType.FLOAT32)))
"""
RMS_NORM_CASE = Case(axes={"M": 4, "N": 40}, dtype=DType.FLOAT32, role=Role.HELD_OUT)


def question_on_a_cpu(name: str, target: Target, candidate: SourceRef, folder: Path) -> Check:
    """The candidate beside the original at the smallest fp32 case, both by their kernels."""
    path, cases = TARGETS[name], small_cases(target, DType.FLOAT32)
    if name == "rms_norm":
        path, cases = folder / path.name, [*cases, RMS_NORM_CASE]
        path.write_text(TARGETS[name].read_text(encoding="utf-8") + RMS_NORM_ON_A_CPU, encoding="utf-8")
    case = min(cases, key=lambda case: target.cost(case, Mode.FORWARD).bytes_moved)
    return Check(
        target=TargetRef(path=str(path), root=str(ROOT), sha256=file_sha256(path)),
        original=source_ref(ROOT / target.source),
        candidate=candidate,
        cases=(case,),
    )


@pytest.mark.usefixtures("interpreter_loops")
def test_interpreted_the_original_passes_and_its_null_mutants_do_not(
    name: str, target: Target, interpreting: ProcessWorker, tmp_path: Path
) -> None:
    question = question_on_a_cpu(name, target, source_ref(ROOT / target.source), tmp_path)

    found = answer_of(interpreting, question, Correctness)

    refuse_unfit(described(interpreting, name), found)
    (check,) = found.checks
    assert "dynamo would trace the interpreter" in check.skipped["compile"]
    assert unexplained(name, {k: reason for k, reason in check.skipped.items() if k != "compile"}) == {}
    assert {mutant.part for mutant in found.mutants} == {error.output for error in check.errors}
    assert {mutant.skipped for mutant in found.mutants} <= UNSPOILED


@pytest.mark.usefixtures("interpreter_loops")
def test_interpreted_a_kernel_that_doubles_what_it_loads_does_not_pass(
    name: str, target: Target, interpreting: ProcessWorker, tmp_path: Path
) -> None:
    doubling = tmp_path / "doubling.py"
    text = (ROOT / target.source).read_text(encoding="utf-8")
    # fused_linear_cross_entropy has no kernel of its own, but products.
    doubled = text.replace("tl.load(", "2 * tl.load(").replace(" torch.mm(rows", " 2 * torch.mm(rows")
    doubling.write_text(doubled, encoding="utf-8")

    found = answer_of(interpreting, question_on_a_cpu(name, target, source_ref(doubling), tmp_path), Correctness)

    (check,) = found.checks
    assert {failure.check for failure in check.failures} == {"values"}


@pytest.fixture(scope="module")
def on_the_gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessWorker]:
    worker = ProcessWorker(ROOT, tmp_path_factory.mktemp("on the gpu") / "worker.log")
    yield worker
    worker.close()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DType)
def test_on_a_gpu_the_original_passes_at_every_small_case(
    name: str, target: Target, dtype: DType, on_the_gpu: ProcessWorker
) -> None:
    original = source_ref(ROOT / target.source)
    question = Check(
        target=target_ref(ROOT, TARGETS[name]),
        original=original,
        candidate=original,
        cases=tuple(small_cases(target, dtype)),
    )

    found = answer_of(on_the_gpu, question, Correctness)

    refuse_unfit(described(on_the_gpu, name), found)
    others = [check for check in found.checks if check.skipped.get("shapes", "").startswith("made at ")]
    here = {check.case.name for check in found.checks if check not in others}
    elsewhere = {check.skipped["shapes"].removeprefix("made at ").partition(", the smallest")[0] for check in others}
    # At the smallest case of the dtype, unless that one moves too much to be among these.
    smallest = here | elsewhere
    assert len(smallest) == 1
    assert here == smallest & {case.name for case in question.cases}
    for check in found.checks:
        skipped = {k: reason for k, reason in check.skipped.items() if k != "shapes" or check not in others}
        assert unexplained(name, skipped) == {}, check.case.name


@pytest.mark.gpu
def test_on_a_gpu_outputs_can_be_modified_in_place(name: str, target: Target) -> None:
    """As those of torch can: an activation with inplace=True may follow."""
    if name == "rms_norm":
        pytest.skip("its output is a view, as it was recorded")
    outputs = differentiable_outputs(target)
    spared = SAVED_OUTPUTS.get(name)
    for number, output in enumerate(outputs):
        if number != spared:
            output.mul_(2)
    torch.autograd.backward([output.sum() for output in outputs if output.requires_grad])


@pytest.mark.gpu
def test_on_a_gpu_an_output_that_is_needed_again_must_not_be_modified(name: str, target: Target) -> None:
    """Torch tells, where a kernel saved its output as it should."""
    if name not in SAVED_OUTPUTS:
        pytest.skip("it saves no output")
    output = differentiable_outputs(target)[SAVED_OUTPUTS[name]]
    output.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


def differentiable_outputs(target: Target) -> tuple[Tensor, ...]:
    case = small_cases(target, DType.FLOAT32)[0]
    inputs = target.make_inputs(case, torch.device("cuda"), torch.Generator("cuda").manual_seed(0))
    for differentiable in target.differentiable:
        if inputs[differentiable] is not None:
            inputs[differentiable].requires_grad_()
    return as_tuple(target.call(importlib.import_module(target.module), inputs))


# What admission and the profiler read


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_kernel_may_stand_in_its_own_place(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    assert admit(text, text) == ()


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_scan_finds_every_launch_and_what_can_be_tuned_of_it(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    audit = scan(text)
    kernels = {jit.name for jit in audit.jit_functions if jit.name.endswith("_kernel")}
    assert {launch.jit_function for launch in audit.launches} == kernels
    tunable = [knob for knob in audit.knobs if knob.tunable]
    assert {f"{kernel}.num_warps" for kernel in kernels} <= {knob.id for knob in tunable}
    ast.parse(make_tunable(text, tunable))
    assert audit.not_covered == ()
