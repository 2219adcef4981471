from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode

from warpsmith.contracts.target import Inputs
from warpsmith.measure.correctness.allocations import GuardedAllocations, Poison
from warpsmith.measure.correctness.memory import moved_between_guards


def poke(tensor: Tensor, offset_bytes: int, count: int = 1) -> None:
    """Zeroes bytes by their address, as a kernel writes them."""
    ctypes.memset(tensor.data_ptr() + offset_bytes, 0, count)


ALLOCATIONS: dict[str, Callable[[], Tensor]] = {
    "empty": lambda: torch.empty(3, 5),
    "empty_like": lambda: torch.empty_like(torch.ones(5, 3).t()),
    "empty_strided": lambda: torch.empty_strided((3, 5), (8, 1)),
    "empty_permuted": lambda: torch.empty_permuted((3, 5), (1, 0)),
    "new_empty": lambda: torch.ones(1).new_empty((3, 5)),
    "new_empty_strided": lambda: torch.ones(1).new_empty_strided((3, 5), (1, 3)),
    "Tensor": lambda: torch.Tensor(3, 5),
    "inference": lambda: torch.inference_mode()(torch.empty)(3, 5),  # type: ignore[no-untyped-call]
}
INITIALISED: dict[str, Callable[[], Tensor]] = {
    "zeros": lambda: torch.zeros(3, 5),
    "zeros_like": lambda: torch.zeros_like(torch.ones(3, 5)),
    "full": lambda: torch.full((3, 5), 2.0),
    "new_ones": lambda: torch.zeros(1).new_ones(3, 5),
    "contiguous": lambda: torch.arange(15.0).view(5, 3).t().contiguous(),
}


@pytest.mark.parametrize("make", ALLOCATIONS.values(), ids=ALLOCATIONS)
def test_what_was_never_written_holds_the_poison_and_looks_like_any_tensor(make: Callable[[], Tensor]) -> None:
    plain = make()
    with GuardedAllocations(Poison.NOT_A_NUMBER):
        tensor = make()

    assert bool(tensor.isnan().all())
    assert (type(tensor), tensor.shape, tensor.stride(), tensor.dtype) == (
        Tensor,
        plain.shape,
        plain.stride(),
        plain.dtype,
    )
    assert (tensor.storage_offset(), tensor._is_view(), tensor.data_ptr() % 64) == (0, False, 0)
    assert tensor.untyped_storage().data_ptr() == tensor.data_ptr()


@pytest.mark.parametrize("make", [*ALLOCATIONS.values(), *INITIALISED.values()], ids=[*ALLOCATIONS, *INITIALISED])
def test_writes_on_both_sides_are_found(make: Callable[[], Tensor]) -> None:
    allocations = GuardedAllocations(Poison.LARGE)
    with allocations:
        tensor = make()
    size_bytes = tensor.untyped_storage().nbytes()
    poke(tensor, 0, size_bytes)
    assert allocations.violations() == ()

    with allocations:
        tensor = make()
    poke(tensor, -4, 2)
    poke(tensor, size_bytes, 3)

    what = "a buffer of shape (3, 5) and torch.float32"
    (told,) = (each for each in allocations.violations())
    assert told == (
        f"writes 2 bytes before {what}, first at offset -4 (it has {size_bytes} bytes) "
        f"and writes 3 bytes after {what}, first at offset {size_bytes} (it has {size_bytes} bytes)"
    )


@pytest.mark.parametrize("make", INITIALISED.values(), ids=INITIALISED)
def test_memory_with_values_keeps_them(make: Callable[[], Tensor]) -> None:
    with GuardedAllocations(Poison.NOT_A_NUMBER):
        tensor = make()

    assert torch.equal(tensor, make())


@pytest.mark.parametrize("size", [6, 7])
@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.int16, torch.int64, torch.float8_e4m3fn, torch.half])
def test_every_dtype_has_two_poisons_and_a_guard_to_the_byte(dtype: torch.dtype, size: int) -> None:
    found = []
    for poison in Poison:
        allocations = GuardedAllocations(poison)
        with allocations:
            tensor = torch.empty(size, dtype=dtype)
        found.append(bytes(tensor.view(torch.uint8).tolist()))
        assert allocations.violations() == ()
        with allocations:
            tensor = torch.empty(size, dtype=dtype)
        poke(tensor, size * dtype.itemsize)
        assert len(allocations.violations()) == 1

    assert found[0] != found[1]


