"""Ceilings as they are measured on the GPU that is here."""

from __future__ import annotations

import pytest
import torch

from warpsmith.contracts.case import DType
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.errors import UsageError
from warpsmith.device.known_gpus import known_gpu
from warpsmith.device.peaks import over_fp16
from warpsmith.measure.timing.ceilings import FOOTPRINTS_BYTES, inspect_device
from warpsmith.measure.timing.copies import BLOCKS, LOOPS, copies

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def facts() -> DeviceFacts:
    return inspect_device(torch.device("cuda", torch.cuda.current_device()))


@pytest.mark.parametrize("elements", [1 << 20, (1 << 20) + 13, 8])
def test_every_copy_that_is_timed_copies(elements: int) -> None:
    sources = [torch.randn(elements, device="cuda").to(torch.bfloat16) for _ in range(2)]
    names = []
    for name, copy in copies(sources, targets := [torch.zeros_like(source) for source in sources]):
        for index, target in enumerate(targets):
            target.zero_()
            copy(index)
            assert torch.equal(target, sources[index]), name
        names.append(name)

    assert len(set(names)) == len(names) == 1 + len(BLOCKS) + len(LOOPS)


def test_ceilings_are_positive_and_say_which_kernel_was_best(facts: DeviceFacts) -> None:
    assert facts.ceilings_from == "measured" and facts.ceilings_measured_at is None
    assert [ceiling.footprint_bytes for ceiling in facts.copy_ceilings] == list(FOOTPRINTS_BYTES)
    assert all(ceiling.gb_s > 0 and ceiling.kernel for ceiling in facts.copy_ceilings)
    assert set(facts.matmul_tflops) == set(DType)
    assert facts.matmul_tflops[DType.FLOAT16] > facts.matmul_tflops[DType.FLOAT32] > 0


def test_operands_of_one_byte_have_ceilings_between_that_of_halves_and_the_data_sheet_s(facts: DeviceFacts) -> None:
    expected = {name for name in ("int8", "float8_e4m3fn") if over_fp16(facts.name, name)}
    if not expected:
        pytest.skip(f"no data sheet of {facts.name} tells of them")
    assert expected <= set(facts.operand_tflops)
    for name in expected:
        times = over_fp16(facts.name, name) or 0.0
        sheet = known_gpu(facts.name).matmul_tflops[DType.FLOAT16]
        assert facts.matmul_tflops[DType.FLOAT16] < facts.operand_tflops[name] < 1.05 * times * sheet


def test_no_ceiling_that_leaves_the_cache_exceeds_the_data_sheet(facts: DeviceFacts) -> None:
    """The rotation turns L2 over, so a copy comes from memory; 5% is for a clock above the sheet's."""
    try:
        sheet = known_gpu(facts.name)
    except UsageError:
        pytest.skip(f"no data sheet of {facts.name} is known")
    assert sheet.memory_gb_s is not None
    large = [ceiling for ceiling in facts.copy_ceilings if ceiling.footprint_bytes >= 4 * facts.l2_bytes]
    assert large
    assert all(ceiling.gb_s < 1.05 * sheet.memory_gb_s for ceiling in large)
    for dtype, peak in sheet.matmul_tflops.items():
        assert facts.matmul_tflops[dtype] < 1.05 * peak


def test_between_footprints_the_ceiling_lies_between_theirs(facts: DeviceFacts) -> None:
    for low, high in zip(facts.copy_ceilings, facts.copy_ceilings[1:], strict=False):
        between = facts.copy_ceiling_gb_s((low.footprint_bytes + high.footprint_bytes) // 2)
        assert min(low.gb_s, high.gb_s) <= between <= max(low.gb_s, high.gb_s)


def test_the_data_sheet_has_the_sms_and_the_cache_that_cuda_reports(facts: DeviceFacts) -> None:
    try:
        sheet = known_gpu(facts.name)
    except UsageError:
        pytest.skip(f"no data sheet of {facts.name} is known")
    assert (sheet.capability, sheet.sm_count, sheet.l2_bytes) == (facts.capability, facts.sm_count, facts.l2_bytes)
