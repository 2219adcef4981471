"""However warpsmith.yaml is damaged, commands find targets by it or say what is wrong with it in one error."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import EXAMPLES, damaged_bytes

from warpsmith.contracts.errors import UsageError
from warpsmith.project.config import load_config
from warpsmith.project.discover import find_target, list_targets

OURS = Path(__file__).resolve().parents[2] / "warpsmith.yaml"
GLOBS = st.text(alphabet="*?[]!{}/\\.-ab\0 \ud800é", max_size=12)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(content=damaged_bytes(OURS.read_bytes()) | GLOBS.map(lambda glob: f'targets: ["{_escaped(glob)}"]\n'.encode()))
def test_a_damaged_configuration_finds_targets_or_is_one_error_of_ours(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "benchmark").mkdir(exist_ok=True)
    (tmp_path / "benchmark" / "benchmark_softmax.py").write_text("")
    path = tmp_path / "warpsmith.yaml"
    path.write_bytes(content)

    try:
        config = load_config(tmp_path)
        list_targets(tmp_path, config)
        find_target(tmp_path, config, "softmax")
    except UsageError as error:
        assert "warpsmith.yaml" in error.message or error.next_command == "warpsmith list"
        assert len(error.message) < 10_000
    assert path.read_bytes() == content


@pytest.mark.parametrize("text", ["[" * 20_000, "a: " * 5_000, f"targets: [{'a' * 300}]", "targets: ['\\0']"])
def test_a_configuration_beyond_all_limits_is_one_error_of_ours(text: str, tmp_path: Path) -> None:
    (tmp_path / "warpsmith.yaml").write_text(text)

    with pytest.raises(UsageError, match=r"warpsmith\.yaml|no file of") as caught:
        find_target(tmp_path, load_config(tmp_path), "softmax")

    assert len(caught.value.message) < 1000


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text)
