"""A program sees the variant in the production module's place, and one that never saw it does not pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"

KERNEL = "from .sizes import SIZE\ndef which():\n    return '{name}', SIZE, __name__, __package__\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A package whose __init__ imports the kernel, which itself imports relatively."""
    files = {
        "pkg/__init__.py": "from .kernel import which\nfrom . import other\n",
        "pkg/sizes.py": "SIZE = 8\n",
        "pkg/other.py": "from pkg.kernel import which as seen_by_other\n",
        "pkg/kernel.py": KERNEL.format(name="production"),
        "variant.py": KERNEL.format(name="variant"),
        "test_kernel.py": (
            "import pkg, pkg.kernel, pkg.other\n"
            "def test_all_see_the_variant():\n"
            "    expected = ('variant', 8, 'pkg.kernel', 'pkg')\n"
            "    assert pkg.which() == pkg.kernel.which() == pkg.other.seen_by_other() == expected\n"
        ),
        "test_nothing.py": "def test_nothing(): pass\n",
        "bench.py": "import sys, pkg\nprint(pkg.which()[0], sys.argv[1:], __name__)\n",
        "group/__init__.py": "def which(): return 'production'\n",
        "group/inner.py": "from . import which\nWHICH = which()\n",
        "group_variant.py": "def which(): return 'variant'\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def run(
    root: Path, *program: str, module: str = "pkg.kernel", source: str = "variant.py"
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-m", "warpsmith.project.override", "--module", module, "--source", source]
    return subprocess.run([*command, *program], cwd=root, env=environment, capture_output=True, text=True)


def test_tests_see_the_variant_in_the_production_modules_place(repository: Path) -> None:
    production = (repository / "pkg" / "kernel.py").read_bytes()

    finished = run(repository, "--", "pytest", "-q", "-p", "no:cacheprovider", "test_kernel.py")

    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "1 passed" in finished.stdout
    assert (repository / "pkg" / "kernel.py").read_bytes() == production
    assert not (repository / "__pycache__" / f"variant.{sys.implementation.cache_tag}.pyc").exists()


def test_the_programs_own_failure_comes_through(repository: Path) -> None:
    (repository / "variant.py").write_text("def which():\n    return 'broken'\n")

    finished = run(repository, "--", "pytest", "-q", "-p", "no:cacheprovider", "test_kernel.py")

    assert finished.returncode == 1
    assert "1 failed" in finished.stdout


def test_a_program_that_never_imports_the_module_has_proven_nothing(repository: Path) -> None:
    finished = run(repository, "--", "pytest", "-q", "-p", "no:cacheprovider", "test_nothing.py")

    assert finished.returncode == 3
    assert f"pkg.kernel was never imported, so {(repository / 'variant.py').resolve()} was not run" in finished.stderr


def test_a_look_up_without_an_import_does_not_count(repository: Path) -> None:
    (repository / "bench.py").write_text(
        "import importlib.util\nimport group\nimportlib.util.find_spec('group.inner')\n"
    )

    assert run(repository, "--", "bench.py", module="group.inner").returncode == 3


def test_production_code_in_the_modules_place_is_noticed(repository: Path) -> None:
    (repository / "bench.py").write_text(
        "import importlib.util, sys\n"
        "import pkg.kernel\n"
        "spec = importlib.util.spec_from_file_location('pkg.kernel', 'pkg/kernel.py')\n"
        "sys.modules['pkg.kernel'] = importlib.util.module_from_spec(spec)\n"
    )

    finished = run(repository, "--", "bench.py")

    assert finished.returncode == 3
    assert "pkg.kernel was loaded from" in finished.stderr


def test_a_script_runs_with_its_arguments_as_the_main_program(repository: Path) -> None:
    finished = run(repository, "--", "bench.py", "--rows", "8")

    assert (finished.returncode, finished.stdout) == (0, "variant ['--rows', '8'] __main__\n"), finished.stderr


def test_a_package_keeps_its_submodules(repository: Path) -> None:
    (repository / "bench.py").write_text("from group.inner import WHICH\nprint(WHICH)\n")

    finished = run(repository, "--", "bench.py", module="group", source="group_variant.py")

    assert (finished.returncode, finished.stdout) == (0, "variant\n"), finished.stderr


def test_a_variant_rewritten_within_a_second_is_the_one_that_runs(repository: Path) -> None:
    variant = repository / "variant.py"
    outputs = []
    for word in ("aaaa", "bbbb"):
        variant.write_text(f"def which():\n    return '{word}',\n")
        os.utime(variant, (1_000_000_000, 1_000_000_000))
        outputs.append(run(repository, "--", "bench.py").stdout.split()[0])

    assert outputs == ["aaaa", "bbbb"]


@pytest.mark.parametrize(
    ("program", "options", "message"),
    [
        ((), {}, "nothing to run"),
        (("--",), {}, "nothing to run"),
        (("--", "bench.py"), {"source": "absent.py"}, "--source absent.py is not there"),
        (("--", "bench.py"), {"module": "warpsmith.project"}, "warpsmith.project is imported already"),
    ],
)
def test_a_call_that_cannot_work_is_a_usage_error(
    repository: Path, program: tuple[str, ...], options: dict[str, str], message: str
) -> None:
    finished = run(repository, *program, **options)

    assert finished.returncode == 2
    assert message in finished.stderr
