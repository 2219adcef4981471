from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from warpsmith.contracts.case import Case, Cost, DType, Mode
from warpsmith.contracts.measurement import L2, Memory, Timing, TimingMethod, TimingPlan
from warpsmith.contracts.target import Inputs, Target
from warpsmith.measure.timing import code as timing_code
from warpsmith.measure.timing.ceilings import FOOTPRINTS_BYTES, inspect_device
from warpsmith.measure.timing.code import LoadedCode
from warpsmith.measure.timing.compare import time_contenders
from warpsmith.measure.timing.contest import Contest
from warpsmith.measure.timing.host import measure_host_time
from warpsmith.measure.timing.memory import measure_memories
from warpsmith.measure.timing.rotation import RotationMaker
from warpsmith.measure.worker.implementation import Implementation
from warpsmith.measure.worker.inputs import InputMaker
from warpsmith.verdict.statistics import compare

pytestmark = pytest.mark.gpu

LARGE = Case(axes={"M": 4096, "N": 4096}, dtype=DType.BFLOAT16)
#: 16 MiB: fits in the L2 cache of every GPU that has at least 32 MiB of it.
FITS = Case(axes={"M": 2048, "N": 4096}, dtype=DType.BFLOAT16)
SMALL = Case(axes={"M": 16, "N": 256}, dtype=DType.BFLOAT16)
MATRIX_BYTES = 4096 * 4096 * 2
#: What two events around an eager call may see beside its kernel: the gap between launches.
LAUNCH_GAP_MS = 0.03
PLAN = TimingPlan(rounds=12, most_rounds=12)


def make_inputs(case: Case, device: Any, generator: torch.Generator) -> Inputs:
    shape = case.axes["M"], case.axes["N"]
    return {"x": torch.randn(shape, device=device, dtype=torch.bfloat16, generator=generator)}


def target_of(overwrites: tuple[str, ...] = ()) -> Target:
    return Target(
        name="silu",
        source="silu.py",
        module="silu",
        make_inputs=make_inputs,
        call=lambda module, inputs: None,
        reference=lambda inputs: torch.nn.functional.silu(inputs["x"]),
        cost=lambda case, mode: Cost(bytes_moved=2 * 2 * case.axes["M"] * case.axes["N"], flops=0),
        cases=(LARGE, FITS, SMALL),
        differentiable=("x",),
        overwrites=overwrites,
    )


def silu(inputs: Inputs) -> Tensor:
    return torch.nn.functional.silu(inputs["x"])


def waits(inputs: Inputs) -> Tensor:
    y = silu(inputs)
    return y * (1.0 if y[0, 0].item() < float("inf") else 2.0)


def fails(inputs: Inputs) -> Tensor:
    raise ValueError("no such shape\nmore")


def side(name: str, call: Callable[[Inputs], Any]) -> Implementation:
    return Implementation(name, call, lambda: None, f"{name}.py")


def device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())


def timed(
    *sides: Implementation,
    mode: Mode = Mode.FORWARD,
    case: Case = LARGE,
    target: Target | None = None,
    plan: TimingPlan = PLAN,
    method: TimingMethod | None = None,
    l2: L2 = L2.COLD,
) -> Timing:
    made = target or target_of()
    return time_contenders(sides, made, case, mode, plan=plan, method=method, l2=l2, seed=0, device=device())


def median_ms(timing: Timing, name: str = "a") -> float:
    return median(median(block.samples_ms) for block in timing.blocks if block.contender == name)


def assert_no_difference(timing: Timing, within: float) -> None:
    """The whole 95% interval of a against b lies that near to 1."""
    speedup = compare(timing, "a", "b").speedup
    assert 1 - within < speedup.low <= speedup.high < 1 + within, speedup


@pytest.mark.parametrize("mode", list(Mode))
def test_a_kernel_is_as_fast_as_itself_within_one_per_cent(mode: Mode) -> None:
    timing = timed(side("a", silu), side("b", silu), mode=mode, plan=TimingPlan(rounds=24, most_rounds=24))
    assert (timing.method, timing.method_reason, timing.failures) == (TimingMethod.GRAPH, None, {})
    assert (timing.l2, timing.l2_flushed) == (L2.COLD, False)
    assert_no_difference(timing, 0.01)


