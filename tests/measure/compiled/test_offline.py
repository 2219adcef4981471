from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from warpsmith.contracts.case import Case, DType, Mode
from warpsmith.contracts.device import DeviceFacts, TargetGpu
from warpsmith.contracts.launch import CompiledSettings, LaunchRecord
from warpsmith.contracts.measurement import SourceRef
from warpsmith.device import architecture
from warpsmith.device.known_gpus import known_gpu, target_gpu_of
from warpsmith.measure.compiled.launches import record_call
from warpsmith.measure.compiled.offline import compile_offline
from warpsmith.measure.worker.process import ProcessWorker
from warpsmith.measure.worker.protocol import CompiledAnswer, CompileOffline, TargetRef, WorkerError
from warpsmith.source.scan import scan
from warpsmith.source.tunable import make_tunable

ROOT = Path(__file__).resolve().parents[3]
TARGET = ROOT / "benchmark" / "benchmark_rms_norm.py"
ORIGINAL = ROOT / "optimization" / "rms_norm" / "original_rms_norm.py"
PROFILE = ROOT / "optimization" / "rms_norm" / "profile.json"
H200 = known_gpu("H200")

#: A target of a thousand values whose call is the source's `run`.
SMALL_TARGET = """\
import torch
from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.target import Target

CASE = Case(axes={"N": 1000}, dtype=DType.FLOAT32)
target = Target(
    name="small",
    source="small.py",
    module="small",
    make_inputs=lambda case, device, generator: {"x": torch.randn(1001, device=device, generator=generator)},
    call=lambda module, inputs: module.run(inputs["x"]),
    reference=lambda inputs: inputs["x"],
    cost=lambda case, mode: Cost(bytes_moved=1, flops=1),
    cases=(CASE,),
    modes=(Mode.FORWARD,),
    plot_axis="N",
)
"""
SMALL = Case(axes={"N": 1000}, dtype=DType.FLOAT32)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def question(
    source: Path, case: Case, mode: Mode = Mode.FORWARD, *, target: Path = TARGET, gpu: TargetGpu = H200
) -> CompileOffline:
    return CompileOffline(
        target=TargetRef(path=str(target), root=str(target.parent), sha256=sha256(target)),
        source=SourceRef(path=str(source), sha256=sha256(source)),
        case=case,
        mode=mode,
        gpu=gpu,
    )


def alone(question: CompileOffline) -> CompiledSettings:
    """The answer to a question about one choice of settings."""
    (found,) = compile_offline(question)
    return found


@pytest.fixture
def small(compiling: Any, tmp_path: Path) -> Callable[..., CompileOffline]:
    """A question about the kernel that all tests here share, with `run` and what else is given added to its source."""

    def ask(added: str, *, gpu: TargetGpu = H200, text: str = compiling.source) -> CompileOffline:
        (tmp_path / "benchmark_small.py").write_text(SMALL_TARGET)
        (tmp_path / "small.py").write_text(f"{text}\n\n{added}")
        return question(tmp_path / "small.py", SMALL, target=tmp_path / "benchmark_small.py", gpu=gpu)

    return ask


def comparable(launch: LaunchRecord) -> dict[str, Any]:
    """All that another version of the compiler leaves as it is."""
    told = launch.model_dump(exclude={"compiled", "grid"})
    compiled = launch.compiled.model_dump(exclude={"binary_sha256", "registers", "accesses", "matrix_instructions"})
    return {**told, **compiled, "programs": [size for size in launch.grid if size != 1]}


