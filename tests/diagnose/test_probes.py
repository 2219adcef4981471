"""What a knob changes, told from what its values compile to."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.contracts.case import Mode
from warpsmith.contracts.launch import CompiledSettings, LaunchRecord, SettingsProbe
from warpsmith.diagnose.probes import settings_probe

KNOB = "forward_kernel.num_stages"


@pytest.fixture
def compiled(made: Any) -> Any:
    """What one value compiles to: launches of forward_kernel with these codes, and one of another kernel."""

    def launch(jit_function: str, code: str, blocks: int) -> LaunchRecord:
        found = made.launch(jit_function, blocks)
        return found.model_copy(update={"compiled": found.compiled.model_copy(update={"binary_sha256": code * 64})})

    def answer(*codes: str, blocks: int = 64, other: str = "f") -> CompiledSettings:
        launches = [launch("forward_kernel", code, blocks) for code in codes]
        return CompiledSettings(settings={}, launches=(*launches, launch("other_kernel", other, 64)))

    return answer


def probe(values: tuple[int, ...], *compiled: CompiledSettings) -> SettingsProbe:
    return settings_probe(KNOB, "64x64", Mode.FULL, values, compiled, "forward_kernel")


def test_values_of_equal_code_are_one_group_in_the_order_tried(compiled: Any) -> None:
    found = probe((1, 2, 3, 4), compiled("a"), compiled("b"), compiled("a"), compiled("c"))

    assert found == SettingsProbe(knob=KNOB, case="64x64", mode=Mode.FULL, alike=((1, 3), (2,), (4,)))
    assert not found.is_inert


def test_a_knob_that_changes_only_another_kernel_is_inert(compiled: Any) -> None:
    assert probe((1, 2), compiled("a", other="e"), compiled("a", other="f")).is_inert


def test_every_launch_of_the_jit_function_counts(compiled: Any) -> None:
    found = probe((1, 2, 3), compiled("a", "b"), compiled("a", "c"), compiled("a"))

    assert found.alike == ((1,), (2,), (3,))


def test_equal_code_on_another_grid_is_not_alike(compiled: Any) -> None:
    found = probe((1, 2, 4), compiled("a", blocks=132), compiled("a", blocks=264), compiled("a", blocks=132))

    assert found.alike == ((1, 4), (2,))


def test_a_value_that_does_not_compile_is_in_no_group(compiled: Any) -> None:
    refused = CompiledSettings(settings={}, failure="needs more than the GPU has")
    found = probe((1, 2, 32), compiled("a"), compiled("a"), refused)

    assert (found.alike, found.failures, found.is_inert) == (((1, 2),), {32: "needs more than the GPU has"}, True)


def test_one_value_that_compiles_tells_nothing_of_a_knob(compiled: Any) -> None:
    refused = CompiledSettings(settings={}, failure="needs more than the GPU has")

    assert not probe((1, 32), compiled("a"), refused).is_inert
    assert not probe((1, 32), refused, refused).is_inert


def test_where_the_jit_function_is_not_launched_its_knob_changes_nothing(compiled: Any) -> None:
    assert probe((1, 2), compiled(), compiled()).is_inert


def test_an_answer_for_each_value_is_asked_for(compiled: Any) -> None:
    with pytest.raises(ValueError, match="zip"):
        probe((1, 2), compiled("a"))
