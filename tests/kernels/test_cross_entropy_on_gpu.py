"""Cross-entropy on a GPU: values, layouts, repeats, memory, torch.compile, CUDA graphs."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from warpsmith.kernels.cross_entropy import cross_entropy, cross_entropy_reference

pytestmark = pytest.mark.gpu

DTYPES = (torch.float32, torch.float16, torch.bfloat16)

SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"reduction": "sum"},
    {"reduction": "none"},
    {"label_smoothing": 0.1, "z_loss": 1e-3},
)


def draw(*shape: int, dtype: torch.dtype, seed: int = 0) -> tuple[Tensor, Tensor]:
    """logits and target, of which every fifth is ignored."""
    generator = torch.Generator("cuda").manual_seed(seed)
    logits = 3.0 * torch.randn(shape, device="cuda", generator=generator)
    target = torch.randint(shape[-1], shape[:-1], device="cuda", generator=generator)
    target.view(-1)[1::5] = -100
    return logits.to(dtype), target


def run(logits: Tensor, target: Tensor, dloss: Tensor | None = None, **settings: Any) -> tuple[Tensor, Tensor]:
    """The loss and the gradient."""
    logits = logits.detach().requires_grad_()
    loss = cross_entropy(logits, target, **settings)
    dloss = torch.ones_like(loss) if dloss is None else dloss
    return loss.detach(), torch.autograd.grad(loss, logits, dloss)[0]


def run_exactly(logits: Tensor, target: Tensor, dloss: Tensor, **settings: Any) -> tuple[Tensor, Tensor]:
    logits = logits.detach().double().requires_grad_()
    loss = cross_entropy_reference(logits, target, **settings)
    return loss.detach(), torch.autograd.grad(loss, logits, dloss.double())[0]


def assert_loss(found: Tensor, exact: Tensor) -> None:
    """fp32, by differences of logits and of sums that are as large as other losses are."""
    assert found.dtype == torch.float32
    terms = exact.abs().max() if exact.numel() else exact
    assert_within(found, exact, 5e-6 * exact.abs() + 3e-6 * terms)


def assert_gradient(
    found: Tensor, exact: Tensor, target: Tensor, dloss: Tensor, *, roundings: int, **settings: Any
) -> None:
    """Rounded so often, by half a unit each; fp32 errs by a few units before, of the two terms that cancel too."""
    smoothing, classes = settings.get("label_smoothing", 0.0), exact.shape[-1]
    counts = target != -100
    factor = dloss.double() / counts.sum() if settings.get("reduction", "mean") == "mean" else dloss.double()
    share = torch.full_like(exact, smoothing / classes)
    share.scatter_add_(-1, target.clamp(min=0)[..., None], torch.full_like(exact[..., :1], 1.0 - smoothing))
    share *= (factor * counts)[..., None].abs()
    units = torch.finfo(found.dtype)
    # Below the smallest numbers of fp16 lies a fixed distance; the smallest of the others are never met.
    smallest = units.smallest_normal * units.eps if found.dtype == torch.float16 else 0.0
    rounded = 1.1 * roundings * units.eps / 2 * exact.abs()
    assert_within(found, exact, rounded + 5e-6 * (exact.abs() + 2 * share) + smallest)


def assert_within(found: Tensor, exact: Tensor, tolerance: Tensor) -> None:
    excess = (found.double() - exact).abs() - tolerance
    # Written so that a NaN is a failure.
    assert (excess <= 0).all(), f"{int((~(excess <= 0)).sum())} of {excess.numel()} off, by up to {excess.max()}"


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(1, 32000), (127, 1021), (33, 1), (9, 7), (64, 8192), (3, 5, 4099), (16, 50257), (8, 128256), (5,)]
)
def test_values_and_gradients_match_float64(
    shape: tuple[int, ...], dtype: torch.dtype, settings: dict[str, Any]
) -> None:
    logits, target = draw(*shape, dtype=dtype)
    rows = settings.get("reduction") == "none"
    for dloss in (torch.ones, torch.rand):
        dloss = dloss(target.shape if rows else (), device="cuda")
        loss, gradient = run(logits, target, dloss, **settings)
        exact_loss, exact = run_exactly(logits, target, dloss, **settings)
        assert gradient.dtype == dtype
        assert_loss(loss, exact_loss)
        # Twice where it is multiplied by what comes in.
        assert_gradient(gradient, exact, target, dloss, roundings=2, **settings)


@pytest.mark.parametrize("layout", ["wide rows", "odd rows", "transposed", "expanded", "every other"])
def test_any_layout_of_the_logits(layout: str) -> None:
    wide, _ = draw(100, 402, dtype=torch.float32)
    logits = {
        "wide rows": wide[:, :200],
        "odd rows": wide[:, 1:78],
        "transposed": wide.T,
        "expanded": wide[:1].expand(50, 402),
        "every other": wide[:, ::2],
    }[layout]
    target = torch.arange(logits.shape[0], device="cuda") % logits.shape[1]
    dloss = torch.ones((), device="cuda").expand(target.shape)
    found, exact = (each(logits, target, dloss, reduction="none") for each in (run, run_exactly))
    assert_loss(found[0], exact[0])
    assert_gradient(found[1], exact[1], target, dloss, roundings=1, reduction="none")


@pytest.mark.parametrize("columns", [40, 1021, 50257])
def test_awkward_rows_are_as_float64_has_them_and_harm_no_other(columns: int) -> None:
    logits, target = draw(10, columns, dtype=torch.float32)
    target = target.clamp(min=0)
    target[0], target[1], target[2] = columns, -1, 2**62
    target[3], logits[3] = -100, float("nan")
    logits[4, 5], logits[5, 7], logits[6, 3], logits[7] = float("nan"), float("inf"), -float("inf"), -float("inf")
    dloss = torch.ones(10, device="cuda")
    found, exact = (each(logits, target, dloss, reduction="none") for each in (run, run_exactly))
    for ours, theirs in zip(found, exact, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert found[1][[0, 1, 2, 4, 5, 7]].isnan().all() and (found[1][3] == 0).all()


def test_large_logits_do_not_cancel() -> None:
    logits, target = draw(64, 4099, dtype=torch.float32)
    logits += 4096.0
    settings, dloss = {"label_smoothing": 0.1}, torch.ones((), device="cuda")
    found, exact = (each(logits, target, dloss, **settings) for each in (run, run_exactly))
    assert_loss(found[0], exact[0])
    assert_gradient(found[1], exact[1], target, dloss, roundings=1, **settings)


@pytest.mark.parametrize("shape", [(0, 64), (2, 0, 64)])
def test_nothing_gives_nothing(shape: tuple[int, ...]) -> None:
    for reduction, dtype in itertools.product(("mean", "sum", "none"), DTYPES):
        loss, gradient = run(*draw(*shape, dtype=dtype), reduction=reduction)
        assert gradient.shape == shape
        assert loss.shape == (shape[:-1] if reduction == "none" else ())
        assert reduction == "none" or loss.isnan() == (reduction == "mean")


@pytest.mark.parametrize("dtype", DTYPES)
def test_repeated_calls_agree_bitwise_and_leave_their_arguments(dtype: torch.dtype) -> None:
    logits, target = draw(500, 5003, dtype=dtype)
    before = logits.clone(), target.clone()
    first = run(logits, target)
    for _ in range(5):
        assert all(torch.equal(a, b) for a, b in zip(run(logits, target), first, strict=True))
    with torch.no_grad():
        assert torch.equal(cross_entropy(logits, target), first[0])
    assert torch.equal(logits, before[0]) and torch.equal(target, before[1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_backward_pass_has_memory_of_its_own(dtype: torch.dtype) -> None:
    logits, target = draw(64, 5003, dtype=dtype)
    logits.requires_grad_()
    loss = cross_entropy(logits, target)
    dloss = torch.tensor(0.3, device="cuda")
    gradients = [torch.autograd.grad(loss, logits, dloss, retain_graph=True)[0] for _ in range(3)]
    assert len({gradient.data_ptr() for gradient in gradients}) == 3
    _, exact = run_exactly(logits, target, dloss)
    for gradient in gradients:
        assert_gradient(gradient, exact, target, dloss, roundings=2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_in_place_takes_the_memory_of_the_logits_and_one_backward_pass(dtype: torch.dtype) -> None:
    leaf, target = draw(256, 8192, dtype=dtype)
    expected = run(leaf, target)
    leaf.requires_grad_()
    logits = leaf * 1.0
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    loss = cross_entropy(logits, target, in_place=True)
    (gradient,) = torch.autograd.grad(loss, logits, retain_graph=True)
    # Losses, the mean's factor, and a few numbers, each in a block of the allocator of at least 512 bytes.
    assert torch.cuda.max_memory_allocated() - before <= 4 * 256 + 16 * 512
    assert gradient.data_ptr() == logits.data_ptr()
    assert torch.equal(loss, expected[0]) and torch.equal(gradient, expected[1])
    with pytest.raises(RuntimeError, match="in_place"):
        torch.autograd.grad(loss, logits)


def test_whoever_saved_logits_that_are_overwritten_is_told() -> None:
    leaf, target = draw(16, 64, dtype=torch.float32)
    logits = leaf.requires_grad_().tanh()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        cross_entropy(logits, target, in_place=True).backward()


def test_small_gradients_of_fp16_wait_for_a_loss_scale() -> None:
    logits, target = draw(4096, 1000, dtype=torch.float16)
    scale = torch.tensor(65536.0, device="cuda")
    _, gradient = run(logits, target, scale)
    assert_gradient(gradient, run_exactly(logits, target, scale)[1], target, scale, roundings=1)


def test_nothing_waits_for_the_device() -> None:
    logits, target = draw(64, 1000, dtype=torch.bfloat16)
    run(logits, target, label_smoothing=0.1)
    torch.cuda.set_sync_debug_mode("error")
    try:
        run(logits, target, label_smoothing=0.1)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("dtype", DTYPES)
def test_without_a_gradient_no_memory_is_taken_for_one(dtype: torch.dtype) -> None:
    logits, target = draw(256, 8192, dtype=dtype)
    logits.requires_grad_()
    for needless in (torch.no_grad(), torch.inference_mode()):
        with needless:
            cross_entropy(logits, target)
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            loss = cross_entropy(logits, target)
        assert not loss.requires_grad
        assert torch.cuda.max_memory_allocated() - before <= 4 * 256 + 16 * 512


def test_a_second_derivative_is_refused_rather_than_wrong() -> None:
    logits, target = draw(4, 32, dtype=torch.float32)
    logits.requires_grad_()
    (gradient,) = torch.autograd.grad(cross_entropy(logits, target), logits, create_graph=True)
    with pytest.raises(RuntimeError, match=r"once_differentiable|does not require grad"):
        gradient.sum().backward()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_torch_compile_without_a_graph_break(settings: dict[str, Any], dynamic: bool | None) -> None:
    torch.compiler.reset()
    compiled = torch.compile(
        lambda logits, target: cross_entropy(logits, target, **settings), fullgraph=True, dynamic=dynamic
    )
    for shape in ((4, 75, 1021), (4, 33, 8192)):
        logits, target = draw(*shape, dtype=torch.bfloat16)
        logits.requires_grad_()
        loss = compiled(logits, target)
        dloss = torch.rand(loss.shape, device="cuda")
        (gradient,) = torch.autograd.grad(loss, logits, dloss)
        exact_loss, exact = run_exactly(logits, target, dloss, **settings)
        assert_loss(loss.detach(), exact_loss)
        assert_gradient(gradient, exact, target, dloss, roundings=2, **settings)


def test_cuda_graph_capture_and_replay_on_new_values() -> None:
    logits, target = draw(300, 5003, dtype=torch.bfloat16)
    logits.requires_grad_()
    dloss = torch.tensor(1.0, device="cuda")

    def step() -> tuple[Tensor, Tensor]:
        loss = cross_entropy(logits, target)
        return loss, torch.autograd.grad(loss, logits, dloss)[0]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        for tensor, fresh in zip((logits, target), draw(300, 5003, dtype=torch.bfloat16, seed=5), strict=True):
            tensor.copy_(fresh)
        dloss.fill_(0.5)
    for _ in range(2):
        graph.replay()
    assert all(torch.equal(found, eager) for found, eager in zip(captured, step(), strict=True))


def test_autocast_changes_nothing() -> None:
    logits, target = draw(64, 128, dtype=torch.bfloat16)
    outside = run(logits, target)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        inside = run(logits, target)
    assert all(torch.equal(a, b) for a, b in zip(inside, outside, strict=True))


def test_rows_beyond_two_to_the_31_elements_are_reached(far_rows: Tensor) -> None:
    near, target = draw(*far_rows.shape, dtype=torch.bfloat16)
    far_rows.copy_(near)
    assert all(torch.equal(a, b) for a, b in zip(run(far_rows, target), run(near, target), strict=True))