def test_the_launches_of_a_recorded_run_are_found_with_no_gpu() -> None:
    recorded = json.loads(PROFILE.read_text())
    gpu = target_gpu_of(DeviceFacts.model_validate(recorded["device"]))
    checked = 0
    for name, by_mode in recorded["launches"].items():
        rows, columns = map(int, name.removesuffix("-bf16").split("x"))
        case = Case(axes={"M": rows, "N": columns}, dtype=DType.BFLOAT16)
        assert case.name == name
        for mode, launches in by_mode.items():
            found = alone(question(ORIGINAL, case, Mode(mode), gpu=gpu))
            expected = [LaunchRecord.model_validate(each) for each in launches]
            assert (found.failure, found.notes) == (None, ())
            assert list(map(comparable, found.launches)) == list(map(comparable, expected))
            for ours, theirs in zip(found.launches, expected, strict=True):
                assert ours.compiled.registers == pytest.approx(theirs.compiled.registers, rel=0.15)
                assert {each.kind.value for each in ours.compiled.accesses or ()} == {"load", "store"}
            checked += 1
    assert checked >= 10


@pytest.mark.parametrize(
    ("name", "programs", "stages"), [("A100", 108, 1), ("H200", 132, 4), ("B200", 148, 1), ("RTX 5090", 170, 1)]
)
def test_each_gpu_gets_its_own_grid_and_settings_in_one_process(name: str, programs: int, stages: int) -> None:
    source = ROOT / "src" / "warpsmith" / "kernels" / "rms_norm.py"
    case = Case(axes={"M": 8192, "N": 4096}, dtype=DType.BFLOAT16)
    (forward,) = alone(question(source, case, gpu=known_gpu(name))).launches
    (backward,) = alone(question(source, case, Mode.BACKWARD, gpu=known_gpu(name))).launches

    assert (forward.jit_function, forward.grid) == ("_rms_norm_forward_kernel", (8192, 1, 1))
    assert (backward.jit_function, backward.grid) == ("_rms_norm_backward_kernel", (programs, 1, 1))
    assert backward.constexprs["LOOP_STAGES"] == stages
    assert 16 < forward.compiled.registers < backward.compiled.registers <= 255


@pytest.mark.parametrize("argument", ["x", "x[1:]", "x[:-1]", "x.view(7, 143)[2:].t().contiguous()"])
def test_code_is_specialized_as_for_a_tensor_that_has_an_address(
    small: Callable[..., CompileOffline], compiling: Any, argument: str
) -> None:
    asked = small(f"def run(x):\n    return scaled({argument})\n")
    target = compiling.target(lambda module, inputs: module.run(inputs["x"]))
    source = Path(asked.source.path)
    implementation = compiling.load(source, source.read_text(), target)
    case = Case(axes={"N": 1001}, dtype=DType.FLOAT32)
    (expected,) = record_call(
        implementation, target, case, Mode.FORWARD, device=compiling.device, seed=0, launch=False
    ).launches

    assert alone(asked).launches == (expected,)


HOST_CODE = """\
from triton.runtime import driver

SM_COUNT = torch.cuda.get_device_properties("cuda").multi_processor_count
DEVICE = driver.active.get_active_torch_device()


def run(x):
    properties = torch.cuda.get_device_properties(x.device)
    assert x.is_cuda and x.device == DEVICE and torch.cuda.is_available() and torch.version.cuda
    assert torch.cuda.get_device_capability() == (properties.major, properties.minor) == (8, 0)
    assert driver.active.utils.get_device_properties(0)["max_shared_mem"] == properties.shared_memory_per_block_optin
    blocks = SM_COUNT * 2
    bytes_free = torch.cuda.mem_get_info()[0]
    y = x.cpu().cuda() + torch.ones(3).to("cuda").sum()
    y[0] = 1.0
    apart = y.data_ptr() != x.data_ptr() == x[4:].data_ptr() - 16
    with torch.cuda.device(x.device), torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.current_stream().synchronize()
        return scaled_by(y.to(device="cuda", dtype=torch.float16), blocks, bytes_free, int(apart))


def scaled_by(y, blocks, bytes_free, apart):
    scale_kernel[(blocks,)](y, y, 1001, FACTOR=2.0, DTYPE=tl.float32, BLOCK=64)
    return y
"""


