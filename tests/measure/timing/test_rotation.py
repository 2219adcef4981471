from __future__ import annotations

from typing import Any

import pytest
import torch
from doubling import CPU, rotations_of, target_of

from warpsmith.contracts.case import Case, Cost, Mode
from warpsmith.contracts.measurement import L2
from warpsmith.measure.timing.rotation import Flush, Rotation
from warpsmith.measure.worker.inputs import InputSet


@pytest.mark.parametrize(
    ("elements", "mode", "sets", "flushed"),
    [
        (64, Mode.FORWARD, 8, False),
        (64, Mode.BACKWARD, 4, False),  # the gradient that is handed back is read too
        (65, Mode.FORWARD, 8, False),  # 7.9 sets would do
        (512, Mode.FORWARD, 1, False),
        (4096, Mode.FORWARD, 1, False),
        (8, Mode.FORWARD, 64, False),
        (7, Mode.FORWARD, 64, True),
    ],
)
def test_a_cold_rotation_turns_l2_over_or_is_flushed(
    cuda: Any, elements: int, mode: Mode, sets: int, flushed: bool
) -> None:
    rotation = rotations_of(target_of(elements), mode).make(0)
    assert (len(rotation.sets), rotation.flushed) == (sets, flushed)
    assert flushed == (sum(each.bytes for each in rotation.sets) < 2 * cuda.l2_bytes)


def test_what_a_set_moves_is_all_its_tensors_by_their_element_size() -> None:
    inputs = {"x": torch.ones(3, dtype=torch.bfloat16), "scale": 2.0, "index": torch.ones(5, dtype=torch.int64)}
    assert InputSet(inputs, (), (torch.ones(7),)).bytes == 3 * 2 + 5 * 8 + 7 * 4


def test_memory_that_tensors_share_or_are_expanded_from_is_counted_once_and_as_it_is() -> None:
    x = torch.ones(10, 3)
    assert InputSet({"x": x, "again": x, "turned": x.T, "row": x[1]}, (), (x[:5],)).bytes == 120
    assert InputSet({"x": x, "bias": torch.ones(3).expand(1000, 3), "one": torch.ones(()).expand(64)}, ()).bytes == 136


@pytest.mark.parametrize(
    ("moved_bytes", "sets", "flushed"),
    [
        (2048, 1, False),
        (1 << 30, 1, False),  # what is written too is no more of the inputs
        (256, 8, False),
        (257, 8, False),  # 7.97 would do
        (32, 64, False),
        (31, 64, True),
        (0, 1, False),  # not known
    ],
)
def test_a_call_that_reads_less_than_it_is_handed_needs_more_sets_or_a_flush(
    cuda: Any, moved_bytes: int, sets: int, flushed: bool
) -> None:
    def cost(case: Case, mode: Mode) -> Cost:
        return Cost(bytes_moved=moved_bytes if mode is Mode.BACKWARD else 1 << 30, flops=0)

    target = target_of(elements=256, cost=cost)  # in a pass backward with a gradient of as many
    rotation = rotations_of(target, Mode.BACKWARD).make(0)
    assert (len(rotation.sets), rotation.flushed) == (sets, flushed)
    assert len(rotations_of(target, Mode.FULL).make(0).sets) == 1


def test_inputs_that_are_expanded_or_shared_do_not_turn_l2_over_by_their_shapes(cuda: Any) -> None:
    def expanded(case: Any, device: Any, generator: torch.Generator) -> dict[str, Any]:
        return {"x": torch.randn(1, generator=generator).expand(4096)}

    def shared(case: Any, device: Any, generator: torch.Generator) -> dict[str, Any]:
        x = torch.randn(128, generator=generator)
        return {"x": x, "same": x, "turned": x.view(8, 16).T}

    found = [rotations_of(target_of(make_inputs=each)).make(0) for each in (expanded, shared)]
    assert [(len(rotation.sets), rotation.flushed) for rotation in found] == [(64, True), (4, False)]


