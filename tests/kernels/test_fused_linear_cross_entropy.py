"""fused_linear_cross_entropy without a GPU: interpreted, its chunks, the reference, the errors. On a GPU: the gate."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from warpsmith.kernels.arguments import _announce_reference
from warpsmith.kernels.fused_linear_cross_entropy import (
    LOGITS_BYTES,
    fused_linear_cross_entropy,
    fused_linear_cross_entropy_reference,
    rows_per_chunk,
)

#: The module: of the package, it is the function.
fused = importlib.import_module("warpsmith.kernels.fused_linear_cross_entropy")

DTYPES = (torch.float32, torch.float16, torch.bfloat16)

pytestmark = pytest.mark.filterwarnings("ignore:fused_linear_cross_entropy. Triton cannot run on")


# Interpreted on the CPU


# Of 16 bits, a few roundings by half a unit: the logits, which are up to 16, their gradient, the result.
@pytest.mark.usefixtures("interpreter_loops")
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float16", 3e-3), ("bfloat16", 2.4e-2)])
def test_interpreted_results_match_float64(
    interpreted_errors: dict[str, dict[str, float]], dtype: str, tolerance: float
) -> None:
    errors = {name: each for name, each in interpreted_errors.items() if f"-{dtype}-" in name}
    assert len(errors) == 15
    # The mean of no rows is NaN, which JSON does not know.
    assert all("loss" in each or name.startswith("0x16-") for name, each in errors.items())
    assert all(len(each) - ("loss" in each) == 4 for each in errors.values())
    assert {name: e for name, e in errors.items() if not all(value <= tolerance for value in e.values())} == {}


# The chunks


@pytest.mark.parametrize(
    ("n_rows", "n_classes", "element_bytes", "expected"),
    [
        (4096, 128256, 2, 1024),
        (4096, 128256, 4, 512),
        (8192, 32000, 2, 4096),
        (4200, 32000, 2, 2176),
        (1000, 128256, 2, 1024),
        (4096, 2_000_000, 4, 128),
        (1, 10, 2, 128),
        (0, 10, 2, 128),
    ],
)
def test_chunks_are_as_long_as_each_other_and_hold_what_they_may(
    n_rows: int, n_classes: int, element_bytes: int, expected: int
) -> None:
    assert rows_per_chunk(n_rows, n_classes, element_bytes) == expected
    assert expected == 128 or expected * n_classes * element_bytes <= LOGITS_BYTES


# The reference


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_reference_is_torch_linear_and_cross_entropy(reduction: str) -> None:
    hidden, weight = (torch.randn(size, 8, dtype=torch.float64, requires_grad=True) for size in (6, 11))
    target = torch.randint(11, (6,))
    target[2] = -100
    settings: dict[str, Any] = {"reduction": reduction, "label_smoothing": 0.1}
    expected = functional.cross_entropy(functional.linear(hidden, weight), target, **settings)
    found = fused_linear_cross_entropy_reference(hidden, weight, target, **settings)
    torch.testing.assert_close(found, expected)
    ours, theirs = (torch.autograd.grad(loss, (hidden, weight)) for loss in (found, expected))
    torch.testing.assert_close(ours, theirs)


def test_cpu_tensors_are_computed_by_the_reference_and_announced() -> None:
    hidden, weight = (torch.randn(size, 8, dtype=torch.bfloat16) for size in (6, 11))
    target = torch.randint(11, (6,))
    _announce_reference.cache_clear()
    with pytest.warns(UserWarning, match="fused_linear_cross_entropy: Triton cannot run on cpu tensors"):
        loss = fused_linear_cross_entropy(hidden, weight, target)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, fused_linear_cross_entropy_reference(hidden, weight, target))


def test_meta_tensors_have_the_shapes_that_torch_gives_them() -> None:
    hidden, weight, target = torch.empty(6, 8), torch.empty(11, 8), torch.zeros(6, dtype=torch.int64)
    loss = fused_linear_cross_entropy(*(each.to("meta") for each in (hidden, weight, target)))
    assert loss.is_meta and loss.shape == () and loss.dtype == torch.float32


# Errors

HIDDEN, WEIGHT, TARGET = torch.ones(2, 4), torch.ones(5, 4), torch.zeros(2, dtype=torch.int64)


@pytest.mark.parametrize(
    ("hidden", "weight", "target", "options", "error", "message"),
    [
        (HIDDEN.double(), WEIGHT, TARGET, {}, TypeError, "hidden must be float32.*float64"),
        (HIDDEN, WEIGHT.half(), TARGET, {}, TypeError, "the dtype of hidden, torch.float32, found torch.float16"),
        (HIDDEN, WEIGHT, TARGET.int(), {}, TypeError, "target must be int64.*int32"),
        (HIDDEN, WEIGHT[:, :3], TARGET, {}, ValueError, r"weight must have shape \(5, 4\), found \(5, 3\)"),
        (HIDDEN, WEIGHT[0], TARGET, {}, ValueError, r"weight must be \(classes, hidden size\), found shape \(4,\)"),
        (HIDDEN, WEIGHT[:0], TARGET, {}, ValueError, r"weight must be \(classes, hidden size\), found shape \(0, 4\)"),
        (HIDDEN[:, :0], WEIGHT[:, :0], TARGET, {}, ValueError, "last dimension of at least 1"),
        (HIDDEN, WEIGHT, TARGET[:1], {}, ValueError, r"target must have shape \(2,\), found \(1,\)"),
        (HIDDEN, WEIGHT.to("meta"), TARGET, {}, ValueError, "weight is on meta, hidden on cpu"),
        (HIDDEN, WEIGHT, TARGET, {"reduction": "none"}, ValueError, r"reduction must be one of \('mean', 'sum'\)"),
        (HIDDEN, WEIGHT, TARGET, {"label_smoothing": -0.1}, ValueError, "must be 0 to 1, found -0.1"),
    ],
)
def test_wrong_arguments_are_named(
    hidden: Tensor, weight: Tensor, target: Tensor, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        fused_linear_cross_entropy(hidden, weight, target, **options)


# On a GPU


def draw(shape: tuple[int, ...], classes: int, dtype: torch.dtype, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """hidden, weight, and target, of which every fifth is ignored. Logits have a deviation of 2."""
    generator = torch.Generator("cuda").manual_seed(seed)
    hidden = torch.randn(shape, device="cuda", generator=generator)
    weight = torch.randn((classes, shape[-1]), device="cuda", generator=generator) * (2.0 / shape[-1] ** 0.5)
    target = torch.randint(classes, shape[:-1], device="cuda", generator=generator)
    target.view(-1)[1::5] = -100
    return hidden.to(dtype), weight.to(dtype), target


def run(
    hidden: Tensor, weight: Tensor, target: Tensor, dloss: float = 1.0, **settings: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss and both gradients."""
    hidden, weight = hidden.detach().requires_grad_(), weight.detach().requires_grad_()
    loss = fused_linear_cross_entropy(hidden, weight, target, **settings)
    gradients = torch.autograd.grad(loss, (hidden, weight), torch.tensor(dloss, device="cuda"))
    return (loss.detach(), *gradients)


