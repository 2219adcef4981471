"""Cross-entropy without a GPU: the kernels interpreted and compiled, the reference, the errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
from torch import Tensor
from torch.nn import functional
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from warpsmith.kernels import CrossEntropyLoss
from warpsmith.kernels.arguments import _announce_reference
from warpsmith.kernels.cross_entropy import _cross_entropy_kernel, cross_entropy, cross_entropy_reference

pytestmark = pytest.mark.filterwarnings("ignore:cross_entropy. Triton cannot run on cpu")


# The kernels, interpreted on the CPU


# Gradients are at most 1 and rounded up to twice, by half a unit of the dtype each.
@pytest.mark.usefixtures("interpreter_loops")
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-7), ("float16", 1e-3), ("bfloat16", 8e-3)])
def test_interpreted_kernels_match_float64(
    interpreted_errors: dict[str, dict[str, float]], dtype: str, tolerance: float
) -> None:
    errors = {name: largest for name, largest in interpreted_errors.items() if f"-{dtype}-" in name}
    assert len(errors) == 55
    # Written so that a NaN is a failure. The loss is fp32 whatever the logits are.
    assert {name: e for name, e in errors.items() if not all(value <= tolerance for value in e.values())} == {}
    assert {name: e for name, e in errors.items() if not e["loss"] <= 3e-7} == {}


# The kernels, compiled for an H200


@pytest.mark.parametrize("aligned", [True, False])
def test_accesses_are_of_16_bytes_whatever_the_number_of_columns(
    aligned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    types = {"target_ptr": "*i64", "scale_ptr": "*fp32", "loss_ptr": "*fp32", "dlogits_ptr": "*bf16"}
    types |= {"logits_ptr": "*bf16"}
    constants: dict[str, Any] = {"LABEL_SMOOTHING": 0.0, "Z_LOSS": 0.0, "DLOSS_OF_ROWS": False, "CONTIGUOUS": True}
    constants |= {"ALIGNED": aligned, "VALUES": 8, "LANES": 128, "dloss_ptr": None}
    signature: dict[str, str] = {}
    attributes: dict[tuple[int, ...], list[list[object]]] = {}
    for index, name in enumerate(_cross_entropy_kernel.arg_names):
        signature[name] = "constexpr" if name in constants else types.get(name, "i32")
        if name in types or (aligned and name in ("n_cols", "logits_row_stride")):
            attributes[(index,)] = [["tt.divisibility", 16]]
    source = ASTSource(fn=_cross_entropy_kernel, signature=signature, constexprs=constants, attrs=attributes)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    words = [word for line in compiled.asm["ptx"].splitlines() for word in line.split()]
    # Zeros and gradients are stored, logits loaded twice; singly, the target's and the edges'.
    assert words.count("ld.global.v4.b32") == words.count("st.global.v4.b32") == 2
    assert words.count("ld.global.b16") == (1 if aligned else 2)
    assert words.count("st.global.b16") == (0 if aligned else 2)


# The reference


def with_z_loss(loss: Tensor, logits: Tensor, target: Tensor, z_loss: float, reduction: str) -> Tensor:
    squares = z_loss * torch.logsumexp(logits, dim=-1).square() * (target != -100)
    if reduction == "none":
        return loss + squares
    return loss + squares.sum() / ((target != -100).sum() if reduction == "mean" else 1)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("label_smoothing", "z_loss"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.1), (0.2, 0.1)])
def test_reference_is_torch_cross_entropy_plus_z_loss(label_smoothing: float, z_loss: float, reduction: str) -> None:
    logits, target = torch.randn(6, 11, dtype=torch.float64, requires_grad=True), torch.randint(11, (6,))
    target[2] = -100
    settings: dict[str, Any] = {"label_smoothing": label_smoothing, "reduction": reduction}
    expected = functional.cross_entropy(logits, target, **settings)
    expected = with_z_loss(expected, logits, target, z_loss, reduction)
    found = cross_entropy_reference(logits, target, z_loss=z_loss, **settings)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(loss.sum(), logits)[0] for loss in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_reference_of_a_wrong_target_is_nan_in_its_row_alone() -> None:
    logits = torch.randn(4, 5, requires_grad=True)
    loss = cross_entropy_reference(logits, torch.tensor([1, 5, -1, -100]), reduction="none")
    assert loss.isnan().tolist() == [False, True, True, False] and loss[3] == 0
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert gradient.isnan().all(dim=-1).tolist() == [False, True, True, False]
    assert gradient[0].isfinite().all() and (gradient[3] == 0).all()


def test_reference_does_not_read_what_is_ignored() -> None:
    logits = torch.tensor([[float("nan"), 1.0], [2.0, 3.0]], requires_grad=True)
    loss = cross_entropy_reference(logits, torch.tensor([-100, 0]))
    assert loss.isfinite() and (torch.autograd.grad(loss, logits)[0][0] == 0).all()


@pytest.mark.parametrize("rows", [0, 3])
def test_the_mean_of_no_rows_is_nan_and_the_sum_0(rows: int) -> None:
    logits, target = torch.randn(rows, 5), torch.full((rows,), -100)
    assert cross_entropy(logits, target).isnan() and cross_entropy(logits, target, reduction="sum") == 0


def test_cpu_tensors_are_computed_by_the_reference_and_announced() -> None:
    logits, target = torch.randn(4, 16, dtype=torch.bfloat16), torch.randint(16, (4,))
    _announce_reference.cache_clear()
    with pytest.warns(UserWarning, match="cross_entropy: Triton cannot run on cpu tensors"):
        loss = cross_entropy(logits, target, label_smoothing=0.1)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, cross_entropy_reference(logits, target, label_smoothing=0.1))


def test_the_module_is_the_function_with_its_settings() -> None:
    settings: dict[str, Any] = {"ignore_index": 3, "label_smoothing": 0.1, "z_loss": 1e-3, "reduction": "sum"}
    logits, target = torch.randn(5, 7), torch.tensor([0, 3, 1, 6, 3])
    module = CrossEntropyLoss(**settings)
    assert torch.equal(module(logits, target), cross_entropy(logits, target, **settings))
    assert repr(module) == "CrossEntropyLoss(ignore_index=3, label_smoothing=0.1, z_loss=0.001, reduction='sum')"
    with pytest.raises(ValueError, match="CrossEntropyLoss: reduction must be one of"):
        CrossEntropyLoss(reduction="median")


# Errors


@pytest.mark.parametrize(
    ("logits", "target", "options", "error", "message"),
    [
        (torch.ones(2, 4).double(), torch.zeros(2).long(), {}, TypeError, "logits must be float32.*float64"),
        (torch.ones(2, 4), torch.zeros(2).int(), {}, TypeError, "target must be int64.*int32"),
        (torch.ones(2, 4), [0, 1], {}, TypeError, "target must be a tensor, found list"),
        (torch.ones(2, 4), torch.zeros(2).long(), {"ignore_index": 1.0}, TypeError, "must be an integer, found float"),
        (torch.ones(2, 4), torch.zeros(2).long(), {"ignore_index": True}, TypeError, "must be an integer, found bool"),
        (
            torch.ones(2, 4),
            torch.zeros(2).long(),
            {"ignore_index": 2**63},
            ValueError,
            "of 64 bits, found 92233720",
        ),
        (torch.ones(2, 4), torch.zeros(2).long().to_sparse(), {}, TypeError, "target must be a dense tensor"),
        (torch.ones(2, 4), torch.zeros(2).long(), {"z_loss": "1"}, TypeError, "z_loss must be a number, found str"),
        (torch.ones(2, 4), torch.zeros(3).long(), {}, ValueError, r"target must have shape \(2,\), found \(3,\)"),
        (torch.ones(2, 0), torch.zeros(2).long(), {}, ValueError, "last dimension of at least 1"),
        (torch.ones(2, 4), torch.zeros(2, device="meta").long(), {}, ValueError, "target is on meta, logits on cpu"),
        (torch.ones(2, 4), torch.zeros(2).long(), {"reduction": "median"}, ValueError, "reduction must be one of"),
        (torch.ones(2, 4), torch.zeros(2).long(), {"label_smoothing": 1.5}, ValueError, "must be 0 to 1, found 1.5"),
        (torch.ones(4, 2).T, torch.zeros(2).long(), {"in_place": True}, ValueError, "expects contiguous logits"),
    ],
)
def test_wrong_arguments_are_named(
    logits: Tensor, target: Tensor, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        cross_entropy(logits, target, **options)


@pytest.mark.parametrize("view", [lambda leaf: leaf, lambda leaf: leaf.view(4, 4), lambda leaf: leaf[0]])
def test_a_leaf_that_requires_a_gradient_is_not_overwritten(view: Callable[[Tensor], Tensor]) -> None:
    logits = view(torch.ones(2, 2, 4, requires_grad=True))
    with pytest.raises(ValueError, match="a leaf and require a gradient"):
        cross_entropy(logits, torch.zeros(logits.shape[:-1]).long(), in_place=True)


def test_what_was_computed_may_be_overwritten_as_may_a_view_of_it() -> None:
    computed = torch.ones(2, 2, 4, requires_grad=True) * 1
    for logits in (computed, computed.view(4, 4), computed[0]):
        cross_entropy(logits, torch.zeros(logits.shape[:-1]).long(), in_place=True)


def test_an_ignore_index_of_numpy_is_one() -> None:
    logits, target = torch.randn(3, 4), torch.tensor([0, 3, 1])
    assert torch.equal(
        cross_entropy(logits, target, ignore_index=np.int64(3)), cross_entropy(logits, target, ignore_index=3)
    )