def test_a_kernel_and_itself_write_at_the_same_addresses() -> None:
    assert timed(side("a", silu), side("b", silu)).same_addresses is True


@pytest.mark.parametrize("mode", list(Mode))
def test_a_small_kernel_is_timed_cold_and_as_fast_as_itself(mode: Mode) -> None:
    timing = timed(side("a", silu), side("b", silu), mode=mode, case=SMALL)
    assert (timing.method, timing.l2_flushed, timing.failures) == (TimingMethod.GRAPH, True, {})
    assert_no_difference(timing, 0.03)


def test_a_pilot_settles_the_number_of_rounds_and_is_put_aside() -> None:
    plan = TimingPlan(rounds=4, most_rounds=40, half_width=0.005, cap_s=20.0)
    timing = timed(side("a", silu), side("b", silu), plan=plan)
    rounds = {block.round for block in timing.blocks}
    assert 4 <= len(rounds) <= 40
    assert {block.round for block in timing.pilot} == set(range(6))
    assert timing.capped is False
    assert (timing.clock_unread is None) == all(block.sm_clock_mhz is not None for block in timing.blocks)


def test_more_work_takes_longer_and_cannot_lie_at_the_same_addresses() -> None:
    more = timed(side("a", lambda inputs: (silu(inputs), silu(inputs))[1]), side("b", silu))
    assert more.same_addresses is False
    assert compare(more, "a", "b").speedup.low > 1.2


def test_all_methods_agree_on_a_kernel_that_dwarfs_its_launch() -> None:
    found = {method: timed(side("a", silu), method=method) for method in TimingMethod}
    assert {method: timing.method for method, timing in found.items()} == {method: method for method in TimingMethod}
    graph, profiler, events = (median_ms(found[method]) for method in TimingMethod)
    assert profiler == pytest.approx(graph, rel=0.1)
    assert 0.9 * graph < events < 1.1 * graph + LAUNCH_GAP_MS
    assert events > 0.98 * profiler


def test_a_set_that_fits_in_l2_is_read_faster_from_there() -> None:
    if torch.cuda.get_device_properties(device()).L2_cache_size < 32 << 20:
        pytest.skip("needs an L2 cache of 32 MiB")

    def row_sums(inputs: Inputs) -> Tensor:
        return inputs["x"].sum(dim=-1)

    cold, warm = (timed(side("a", row_sums), case=FITS, l2=l2) for l2 in (L2.COLD, L2.WARM))
    assert (cold.l2, warm.l2) == (L2.COLD, L2.WARM)
    assert (cold.input_sets > 1, warm.input_sets, warm.l2_flushed) == (True, 1, False)
    assert median_ms(warm) < 0.9 * median_ms(cold)


@pytest.mark.parametrize("case", [LARGE, SMALL])
def test_each_placement_has_its_inputs_and_outputs_elsewhere_and_other_values(case: Case) -> None:
    inputs, outputs, values = set[int](), set[int](), set[float]()
    with torch.cuda.stream(torch.cuda.Stream(device())):
        rotations = RotationMaker(InputMaker(target_of(), case, Mode.FORWARD, device()), L2.COLD)
        contest = Contest([side("a", silu)], rotations, seed=3)
        contest.warm_up()
        for number in range(12):
            runners: Any = contest.runners(TimingMethod.GRAPH, number)
            assert contest.last is not None
            x = contest.last.sets[0].inputs["x"]
            inputs.add(x.data_ptr())
            values.add(float(x.float().sum()))
            outputs.add(runners["a"].captured.pointers[0])
            del x, runners  # gives its memory back before the next is made
    assert len(values) == 12
    # Distances are drawn, and the driver may place a segment where one was before: some come twice.
    assert len(inputs) > 2, sorted(map(hex, inputs))
    assert len(outputs) > 2, sorted(map(hex, outputs))


