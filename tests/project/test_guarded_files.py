from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.project.guarded_files import differences, guarded_files, tree_sha256


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in (
        *("target.py", "src/kernel.py", "tests/test_kernel.py", "tests/beside.py", "tests/stranger.py"),
        *("tests/conftest.py", "conftest.py", "pyproject.toml", "optimization/k/k_v1.py", "tests/.hidden/x.py"),
        *("env/pyvenv.cfg", "env/lib.py", "tests/data.json"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n")
    (tmp_path / "tests/test_kernel.py").write_text("from beside import check\nfrom kernel import it\n")
    return tmp_path


def found(root: Path, *tests: str, source: str = "src/kernel.py") -> set[str]:
    return set(guarded_files(root, "target.py", tests, source=source)) - {"target.py", "pyproject.toml", "conftest.py"}


def test_a_test_file_brings_what_it_names_beside_it_and_every_conftest_above(root: Path) -> None:
    of_the_file = {"tests/test_kernel.py", "tests/beside.py", "tests/conftest.py"}
    assert found(root, "tests/test_kernel.py") == of_the_file
    assert found(root, "-x", "tests/test_kernel.py::test_it", "-k", "it") == of_the_file


def test_a_folder_brings_all_python_below_it_but_no_workspace_no_environment_and_nothing_hidden(root: Path) -> None:
    below = {"tests/test_kernel.py", "tests/beside.py", "tests/stranger.py", "tests/conftest.py"}
    assert found(root, "tests") == below
    assert found(root, ".") == below


def test_the_source_is_never_among_them(root: Path) -> None:
    assert "tests/beside.py" not in found(root, "tests", source="tests/beside.py")
    assert "tests/beside.py" not in found(root, "tests/test_kernel.py", source="tests/beside.py")


def test_a_test_outside_the_repository_is_told_by_the_way_to_it(root: Path) -> None:
    tests = {"../tests/test_kernel.py", "../tests/beside.py"}
    assert tests <= found(root / "src", "../tests/test_kernel.py")


def test_each_difference_is_told() -> None:
    a, b = "a" * 64, "b" * 64
    told = differences({"same": a, "other": a, "gone": a}, {"same": a, "other": b, "new": b})
    assert told == ["gone was deleted", "new was added", "other was changed"]


def test_a_digest_follows_names_and_contents_of_the_files_that_count(root: Path) -> None:
    def digest() -> str:
        return tree_sha256([root], endings=(".py",), left_out=root / "optimization")

    before = digest()
    (root / "tests/data.json").write_text("{}")
    (root / "optimization/k/k_v1.py").write_text("x = 1\n")
    assert digest() == before
    (root / "tests/beside.py").write_text("x = 1\n")
    changed = digest()
    (root / "tests/beside.py").rename(root / "tests/renamed.py")
    assert len({before, changed, digest()}) == 3
