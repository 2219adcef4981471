"""warpsmith.yaml: what is wrong with it is named, what it leaves out has a default."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.contracts.errors import UsageError
from warpsmith.project.config import ProjectConfig, load_config
from warpsmith.verdict.compiled import CompiledLimits
from warpsmith.verdict.thresholds import Thresholds


def configured(root: Path, text: str) -> ProjectConfig:
    (root / "warpsmith.yaml").write_text(text, encoding="utf-8")
    return load_config(root)


@pytest.mark.parametrize("text", [None, "", "# nothing\n"])
def test_no_file_and_an_empty_one_are_the_defaults(tmp_path: Path, text: str | None) -> None:
    config = load_config(tmp_path) if text is None else configured(tmp_path, text)

    assert config == ProjectConfig(
        targets=("benchmark/benchmark_*.py",),
        test_command=("python", "-m", "pytest", "-q", "-x"),
        style_command=None,
        guardrails={},
        approval="any",
    )
    assert config.thresholds == Thresholds()
    assert not config.terminal_only


def test_every_key_is_read(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        "targets: [bench/*.py, kernels/**/bench_*.py]\n"
        "test_command: python -m pytest 'tests dir'\n"
        "style_command: [ruff, format, '{file}']\n"
        "guardrails: {case_regression: 0.05}\n"
        "compiled: {spill_bytes: 16}\n"
        "approval: tty\n",
    )

    assert config == ProjectConfig(
        targets=("bench/*.py", "kernels/**/bench_*.py"),
        test_command=("python", "-m", "pytest", "tests dir"),
        style_command=("ruff", "format", "{file}"),
        guardrails={"case_regression": 0.05},
        compiled={"spill_bytes": 16},
        approval="tty",
    )
    assert config.thresholds == Thresholds(case_regression=0.05)
    assert config.compiled_limits == CompiledLimits(spill_bytes=16)
    assert config.terminal_only


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("test_comand: x\n", r"unknown key 'test_comand'; the nearest known key is 'test_command'"),
        ("1: x\n", r"line 1: expected a key that is text, found 1$"),
        ("targets: [a]\non: x\n", r"line 2: expected a key that is text, found True$"),
        ("guardrails:\n  null: 1\n", r"line 2: expected a key that is text, found None$"),
        ("? [a, b]\n: x\n", r"line 1: expected a key that is text, found \['a', 'b'\]$"),
        ("approval: any\napproval: tty\n", r"line 2: the key 'approval' is there already, in line 1$"),
        (
            "guardrails:\n  memory: 0.1\n  memory: 0.2\n",
            r"warpsmith.yaml, line 3: the key 'memory' is there already, in line 2$",
        ),
        ("approval: any\n'approval': tty\n", r"line 2: the key 'approval' is there already"),
        ("guardrails: {case_regresion: 0.1}\n", r"unknown key 'guardrails.case_regresion'; .* 'guardrails.case_regr"),
        ("guardrails: {significance: 2}\n", r"guardrails.significance: Input should be less than 1; found 2.0"),
        ("guardrails: {memory: much}\n", r"guardrails.memory: .*; found 'much'"),
        ("compiled: {spill_byte: 1}\n", r"unknown key 'compiled.spill_byte'; .* 'compiled.spill_bytes'"),
        ("compiled: {spill_bytes: 0.5}\n", r"compiled.spill_bytes: Input should be a valid integer.*; found 0.5"),
        ("compiled: {resident_warps: -1}\n", r"compiled.resident_warps: Input should be greater than or equal to 0"),
        ("guardrails: [1]\n", r"guardrails: Input should be a valid dictionary; found \[1\]"),
        ("approval: maybe\n", r"approval: Input should be 'any' or 'tty'; found 'maybe'"),
        ("test_command: []\n", r"test_command: .* should have at least 1 item"),
        ("test_command: ''\n", r"test_command: .* should have at least 1 item"),
        ("test_command: 'a \"b'\n", r"test_command: .*No closing quotation"),
        ("targets: []\n", r"targets: .* should have at least 1 item"),
        ("targets: [/etc/*.py]\n", r"targets: .*expected a glob below the repository's root, found '/etc/\*.py'"),
        ("targets: [../*.py]\n", r"targets: .*expected a glob below"),
        ("targets: ['']\n", r"targets: .*expected a glob below"),
        ("- a\n", r"warpsmith.yaml: expected keys and values, found a list"),
        ("approval: any\ntargets: [a\nb: c\n", r"warpsmith.yaml, line \d: not YAML: "),
        ("a: b: c\n", r"warpsmith.yaml, line 1: not YAML: mapping values are not allowed here"),
        ("approval: 2024-99-99\n", r"warpsmith.yaml: not YAML: "),
    ],
)
def test_what_is_wrong_is_named_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        configured(tmp_path, text)

    path = tmp_path / "warpsmith.yaml"
    assert caught.value.message.startswith(str(path))
    assert caught.value.next_command == f"edit {path}"


def test_a_few_lines_that_stand_for_gigabytes_are_told_in_a_line(tmp_path: Path) -> None:
    levels = [f"&l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(UsageError, match="approval: Input should be 'any' or 'tty'; found") as caught:
        configured(tmp_path, f"approval: [&l0 lol, {', '.join(levels)}]\n")
    assert len(caught.value.message) < 10_000


@settings(deadline=None)
@given(content=st.binary(max_size=60) | st.text(alphabet="abc:-[]{}\"'!&*\n #|>%@`1.~", max_size=60).map(str.encode))
def test_no_content_gives_anything_but_a_configuration_or_our_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    root = tmp_path_factory.getbasetemp() / "configured"
    root.mkdir(exist_ok=True)
    (root / "warpsmith.yaml").write_bytes(content)
    try:
        assert isinstance(load_config(root), ProjectConfig)
    except UsageError as error:
        assert "warpsmith.yaml" in error.message