def test_a_read_out_of_bounds_gives_nan() -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        with GuardedAllocations(Poison.LARGE):
            tensor = torch.ones(5, dtype=dtype)
        beyond = ctypes.string_at(tensor.data_ptr() + 5 * dtype.itemsize, dtype.itemsize)
        assert bool(torch.frombuffer(bytearray(beyond), dtype=dtype).isnan())


def test_what_was_read_beside_an_input_shows_where_it_is_written_beside_a_result() -> None:
    """A kernel that forgets its mask moves one guard zone to another, and arithmetic keeps the bits of a NaN."""
    for factor in (None, 2.0):
        moved, _ = moved_between_guards({"x": torch.ones(5)}, 4096)
        allocations = GuardedAllocations(Poison.NOT_A_NUMBER)
        with allocations:
            y, z = torch.empty(5), torch.empty(5)
        beyond = torch.frombuffer((ctypes.c_float * 8).from_address(moved["x"].data_ptr()), dtype=torch.float32)
        for result in (y, z):
            values = beyond if factor is None else beyond * factor
            ctypes.memmove(result.data_ptr(), values.data_ptr(), 32)
            beyond = torch.frombuffer((ctypes.c_float * 8).from_address(result.data_ptr()), dtype=torch.float32)

        assert len(allocations.violations()) == 2


def test_what_autograd_runs_on_a_thread_of_its_own_is_guarded_too() -> None:
    threads: list[threading.Thread] = []

    class Nested(torch.autograd.Function):
        """Goes down through passes within passes until autograd takes another thread for them."""

        @staticmethod
        def forward(ctx: Any, x: Tensor, depth: int) -> Tensor:
            ctx.depth = depth
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
            if not ctx.depth:
                threads.append(threading.current_thread())
                return torch.empty_like(gradients[0]), None
            with torch.enable_grad():
                inner = torch.ones(1, requires_grad=True)
                (gradient,) = torch.autograd.grad(Nested.apply(inner, ctx.depth - 1), inner)  # type: ignore[no-untyped-call]
            return gradient, None

    x = torch.ones(1, requires_grad=True)
    allocations = GuardedAllocations(Poison.NOT_A_NUMBER)
    with allocations:
        (gradient,) = torch.autograd.grad(Nested.apply(x, 80), x)  # type: ignore[no-untyped-call]

    assert threads[0] is not threading.main_thread()
    assert bool(gradient.isnan())
    assert {"aten::empty_like", "aten::clone"} <= allocations.operations


def test_what_an_operator_of_ones_own_allocates_is_guarded_too() -> None:
    @torch.library.custom_op("warpsmith_tests::leaves_unwritten", mutates_args=())
    def leaves_unwritten(x: Tensor) -> Tensor:
        return torch.mm(x, x).new_empty(3)

    allocations = GuardedAllocations(Poison.NOT_A_NUMBER)
    with allocations:
        result = leaves_unwritten(torch.ones(2, 2))

    assert bool(result.isnan().all())
    assert {"warpsmith_tests::leaves_unwritten", "aten::mm", "aten::new_empty"} <= allocations.operations


def test_a_guarded_tensor_grows_as_any_other_and_what_is_new_is_poisoned() -> None:
    allocations = GuardedAllocations(Poison.NOT_A_NUMBER)
    with allocations:
        tensor = torch.zeros(4)
        tensor.resize_(6)
        with pytest.warns(UserWarning, match="was resized"):
            total = torch.sum(torch.ones(5, 7), dim=1, out=torch.empty(3))
        small = torch.add(torch.ones(9), 1, out=torch.empty(0))

    assert tensor[:4].tolist() == [0.0] * 4
    assert bool(tensor[4:].isnan().all())
    assert (total.tolist(), small.tolist()) == ([7.0] * 5, [2.0] * 9)
    assert allocations.violations() == ()


