"""What every kernel of the library refuses, and how it is traced where torch computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from warpsmith import kernels
from warpsmith.kernels.arguments import as_rows

X, WEIGHT, TABLE = torch.randn(4, 8), torch.ones(8), torch.ones(5, 4)
HEADS = torch.randn(2, 3, 5, 8)
#: One call of each; rms_norm stays as it was recorded.
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "fused_add_rms_norm": (kernels.fused_add_rms_norm, (X, X, WEIGHT)),
    "geglu": (kernels.geglu, (X, X)),
    "layer_norm": (kernels.layer_norm, (X, WEIGHT, WEIGHT)),
    "layer_norm_gelu": (kernels.layer_norm_gelu, (X, WEIGHT, WEIGHT)),
    "rope": (kernels.rope, (HEADS, HEADS, TABLE, TABLE)),
    "softmax": (kernels.softmax, (X,)),
    "swiglu": (kernels.swiglu, (X, X)),
    "vector_add": (kernels.vector_add, (X, X)),
}

pytestmark = pytest.mark.filterwarnings("ignore:.*Triton cannot run on")


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (None, "must be a tensor, found NoneType"),
        ([1.0, 2.0], "must be a tensor, found list"),
        (torch.eye(4).to_sparse(), "must be a dense tensor, neither sparse nor nested"),
        (torch.ones(4, 8, dtype=torch.complex64), "must be float32, float16 or bfloat16, found torch.complex64"),
    ],
)
def test_what_is_no_dense_floating_tensor_is_named(name: str, wrong: Any, message: str) -> None:
    function, arguments = CALLS[name]
    for place in range(len(arguments)):
        if wrong is None and arguments[place] is WEIGHT:
            continue
        given = [wrong if index == place else argument for index, argument in enumerate(arguments)]
        with pytest.raises(TypeError, match=f"^{name}: \\w+ {message}"):
            function(*given)


@pytest.mark.parametrize("name", ["fused_add_rms_norm", "layer_norm", "layer_norm_gelu"])
@pytest.mark.parametrize("eps", [None, "1e-5", torch.ones(())])
def test_an_eps_that_is_no_number_is_named(name: str, eps: Any) -> None:
    function, arguments = CALLS[name]
    with pytest.raises(TypeError, match=f"^{name}: eps must be a number, found "):
        function(*arguments, eps=eps)


@pytest.mark.parametrize("name", CALLS)
def test_torch_compile_traces_what_torch_computes(name: str) -> None:
    function, arguments = CALLS[name]
    torch.compiler.reset()

    found = torch.compile(function, fullgraph=True, backend="eager")(*arguments)

    torch.testing.assert_close(found, function(*arguments))


def test_one_value_for_all_is_made_into_one_row() -> None:
    rows = as_rows(torch.ones(()).expand(3, 4, 5))
    assert rows.shape == (12, 5) and rows.stride() == (0, 1)
    assert as_rows(X.T).is_contiguous() and as_rows(X.T).shape == (8, 4)
    assert as_rows(X[:, :6]).stride() == (8, 1)