def test_calls_of_a_warm_graph_write_where_those_before_did_and_those_of_a_cold_one_do_not() -> None:
    def places_by(l2: L2) -> tuple[int, int]:
        """How many calls the last capture made, and how many places they wrote to."""
        places: list[int] = []

        def noted(inputs: Inputs) -> Tensor:
            y = silu(inputs)
            if torch.cuda.is_current_stream_capturing():
                places.append(y.data_ptr())
            return y

        timing = timed(side("a", noted), case=FITS, l2=l2, plan=TimingPlan(rounds=2, most_rounds=2))
        assert (timing.method, timing.failures) == (TimingMethod.GRAPH, {})
        last = places[-timing.calls_per_sample :]
        return len(last), len(set(last))

    warm_calls, warm_places = places_by(L2.WARM)
    assert (warm_calls > 4, warm_places <= 4) == (True, True), (warm_calls, warm_places)
    cold_calls, cold_places = places_by(L2.COLD)
    assert cold_places == cold_calls > 4


def test_a_gather_that_reads_little_of_what_it_is_handed_has_l2_flushed() -> None:
    def with_rows(case: Case, device: Any, generator: torch.Generator) -> Inputs:
        return {**make_inputs(case, device, generator), "rows": torch.arange(0, 2048, 128, device=device)}

    def gather(inputs: Inputs) -> Tensor:
        return inputs["x"][inputs["rows"]]

    read_and_written = Cost(bytes_moved=2 * 16 * 4096 * 2, flops=0)
    target = replace(target_of(), make_inputs=with_rows, reference=gather, cost=lambda case, mode: read_and_written)
    timing = timed(side("a", gather), side("b", gather), case=FITS, target=target)
    assert (timing.method, timing.l2_flushed, timing.failures) == (TimingMethod.GRAPH, True, {})
    assert_no_difference(timing, 0.03)


def test_one_that_waits_for_the_device_has_all_timed_by_the_profiler_and_harms_no_later_comparison() -> None:
    timing = timed(side("a", silu), side("b", waits))
    assert timing.method is TimingMethod.PROFILER
    assert timing.method_reason is not None
    assert timing.method_reason.startswith("b cannot be captured into a CUDA graph")
    assert (timing.l2_flushed, timing.same_addresses, timing.failures) == (True, None, {})
    assert {block.contender for block in timing.blocks} == {"a", "b"}
    assert compare(timing, "b", "a").speedup.low > 1.2
    again = timed(side("a", silu), side("b", silu))
    assert (again.method, again.failures) == (TimingMethod.GRAPH, {})


def test_one_that_raises_is_told_and_the_rest_is_timed() -> None:
    timing = timed(side("fails", fails), side("a", silu), side("b", silu))
    assert timing.failures == {"fails": "runtime_failed: ValueError: no such shape"}
    assert (timing.method, {block.contender for block in timing.blocks}) == (TimingMethod.GRAPH, {"a", "b"})


class Tally:
    """Adds up on the device what every call finds, replays included: what it is told must not need the host."""

    def __init__(self) -> None:
        self.calls = torch.zeros((), dtype=torch.float64, device=device())
        self.total = torch.zeros((), dtype=torch.float64, device=device())

    def add(self, found: Tensor) -> None:
        self.calls.add_(1)
        self.total.add_(found)

    @property
    def mean(self) -> float:
        return float(self.total / self.calls)


@pytest.mark.parametrize("method", list(TimingMethod))
def test_an_input_that_is_overwritten_has_its_values_at_each_call(method: TimingMethod) -> None:
    tally = Tally()

    def relu_in_place(inputs: Inputs) -> Tensor:
        tally.add((inputs["x"] < 0).double().mean())
        return inputs["x"].relu_()

    timing = timed(side("a", relu_in_place), target=target_of(overwrites=("x",)), method=method)
    assert (timing.method, timing.failures, timing.l2_flushed) == (method, {}, True)
    assert timing.calls_per_sample == (timing.input_sets if method is TimingMethod.GRAPH else 1)
    assert float(tally.calls) > 12
    # Half of all normal values are negative, and none of overwritten ones.
    assert tally.mean == pytest.approx(0.5, abs=0.01)