def test_inputs_that_share_a_storage_share_one_between_guards() -> None:
    both = torch.arange(24.0).view(4, 6)
    tensors = {"left": both[:, :2], "right": both[:, 2:].requires_grad_(), "alone": torch.ones(3)}

    moved, guards = moved_between_guards(tensors, 4096)
    with torch.no_grad():
        moved["left"].as_strided((1,), (1,), 3).fill_(50.0)

    assert [guarded.violation() for guarded in guards] == [None, None]
    assert moved["right"][0, 1].item() == 50.0
    for name, tensor in tensors.items():
        assert (moved[name].stride(), moved[name].storage_offset()) == (tensor.stride(), tensor.storage_offset())
    assert (moved["left"].requires_grad, moved["right"].requires_grad) == (False, True)
    assert torch.equal(moved["left"], both[:, :2])


def test_a_parameter_stays_where_it_is() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))

    assert moved_between_guards({"p": parameter}, 4096) == ({"p": parameter}, [])


def doubled(inputs: Inputs) -> Tensor:
    return inputs["x"] * 2


DOUBLES: dict[str, Any] = {"original": doubled, "reference": doubled, "forward_only": True}


def writes_beyond(inputs: Inputs) -> Tensor:
    result = torch.empty_like(inputs["x"]).copy_(doubled(inputs))
    if result.numel() and _get_current_dispatch_mode() is not None:  # where there are no guards, others' memory is
        poke(result, result.nbytes, 4)
    return result


def test_a_candidate_that_writes_beyond_its_output_is_rejected(gate: Any) -> None:
    (failure,) = gate.check(writes_beyond, **DOUBLES).failures

    assert (failure.check, failure.message) == (
        "guards",
        "writes 4 bytes after a buffer of shape (24, 40) and torch.float32, first at offset 3840 (it has 3840 bytes)",
    )


def test_a_candidate_that_writes_beside_an_input_is_rejected(gate: Any) -> None:
    def writes_before(inputs: Inputs) -> Tensor:
        poke(inputs["x"], -8, 8)
        return doubled(inputs)

    assert gate.failures(writes_before, **DOUBLES) == (
        "writes 8 bytes before the input x, first at offset -8 (it has 3840 bytes)",
    )


def test_a_candidate_that_writes_beside_an_output_gradient_is_rejected(gate: Any) -> None:
    class WritesBeside(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, y: Tensor) -> Tensor:
            return y.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            poke(gradients[0], gradients[0].nbytes)
            return gradients[0].clone()

    def writes_beside(inputs: Inputs) -> tuple[Tensor, Tensor]:
        y, sums = gate.formula(inputs)
        return WritesBeside.apply(y), sums  # type: ignore[no-untyped-call]

    assert gate.failures(writes_beside) == (
        "writes 1 bytes after the gradient of output 0, first at offset 3840 (it has 3840 bytes)",
    )


def test_a_candidate_may_write_beyond_where_the_original_does(gate: Any) -> None:
    checked = gate.check(writes_beyond, **{**DOUBLES, "original": writes_beyond})

    assert "guards" not in [failure.check for failure in checked.failures]
    assert checked.skipped["guards"].startswith("the original writes 4 bytes after a buffer of shape (24, 40)")


def test_garbage_that_is_made_finite_is_found_by_another_garbage(gate: Any) -> None:
    def cleans_garbage(inputs: Inputs) -> Tensor:
        return doubled(inputs) + torch.empty_like(inputs["x"]).nan_to_num(nan=0.0)

    (failure,) = gate.check(cleans_garbage, **DOUBLES).failures[:1]

    assert failure.check == "repeats"
    assert failure.message.startswith(
        "varies between two calls on the same inputs by more than rounding; "
        "it follows what memory that is never written happened to hold"
    )


def test_the_gate_leaves_no_mode_behind(gate: Any) -> None:
    def raises(inputs: Inputs) -> Any:
        raise RuntimeError("only shapes of 4096 columns")

    gate.failures(raises)

    assert _get_current_dispatch_mode() is None