def test_host_code_is_answered_for_the_gpu_that_is_not_there(small: Callable[..., CompileOffline]) -> None:
    found = alone(small(HOST_CODE, gpu=known_gpu("A100")))

    assert found.failure is None
    (launch,) = found.launches
    assert launch.grid == (216, 1, 1)
    assert launch.host_integers == {"blocks": 216, "bytes_free": 80 * 1024**3, "apart": 1}
    assert launch.host_tensors == {"y": "float16"}


@pytest.mark.parametrize(
    ("body", "failure", "at_fault"),
    [
        ("raise ValueError('not this shape')", "the call failed: ValueError: not this shape", "source"),
        ("raise SystemExit('enough')", "the call failed: SystemExit: enough", "source"),
        ("WARPSMITH_SETTINGS['warps'] = 3; return scaled(x)", "the call failed: AssertionError: num_warps", "source"),
        ("scaled(x); raise ValueError('too late')", "the call failed: ValueError: too late", None),
        (
            "return scaled(x * float(x.sum()))",
            "the call reads a tensor's values, and with no GPU there are none: ",
            None,
        ),
        ("x.cpu().numpy(); return scaled(x)", "the call failed: RuntimeError: ", None),
        ("torch.cuda.get_device_properties(0).clock_rate", "the call failed: AttributeError: ", None),
        ("WARPSMITH_SETTINGS['block'] = 32; return scaled(x)", "a static assertion of the kernel failed: ", None),
        ("WARPSMITH_SETTINGS['warps'] = 64; return scaled(x)", "needs more than the GPU has: OutOfResources: ", None),
    ],
)
def test_a_call_that_cannot_be_followed_says_why_and_whose_fault_it_is(
    small: Callable[..., CompileOffline], body: str, failure: str, at_fault: str | None
) -> None:
    found = alone(small(f"import torch\ndef run(x):\n    {body}\n"))

    assert found.launches == ()
    assert str(found.failure).startswith(failure)
    assert found.at_fault == at_fault


@pytest.mark.parametrize(
    ("inputs", "called", "failure"),
    [
        ("1 / 0", "run(inputs['x'])", "the inputs cannot be made: ZeroDivisionError: division by zero"),
        ("sys.exit(3)", "run(inputs['x'])", "the inputs cannot be made: SystemExit: 3"),
        ("{'x': torch.ones(8, device=device)}", "walk()", "the call failed: AttributeError: module 'small_"),
    ],
)
def test_what_the_target_itself_raises_is_the_targets_fault(
    small: Callable[..., CompileOffline], tmp_path: Path, inputs: str, called: str, failure: str
) -> None:
    asked = small(run_scaled())
    target = tmp_path / "benchmark_small.py"
    made = SMALL_TARGET.replace('{"x": torch.randn(1001, device=device, generator=generator)}', inputs)
    target.write_text("import sys\n" + made.replace('run(inputs["x"])', called))
    found = alone(question(tmp_path / "small.py", SMALL, target=target, gpu=asked.gpu))

    assert str(found.failure).startswith(failure)
    assert found.at_fault == "target"


def run_scaled(added: str = "") -> str:
    return f"{added}\ndef run(x):\n    return scaled(x)\n"


def test_each_choice_of_settings_takes_effect_in_order_and_fails_for_itself(
    small: Callable[..., CompileOffline],
) -> None:
    asked = small(run_scaled())
    settings = ({}, {"block": 512}, {"block": 32}, {"warps": 8}, {"block": 8192}, {"warps": 64}, {"stages": 5}, {})
    original, wide, asserted, warps, refused, oversized, stages, again = compile_offline(
        asked.model_copy(update={"settings": settings})
    )

    assert [each.settings for each in (original, wide, asserted, warps, refused, oversized, stages, again)] == [
        *settings
    ]
    assert [each.launches[0].grid for each in (original, wide, warps)] == [(4, 1, 1), (2, 1, 1), (4, 1, 1)]
    assert warps.launches[0].compiled.num_warps == 8
    assert str(asserted.failure).startswith("a static assertion of the kernel failed: ")
    assert refused.failure == "the call failed: ValueError: block 8192 is above 4096"
    assert str(oversized.failure).startswith("needs more than the GPU has: OutOfResources: ")
    assert stages.launches[0].compiled.num_stages == 5
    assert stages.launches[0].compiled.binary_sha256 == original.launches[0].compiled.binary_sha256
    assert again.launches == original.launches
    assert (original.compile_s is None, again.compile_s) == (False, None)


