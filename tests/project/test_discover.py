"""Roots and targets are found by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.contracts.errors import UsageError
from warpsmith.project.config import ProjectConfig
from warpsmith.project.discover import find_root, find_target, list_targets, misnamed_told


def touch(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.mark.parametrize(
    ("marks", "root"),
    [
        (("warpsmith.yaml", "a/pyproject.toml", "a/b/.git"), "."),
        (("warpsmith.yaml", "a/warpsmith.yaml"), "a"),
        (("pyproject.toml", "a/.git"), "."),
        (("a/.git",), "a"),
    ],
)
def test_the_configuration_marks_a_root_before_other_files_do(
    tmp_path: Path, marks: tuple[str, ...], root: str
) -> None:
    touch(tmp_path, *marks, "a/b/c/kernel.py")

    assert find_root(tmp_path / "a" / "b" / "c") == (tmp_path / root).resolve()


def test_a_folder_outside_any_repository_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no repository here") as caught:
        find_root(tmp_path)

    assert caught.value.next_command == f"touch {tmp_path.resolve() / 'warpsmith.yaml'}"


def test_targets_are_known_by_their_file_names(tmp_path: Path) -> None:
    touch(
        tmp_path,
        *(f"bench/{name}" for name in ("benchmark_softmax.py", "rms_norm.py", "__init__.py", "conftest.py")),
        *(f"bench/{name}" for name in ("not-a-name.py", "data.csv", "benchmark_.py", "deep/benchmark_inner.py")),
    )

    config = ProjectConfig(targets=("bench/benchmark_*.py", "bench/*"))
    assert list_targets(tmp_path, config) == {
        "rms_norm": tmp_path / "bench" / "rms_norm.py",
        "softmax": tmp_path / "bench" / "benchmark_softmax.py",
    }
    assert find_target(tmp_path, config, "softmax") == tmp_path / "bench" / "benchmark_softmax.py"


def test_an_unknown_kernel_is_answered_with_the_nearest_ones(tmp_path: Path) -> None:
    touch(tmp_path, *(f"benchmark/benchmark_{name}.py" for name in ("rms_norm", "layer_norm", "softmax", "geglu")))

    with pytest.raises(UsageError) as caught:
        find_target(tmp_path, ProjectConfig(), "rmsnorm")

    assert caught.value.message == (
        "no target for kernel 'rmsnorm' under benchmark/benchmark_*.py; nearest: rms_norm, layer_norm (of 4)"
    )
    with pytest.raises(UsageError, match="there are: geglu, layer_norm, rms_norm, softmax"):
        find_target(tmp_path, ProjectConfig(), "flash_attention")
    assert caught.value.next_command == "warpsmith list"


def test_a_repository_without_targets_is_told_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no file of .* matches benchmark/benchmark_\*\.py; a target is a Python file"
    ):
        find_target(tmp_path, ProjectConfig(), "rms_norm")


def test_two_files_for_one_kernel_are_an_error(tmp_path: Path) -> None:
    touch(tmp_path, "bench/benchmark_softmax.py", "bench/softmax.py")

    with pytest.raises(
        UsageError, match=r"two targets for kernel 'softmax': bench/benchmark_softmax.py and bench/soft"
    ):
        list_targets(tmp_path, ProjectConfig(targets=("bench/*.py",)))


def test_files_that_only_lack_a_kernels_name_are_named_and_no_other(tmp_path: Path) -> None:
    touch(tmp_path, *(f"benchmark/benchmark_{name}" for name in ("a b.py", "größe.py", "2d.py", "softmax.py", "x.txt")))
    touch(tmp_path, "benchmark/not-a-target.py")

    told = misnamed_told(tmp_path, ProjectConfig(targets=("benchmark/*", "benchmark/benchmark_*.py")))

    assert [each.partition(" is no target: ")[0] for each in told] == [
        f"benchmark/benchmark_{name}.py" for name in ("2d", "a b", "größe")
    ]
    assert told[1].endswith("a kernel's name is ASCII letters, digits and underscores, no digit first; found 'a b'")


def test_where_the_only_target_is_misnamed_that_is_told(tmp_path: Path) -> None:
    touch(tmp_path, "benchmark/benchmark_a b.py")
    with pytest.raises(UsageError, match=r"where targets lie; benchmark/benchmark_a b\.py is no target: .*found 'a b'"):
        find_target(tmp_path, ProjectConfig(), "a_b")