def test_a_kernel_that_works_in_place_is_as_fast_as_itself() -> None:
    sides = [side(name, lambda inputs: inputs["x"].relu_()) for name in "ab"]
    timing = timed(*sides, target=target_of(overwrites=("x",)), plan=TimingPlan(rounds=24, most_rounds=24))
    assert (timing.method, timing.failures, timing.same_addresses) == (TimingMethod.GRAPH, {}, True)
    assert_no_difference(timing, 0.02)


class BackwardInPlace(torch.autograd.Function):
    """Writes its gradient over the one that it is handed, as a loss does that saves the memory of another."""

    tally: Tally | None = None

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.nn.functional.silu(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        if BackwardInPlace.tally is not None:
            BackwardInPlace.tally.add(gradient.double().square().mean())
        (x,) = ctx.saved_tensors
        return gradient.mul_(x)


@pytest.mark.parametrize("mode", [Mode.BACKWARD, Mode.FULL])
@pytest.mark.parametrize("method", list(TimingMethod))
def test_a_gradient_that_is_overwritten_has_its_values_at_each_call(
    monkeypatch: pytest.MonkeyPatch, mode: Mode, method: TimingMethod
) -> None:
    tally = Tally()
    monkeypatch.setattr(BackwardInPlace, "tally", tally)
    in_place = side("a", lambda inputs: BackwardInPlace.apply(inputs["x"]))
    timing = timed(in_place, mode=mode, target=target_of(overwrites=("x",)), method=method)
    assert (timing.method, timing.failures) == (method, {})
    assert float(tally.calls) > 12
    # The mean square of normal values; it grows where a gradient is overwritten again and again.
    assert tally.mean == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("mode", [Mode.BACKWARD, Mode.FULL])
def test_a_backward_pass_in_place_is_as_fast_as_itself(mode: Mode) -> None:
    sides = [side(name, lambda inputs: BackwardInPlace.apply(inputs["x"])) for name in "ab"]
    plan = TimingPlan(rounds=24, most_rounds=24)
    timing = timed(*sides, mode=mode, target=target_of(overwrites=("x",)), plan=plan)
    assert (timing.method, timing.failures) == (TimingMethod.GRAPH, {})
    assert_no_difference(timing, 0.02)


@triton.jit
def double_kernel(x, y, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + index, 2 * tl.load(x + index, mask=index < n), mask=index < n)


def double(x: Tensor) -> tuple[Tensor, Any]:
    """Twice x, and the compiled kernel."""
    y = torch.empty_like(x)
    kernel = double_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y, kernel


class DoubleBackward(torch.autograd.Function):
    """Launches a kernel of Triton's on autograd's own thread, and keeps it."""

    kernels: list[Any]

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        result, kernel = double(gradient)
        DoubleBackward.kernels.append(kernel)
        return result


class Unloading:
    """The driver's library, as far as it unloads; what it answers is kept."""

    c_void_p = ctypes.c_void_p

    def __init__(self) -> None:
        self.answers: list[int] = []

    def CDLL(self, name: str) -> Unloading:
        self.library = ctypes.CDLL(name)
        return self

    def cuModuleUnload(self, module: ctypes.c_void_p) -> int:
        self.answers.append(self.library.cuModuleUnload(module))
        return self.answers[-1]


def assert_doubles(x: Tensor, kernel: Any) -> None:
    """By that kernel, launched at once and from a graph."""
    y, launched = double(x)
    assert launched is kernel
    torch.testing.assert_close(y, 2 * x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y, _ = double(x)
    graph.replay()
    torch.testing.assert_close(y, 2 * x)


def test_code_is_loaded_elsewhere_and_computes_the_same_eagerly_and_in_a_graph() -> None:
    x, code, draw = torch.randn(5000, device=device()), LoadedCode(), random.Random(0)
    with code.watching():
        _, kernel = double(x)
    modules = [kernel.module]
    for _ in range(3):
        code.reload(draw)
        assert kernel.module not in (modules[0], modules[-1])  # both are still there
        modules.append(kernel.module)
        assert_doubles(x, kernel)


def test_copies_of_code_are_unloaded_and_take_no_more_memory_the_more_often_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unloading = Unloading()
    monkeypatch.setattr(timing_code, "ctypes", unloading)
    x, code, draw = torch.randn(5000, device=device()), LoadedCode(), random.Random(0)
    with code.watching():
        _, kernel = double(x)
    code.reload(draw)
    assert_doubles(x, kernel)
    torch.cuda.empty_cache()
    free_bytes, _ = torch.cuda.mem_get_info()
    for _ in range(200):
        code.reload(draw)
    assert_doubles(x, kernel)
    torch.cuda.empty_cache()
    assert free_bytes - torch.cuda.mem_get_info()[0] <= 64 << 20
    # All but those that are in place: one to three a time.
    assert len(unloading.answers) >= 200
    assert set(unloading.answers) == {0}  # CUDA_SUCCESS


def test_code_that_a_pass_backward_launched_is_loaded_anew_too() -> None:
    DoubleBackward.kernels, code = [], LoadedCode()
    x = torch.randn(5000, device=device(), requires_grad=True)
    y = DoubleBackward.apply(x)
    with code.watching():
        torch.autograd.grad(y, x, torch.ones_like(y))
    (kernel,) = DoubleBackward.kernels
    before = kernel.function
    code.reload(random.Random(0))
    assert kernel.function != before


def test_each_placement_of_a_kernel_of_tritons_runs_code_of_its_own() -> None:
    places: list[int] = []

    def noted(inputs: Inputs) -> Tensor:
        y, kernel = double(inputs["x"])
        if kernel.function not in places[-1:]:
            places.append(kernel.function)
        return y

    timing = timed(side("a", noted), side("b", lambda inputs: double(inputs["x"])[0]))
    assert (timing.method, timing.failures, timing.same_addresses) == (TimingMethod.GRAPH, {}, True)
    assert len(places) == 1 + 12  # the warm-up's, and one a round
    # The place of one that was unloaded may be taken again.
    assert len(set(places)) > len(places) / 2, list(map(hex, places))
    assert_no_difference(timing, 0.01)


def test_peak_memory_is_what_a_call_allocates_in_every_mode() -> None:
    sides = [side("fails", fails), side("a", silu)]
    found = measure_memories(sides, target_of(), LARGE, list(Mode), seed=0, device=device())
    matrices = {Mode.FORWARD: 1, Mode.BACKWARD: 1, Mode.FULL: 2}  # the output, the gradient of the input, both
    assert found.memories == tuple(
        Memory(
            case=LARGE,
            mode=mode,
            peak_bytes={"a": matrices[mode] * MATRIX_BYTES},
            failures={"fails": "runtime_failed: ValueError: no such shape"},
        )
        for mode in Mode
    )


@pytest.mark.parametrize("mode", list(Mode))
def test_host_time_is_kept_call_by_call_and_one_that_fails_is_told(mode: Mode) -> None:
    sides = [side("fails", fails), side("a", silu), side("b", silu)]
    host_time = measure_host_time(sides, target_of(), SMALL, mode, calls=64, seed=0, device=device())
    assert {name: len(samples) for name, samples in host_time.samples_us.items()} == {"a": 64, "b": 64}
    assert all(sample > 0 for samples in host_time.samples_us.values() for sample in samples)
    assert host_time.failures == {"fails": "runtime_failed: ValueError: no such shape"}


def test_ceilings_are_measured_at_every_footprint_and_dtype() -> None:
    facts = inspect_device(device())
    assert [ceiling.footprint_bytes for ceiling in facts.copy_ceilings] == list(FOOTPRINTS_BYTES)
    assert all(ceiling.gb_s > 100 for ceiling in facts.copy_ceilings)
    assert set(facts.matmul_tflops) == set(DType)
    assert facts.matmul_tflops[DType.BFLOAT16] > facts.matmul_tflops[DType.FLOAT32] > 1