@pytest.mark.parametrize("elements", [2, 64, 4096])
def test_a_warm_rotation_is_one_set_and_never_flushed(cuda: Any, elements: int) -> None:
    rotation = rotations_of(target_of(elements), l2=L2.WARM).make(0)
    assert (len(rotation.sets), rotation.flushed, rotation.warm) == (1, False, True)


@pytest.mark.parametrize("mode", list(Mode))
def test_restoring_what_is_overwritten_fills_l2_which_is_then_flushed_unless_it_is_to_be_warm(
    cuda: Any, mode: Mode
) -> None:
    target = target_of(elements=512, overwrites=("x",))
    cold, warm = (rotations_of(target, mode, l2).make(0) for l2 in (L2.COLD, L2.WARM))
    assert [(each.overwritten, each.flushed, each.warm) for each in (cold, warm)] == [
        (True, True, False),
        (True, False, True),
    ]


def test_every_set_is_used_as_often_as_every_other(cuda: Any) -> None:
    order = rotations_of(target_of(elements=200)).make(0).order(2)
    assert order == [0, 1, 2, 0, 1, 2]


def test_the_next_set_is_the_one_that_was_used_longest_ago(cuda: Any) -> None:
    rotation = rotations_of(target_of(elements=200)).make(0)
    assert [rotation.next_set() for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    assert rotations_of(target_of(elements=200)).make(0).next_set() == 0


@pytest.mark.parametrize("rotations", [rotations_of(target_of(overwrites=("x",))), rotations_of(target_of(elements=2))])
def test_sets_that_are_overwritten_or_flushed_are_used_once_a_run_only(cuda: Any, rotations: Any) -> None:
    rotation = rotations.make(0)
    assert rotation.order(1) == list(range(len(rotation.sets)))
    with pytest.raises(AssertionError, match="once a run only"):
        rotation.order(2)


def values_of(rotation: Rotation) -> list[torch.Tensor]:
    return [tensor.detach().clone() for each in rotation.sets for tensor in each.tensors]


@pytest.mark.parametrize("mode", list(Mode))
def test_overwritten_inputs_and_output_gradients_get_their_values_back_unseen_by_autograd(
    cuda: Any, mode: Mode
) -> None:
    rotation = rotations_of(target_of(overwrites=("x",)), mode).make(0)
    assert rotation.overwritten
    before, versions = values_of(rotation), [t._version for each in rotation.sets for t in each.tensors]
    for each in rotation.sets:
        for tensor in each.tensors:
            tensor.data.fill_(7.0)
    rotation.restore()
    assert all(map(torch.equal, values_of(rotation), before))
    assert [t._version for each in rotation.sets for t in each.tensors] == versions


def test_what_is_not_overwritten_is_not_copied(cuda: Any) -> None:
    def make_inputs(case: Any, device: Any, generator: torch.Generator) -> dict[str, Any]:
        return {"x": torch.randn(512, generator=generator), "kept": torch.randn(512, generator=generator), "scale": 2}

    rotation = rotations_of(target_of(make_inputs=make_inputs, overwrites=("x", "scale"))).make(0)
    assert [tensor is rotation.sets[0].inputs["x"] for tensor, _ in rotation.pristine[0]] == [True]
    assert not rotations_of(target_of(make_inputs=make_inputs)).make(0).overwritten


@pytest.mark.parametrize("mode", [Mode.FORWARD, Mode.BACKWARD])
def test_values_follow_from_the_seed_and_no_two_sets_are_alike(cuda: Any, mode: Mode) -> None:
    rotations = rotations_of(target_of(), mode)
    first, again, other = (values_of(rotations.make(seed)) for seed in (1, 1, 2))
    assert all(map(torch.equal, first, again))
    different = [*first, *other]
    assert len({tuple(values.tolist()) for values in different}) == len(different)


def test_a_flush_moves_twice_what_l2_holds(cuda: Any) -> None:
    Flush(CPU)()
    assert (cuda.log, cuda.flushed_bytes) == (["flush"], 2 * cuda.l2_bytes)
