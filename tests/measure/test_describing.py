"""A target as data: costs that nothing can be held against are refused before anything is timed."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.contracts.case import Mode
from warpsmith.measure.describing import describe
from warpsmith.measure.worker.protocol import Describe, TargetRef, WorkerError

TARGET = """\
from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.target import Target

target = Target(
    name="double",
    source="double.py",
    module="double",
    make_inputs=lambda case, device, generator: {{}},
    call=lambda module, inputs: None,
    reference=lambda inputs: None,
    cost=lambda case, mode: Cost(bytes_moved={bytes_moved}, flops={flops}),
    cases=(
        Case(axes={{"N": 4096}}, dtype=DType.BFLOAT16),
        Case(axes={{"N": 0}}, dtype=DType.BFLOAT16, role=Role.HELD_OUT),
    ),
    modes=(Mode.FORWARD,),
    differentiable=(),
    plot_axis="N",
)
"""


def described(root: Path, bytes_moved: str, flops: str) -> dict[str, tuple[int, int]]:
    (root / "double.py").write_text("")
    path = root / "benchmark_double.py"
    path.write_text(TARGET.format(bytes_moved=bytes_moved, flops=flops))
    spec = describe(Describe(target=TargetRef(path=str(path), root=str(root), sha256="0" * 64)))
    return {name: (by[Mode.FORWARD].bytes_moved, by[Mode.FORWARD].flops) for name, by in spec.costs.items()}


def test_a_tuning_case_with_nothing_to_do_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(WorkerError) as caught:
        described(tmp_path, "0", "0")
    failure = caught.value.failure
    assert failure.status == "bad_target"
    assert failure.message.startswith(
        "cost says that case 4096-bf16, mode forward, moves 0 bytes and does 0 operations; expected the least that must"
    )


@pytest.mark.parametrize(("bytes_moved", "flops"), [("4 * case.axes['N']", "0"), ("0", "case.axes['N']")])
def test_either_bytes_or_operations_are_enough_and_a_held_out_case_may_be_empty(
    tmp_path: Path, bytes_moved: str, flops: str
) -> None:
    found = described(tmp_path, bytes_moved, flops)
    assert sum(found["4096-bf16"]) > 0 and found["0-bf16"] == (0, 0)
