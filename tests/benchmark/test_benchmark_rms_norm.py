"""The RMSNorm target, without a GPU."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import pytest
import torch

from warpsmith.contracts.case import Case, Cost, DType, Mode, Role
from warpsmith.contracts.target import Inputs, Target

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.filterwarnings("ignore:rms_norm. Triton cannot run on CPU")


@pytest.fixture(scope="module")
def target() -> Target:
    spec = importlib.util.spec_from_file_location("benchmark_rms_norm", ROOT / "benchmark" / "benchmark_rms_norm.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Target = module.target
    return found


def small(dtype: DType = DType.FLOAT32, **options: bool | float | str) -> Case:
    return Case(axes={"M": 6, "N": 10}, dtype=dtype, options=options)


def inputs_of(target: Target, case: Case) -> Inputs:
    return target.make_inputs(case, "cpu", torch.Generator().manual_seed(0))


def test_what_the_target_names_exists(target: Target) -> None:
    assert (ROOT / target.source).is_file()
    assert all((ROOT / test).is_file() for test in target.tests)
    source = importlib.import_module(target.module).__file__
    assert source is not None and Path(source).resolve() == ROOT / target.source


def test_cases_have_unique_names_and_both_roles(target: Target) -> None:
    names = [case.name for case in target.cases]
    assert len(set(names)) == len(names)
    roles = [case.role for case in target.cases]
    assert (roles.count(Role.TUNING), roles.count(Role.HELD_OUT)) == (5, 16)


def test_costs_of_one_case_by_hand(target: Target) -> None:
    case = Case(axes={"M": 3, "N": 5}, dtype=DType.BFLOAT16)
    # x, y: 30 bytes each; weight: 10; rstd: 12. 15 elements, 4 operations each.
    assert target.cost(case, Mode.FORWARD) == Cost(bytes_moved=30 + 30 + 10 + 12, flops=60)
    # x, dy, dx; weight, dw; rstd. 9 operations an element.
    assert target.cost(case, Mode.BACKWARD) == Cost(bytes_moved=90 + 20 + 12, flops=135)
    assert target.cost(case, Mode.FULL) == Cost(bytes_moved=82 + 122, flops=195)


def test_a_missing_weight_costs_nothing(target: Target) -> None:
    case = Case(axes={"M": 3, "N": 5}, dtype=DType.FLOAT32, options={"weight": False})
    assert target.cost(case, Mode.FORWARD) == Cost(bytes_moved=60 + 60 + 12, flops=45)
    assert target.cost(case, Mode.BACKWARD) == Cost(bytes_moved=180 + 12, flops=90)


def test_every_case_has_work_to_do(target: Target) -> None:
    costs = [target.cost(case, mode) for case in target.cases for mode in target.modes]
    assert all(cost.bytes_moved > 0 and cost.flops > 0 for cost in costs)


@pytest.mark.parametrize(
    "options", [{}, {"layout": "row_strided"}, {"casting": "gemma", "offset": 1.0}, {"weight": False}]
)
def test_a_call_matches_the_reference_in_float64(target: Target, options: dict[str, bool | float | str]) -> None:
    inputs = inputs_of(target, small(DType.FLOAT32, **options))
    upcast = {name: value.double() if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}
    exact = target.reference(upcast)
    assert exact.dtype == torch.float64
    found = target.call(importlib.import_module(target.module), inputs)
    torch.testing.assert_close(found, exact.float())


def test_inputs_follow_the_case(target: Target) -> None:
    strided = inputs_of(target, small(DType.FLOAT16, layout="row_strided"))["x"]
    assert (strided.shape, strided.stride(), strided.dtype) == ((6, 10), (20, 1), torch.float16)
    assert inputs_of(target, small(weight=False))["weight"] is None
    gemma = inputs_of(target, small(casting="gemma", offset=1.0))
    assert (gemma["casting"], gemma["offset"]) == ("gemma", 1.0)
    torch.testing.assert_close(gemma["weight"] + 1.0, torch.ones(10), rtol=0, atol=0.5)


def test_inputs_are_the_generators_alone(target: Target) -> None:
    first, second = inputs_of(target, small()), inputs_of(target, small())
    assert torch.equal(first["x"], second["x"]) and torch.equal(first["weight"], second["weight"])


@pytest.mark.parametrize("options", [{}, {"casting": "gemma", "offset": 1.0}, {"weight": False}])
def test_the_torch_baseline_computes_the_same(target: Target, options: dict[str, bool | float | str]) -> None:
    inputs = inputs_of(target, small(DType.FLOAT32, **options))
    torch.testing.assert_close(target.providers["torch"]()(inputs), target.reference(inputs))


def test_the_liger_baseline_says_when_it_is_missing(target: Target) -> None:
    if importlib.util.find_spec("liger_kernel") is not None:
        pytest.skip("liger-kernel is installed")
    with pytest.raises(ImportError, match="liger_kernel"):
        target.providers["liger"]()