def run_exactly(
    hidden: Tensor, weight: Tensor, target: Tensor, dloss: float = 1.0, **settings: Any
) -> tuple[Tensor, Tensor, Tensor]:
    hidden, weight = (each.detach().double().requires_grad_() for each in (hidden, weight))
    loss = fused_linear_cross_entropy_reference(hidden, weight, target, **settings)
    return (loss.detach(), *torch.autograd.grad(loss, (hidden, weight), torch.tensor(dloss, device="cuda").double()))


def assert_near(found: tuple[Tensor, ...], exact: tuple[Tensor, ...], dtype: torch.dtype, chunks: int = 1) -> None:
    """By norms, for errors of products are of the size of their factors, not of each result.

    Half a unit of the dtype for each rounding: logits of up to 8 (4 units of 1), their gradient, the result after each
    chunk, and as it is multiplied by what comes in.
    """
    rounding = max(torch.finfo(dtype).eps / 2, 1e-5)
    for ours, theirs in zip(found, exact, strict=True):
        error = (ours.double() - theirs).norm() / theirs.norm().clamp(min=1e-30)
        # Written so that a NaN is a failure.
        assert error <= (4 + 1 + chunks + 1) * rounding, f"off by {error}"


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 1021 classes of 16 bits, 128 rows a chunk."""
    monkeypatch.setattr(fused, "LOGITS_BYTES", 128 * 1021 * 2)


@pytest.mark.gpu
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("settings", [{}, {"reduction": "sum"}, {"label_smoothing": 0.1, "z_loss": 1e-3}], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 64), (128, 64), (3, 131, 61), (1000, 256)])
def test_values_and_gradients_match_float64(
    shape: tuple[int, ...], dtype: torch.dtype, settings: dict[str, Any]
) -> None:
    arguments = draw(shape, 1021, dtype)
    chunks = -(-arguments[2].numel() // rows_per_chunk(arguments[2].numel(), 1021, dtype.itemsize))
    for dloss in (1.0, 0.3):
        found, exact = (each(*arguments, dloss, **settings) for each in (run, run_exactly))
        assert found[0].dtype == torch.float32 and found[1].dtype == found[2].dtype == dtype
        assert_near(found, exact, dtype, chunks)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_gives_nothing(dtype: torch.dtype) -> None:
    loss, dhidden, dweight = run(*draw((2, 0, 64), 100, dtype), reduction="sum")
    assert loss == 0 and dhidden.shape == (2, 0, 64) and (dweight == 0).all()
    assert run(*draw((0, 64), 100, dtype))[0].isnan()


@pytest.mark.gpu
def test_a_wrong_target_and_nan_spoil_what_they_take_part_in() -> None:
    hidden, weight, target = draw((300, 64), 1021, torch.float32)
    target[7] = 1021
    loss, dhidden, dweight = run(hidden, weight, target)
    assert loss.isnan() and dweight.isnan().all()
    assert dhidden.isnan().any(dim=1).nonzero().flatten().tolist() == [7]
    target[7], hidden[7, 3] = -100, float("nan")
    loss, dhidden, _ = run(hidden, weight, target)
    assert loss.isfinite() and dhidden.isfinite().all()


@pytest.mark.gpu
@pytest.mark.usefixtures("small_chunks")
def test_repeated_calls_agree_bitwise_and_leave_their_arguments() -> None:
    arguments = draw((1000, 256), 1021, torch.bfloat16)
    before = [each.clone() for each in arguments]
    first = run(*arguments)
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(run(*arguments), first, strict=True))
    assert all(torch.equal(now, then) for now, then in zip(arguments, before, strict=True))


@pytest.mark.gpu
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_backward_pass_has_memory_of_its_own(dtype: torch.dtype) -> None:
    hidden, weight, target = draw((300, 64), 1021, dtype)
    exact = run_exactly(hidden, weight, target, 0.3)
    inputs = hidden.requires_grad_(), weight.requires_grad_()
    loss = fused_linear_cross_entropy(*inputs, target)
    dloss = torch.tensor(0.3, device="cuda")
    passes = [torch.autograd.grad(loss, inputs, dloss, retain_graph=True) for _ in range(3)]
    assert len({gradient.data_ptr() for each in passes for gradient in each}) == 6
    for each in passes:
        assert_near((loss.detach(), *each), exact, dtype, 3)


@pytest.mark.gpu
@pytest.mark.parametrize("which", [0, 1])
def test_gradients_are_computed_only_where_they_are_needed(which: int) -> None:
    *inputs, target = draw((300, 64), 1021, torch.bfloat16)
    both = run(*inputs, target)
    inputs[which].requires_grad_()
    loss = fused_linear_cross_entropy(*inputs, target)
    assert torch.equal(torch.autograd.grad(loss, inputs[which])[0], both[1 + which])
    with torch.no_grad():
        assert torch.equal(fused_linear_cross_entropy(*inputs, target), both[0])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_peak_of_memory_is_one_chunk_of_logits(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    n_rows, classes = 2048, 16384
    monkeypatch.setattr(fused, "LOGITS_BYTES", 256 * classes * dtype.itemsize)
    hidden, weight, target = draw((n_rows, 512), classes, dtype)
    run(hidden, weight, target)  # what libraries allocate once is there
    hidden.requires_grad_()
    weight.requires_grad_()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    loss = fused_linear_cross_entropy(hidden, weight, target)
    gradients = torch.autograd.grad(loss, (hidden, weight))
    returned = sum(each.numel() * each.element_size() for each in gradients)
    above = torch.cuda.max_memory_allocated() - before - returned
    # The logits of a chunk, the losses, and a few numbers, each in a block of the allocator of 2 MiB at most.
    assert rows_per_chunk(n_rows, classes, dtype.itemsize) == 256
    assert above <= 256 * classes * dtype.itemsize + 4 * n_rows + 8 * 2**21


@pytest.mark.gpu
def test_nothing_waits_for_the_device() -> None:
    arguments = draw((300, 64), 1021, torch.bfloat16)
    hidden, weight, target = (*(each.requires_grad_() for each in arguments[:2]), arguments[2])
    fused_linear_cross_entropy(hidden, weight, target).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        fused_linear_cross_entropy(hidden, weight, target).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dynamic", [None, True])
def test_torch_compile_without_a_graph_break(dynamic: bool | None, dtype: torch.dtype) -> None:
    torch.compiler.reset()
    compiled = torch.compile(fused_linear_cross_entropy, fullgraph=True, dynamic=dynamic)
    for shape in ((4, 75, 64), (2, 60, 64)):
        hidden, weight, target = draw(shape, 1021, dtype)
        exact = run_exactly(hidden, weight, target, 0.3)
        inputs = hidden.requires_grad_(), weight.requires_grad_()
        loss = compiled(*inputs, target)
        gradients = torch.autograd.grad(loss, inputs, torch.tensor(0.3, device="cuda"))
        assert_near((loss.detach(), *gradients), exact, dtype, 3)


@pytest.mark.gpu
def test_cuda_graph_capture_and_replay_on_new_values() -> None:
    hidden, weight, target = draw((300, 64), 1021, torch.bfloat16)
    inputs = hidden.requires_grad_(), weight.requires_grad_()
    dloss = torch.tensor(1.0, device="cuda")

    def step() -> tuple[Tensor, ...]:
        loss = fused_linear_cross_entropy(*inputs, target)
        return (loss, *torch.autograd.grad(loss, inputs, dloss))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        for tensor, fresh in zip((*inputs, target), draw((300, 64), 1021, torch.bfloat16, seed=5), strict=True):
            tensor.copy_(fresh)
        dloss.fill_(0.5)
    for _ in range(2):
        graph.replay()
    assert all(torch.equal(found, eager) for found, eager in zip(captured, step(), strict=True))


@pytest.mark.gpu
def test_autocast_takes_hidden_and_weight_as_it_takes_those_of_a_linear_layer() -> None:
    hidden, weight, target = draw((300, 64), 1021, torch.float32)
    rounded = run(hidden.bfloat16(), weight.bfloat16(), target)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        inside = run(hidden.bfloat16(), weight, target)
    assert inside[2].dtype == torch.float32
    assert all(torch.equal(a.float(), b.float()) for a, b in zip(inside, rounded, strict=True))