def test_a_source_is_loaded_once_for_all_settings(
    small: Callable[..., CompileOffline], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIMES_LOADED", "")
    asked = small(run_scaled("import os\nos.environ['TIMES_LOADED'] += 'once '\n"))
    compile_offline(asked.model_copy(update={"settings": ({}, {"block": 512}, {"block": 1024})}))

    assert os.environ["TIMES_LOADED"] == "once "


def test_settings_that_a_source_does_not_take_are_refused(small: Callable[..., CompileOffline]) -> None:
    asked = small(run_scaled("del WARPSMITH_SETTINGS"))
    with pytest.raises(WorkerError, match="import_failed: candidate has settings, but its source takes none"):
        compile_offline(asked.model_copy(update={"settings": ({"block": 512},)}))


def test_knobs_made_tunable_act_offline_as_on_a_gpu(tmp_path: Path) -> None:
    text = ORIGINAL.read_text(encoding="utf-8")
    knobs = [knob for knob in scan(text).knobs if knob.tunable]
    source = tmp_path / "tunable_rms_norm.py"
    source.write_text(make_tunable(text, knobs), encoding="utf-8")
    case = Case(axes={"M": 1024, "N": 1024}, dtype=DType.BFLOAT16)
    forward, backward = "_rms_norm_forward_kernel", "_rms_norm_backward_kernel"
    settings: tuple[dict[str, int], ...] = (
        {f"{forward}.num_warps": 2},
        {f"{backward}.num_warps": 16},
        {f"{backward}.programs_per_sm": 2},
    )
    asked = question(source, case, Mode.FULL).model_copy(update={"settings": settings})
    found = [
        {each.jit_function: (each.compiled.num_warps, each.grid[0]) for each in compiled.launches}
        for compiled in compile_offline(asked)
    ]

    assert found[0][forward][0] == 2 != found[1][forward][0]
    assert found[1][backward][0] == 16 != found[0][backward][0]
    assert [each[backward][1] for each in found] == [132, 132, 264]


def test_a_call_that_returns_nothing_is_a_bad_target(small: Callable[..., CompileOffline]) -> None:
    with pytest.raises(WorkerError, match="bad_target: call returned NoneType"):
        alone(small("def run(x):\n    scaled(x)\n"))


def test_a_call_that_launches_nothing_has_no_launches(small: Callable[..., CompileOffline]) -> None:
    assert alone(small("def run(x):\n    return x + 1\n")) == CompiledSettings(settings={})


MATMUL = """\
@triton.jit
def matmul_kernel(a_ptr, c_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    total = tl.zeros((SIZE, SIZE), dtype=tl.float32)
    for k in tl.range(0, 64, num_stages=5):
        a = tl.load(a_ptr + k * SIZE * SIZE + at)
        total += tl.dot(a, tl.load(c_ptr + k * SIZE * SIZE + at))
    tl.store(c_ptr + at, total)


def run(x):
    a = torch.empty(65536, device=x.device, dtype=torch.float32)
    matmul_kernel[(1,)](a, a, SIZE=64, num_warps=8)
    return a
"""


@pytest.mark.parametrize(("name", "fits"), [("A10", False), ("H200", True)])
def test_shared_memory_beyond_the_gpus_is_refused_as_there(
    small: Callable[..., CompileOffline], name: str, fits: bool
) -> None:
    found = alone(small(MATMUL, gpu=known_gpu(name)))

    if fits:
        assert [each.jit_function for each in found.launches] == ["matmul_kernel"]
        assert found.launches[0].compiled.shared_bytes > 100 * 1024
    else:
        assert found.launches == ()
        assert str(found.failure).startswith(
            "needs more than the GPU has: OutOfResources: out of resource: shared memory, Required: "
        )
        assert "Hardware limit: 101376" in str(found.failure)


AUTOTUNED = """\
tuned_kernel = triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((8, 1), (128, 2), (256, 4))],
    key=["n"],
    prune_configs_by={"early_config_prune": lambda configs, args, **_: [c for c in configs if c.kwargs["BLOCK"] > 64]},
)(scale_kernel)


def run(x):
    tuned_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, x, 1000, FACTOR=2.0, DTYPE=tl.float32)
    return x
"""


def test_an_autotuned_kernel_shows_its_first_configuration_and_says_so(small: Callable[..., CompileOffline]) -> None:
    found = alone(small(AUTOTUNED))

    assert [(each.grid, each.compiled.num_warps) for each in found.launches] == [((8, 1, 1), 2)]
    assert found.notes == (
        "scale_kernel: the first of 2 configurations stands in; which one is fastest is timed on a GPU",
    )


def test_each_answer_has_notes_of_its_own(small: Callable[..., CompileOffline]) -> None:
    tuned_when_asked = AUTOTUNED.replace(
        "    tuned_kernel", "    if not WARPSMITH_SETTINGS: return scaled(x)\n    tuned_kernel"
    )
    asked = small(tuned_when_asked).model_copy(update={"settings": ({"tuned": 1}, {}, {"tuned": 2})})

    assert [len(each.notes) for each in compile_offline(asked)] == [1, 0, 1]


def test_everything_is_as_it_was_afterwards_also_after_a_failure(small: Callable[..., CompileOffline]) -> None:
    def observed() -> tuple[Any, ...]:
        cuda = (torch.cuda.is_available, torch.cuda.get_device_properties, torch.cuda.Stream, torch.version.cuda)
        triton = (driver.active, JITFunction.run, Autotuner.run)
        return *cuda, *triton, torch.Generator, torch.autograd.grad, torch.ones(1).item()

    before = observed()
    assert alone(small("def run(x):\n    return scaled(x)\n")).launches
    assert observed() == before
    with pytest.raises(WorkerError, match="import_failed"):
        alone(small("raise RuntimeError('no such module')"))
    assert observed() == before


def test_a_capability_that_nobody_knows_is_refused_by_name(small: Callable[..., CompileOffline]) -> None:
    gpu = H200.model_copy(update={"name": "NVIDIA Z900", "capability": (13, 0)})
    with pytest.raises(WorkerError) as refused:
        alone(small("def run(x):\n    return scaled(x)\n", gpu=gpu))

    assert refused.value.failure.status == "compile_failed"
    assert "cannot compile for NVIDIA Z900, compute capability 13.0" in refused.value.failure.message
    assert refused.value.failure.message.startswith("triton ")


def test_a_capability_that_ptxas_does_not_know_is_refused_by_name(
    small: Callable[..., CompileOffline], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(architecture._KNOWN, (13, 0), architecture._KNOWN[(10, 0)])
    gpu = H200.model_copy(update={"name": "NVIDIA Z900", "capability": (13, 0)})
    with pytest.raises(WorkerError, match=r"compile_failed: triton .* NVIDIA Z900, .* 13.0: its ptxas does not know"):
        alone(small("def run(x):\n    return scaled(x)\n", gpu=gpu))


def test_a_worker_that_sees_no_gpu_answers(small: Callable[..., CompileOffline], tmp_path: Path) -> None:
    asked = small("def run(x):\n    return scaled(x)\n")
    worker = ProcessWorker(ROOT, tmp_path / "worker.log", gpu_uuid="")
    try:
        answer = worker.ask(asked)
    finally:
        worker.close()

    assert isinstance(answer, CompiledAnswer)
    (compiled,) = answer.compiled
    assert [each.grid for each in compiled.launches] == [(4, 1, 1)]
