"""The style command is run and told about; it decides nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.project.style import command_for, run_style


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.py"
    path.write_text("x=1\n")
    return path


def test_without_a_command_nothing_runs(file: Path) -> None:
    assert run_style(file.parent, None, file).told == "no style command is configured"


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("import sys; open(sys.argv[1], 'w').write('x = 1\\n')", "succeeded and changed the file"),
        ("pass", "succeeded and did not change the file"),
        ("import sys; sys.exit('no good')", "failed (exit status 1: no good) and did not change the file"),
        ("import sys; sys.exit(3)", "failed (exit status 3: it said nothing) and did not change the file"),
    ],
)
def test_what_the_command_did_is_told(file: Path, program: str, told: str) -> None:
    assert run_style(file.parent, ("python", "-c", program, "{file}"), file).told.endswith(f"` {told}")
    assert file.read_text() == "x=1\n"
    assert [path.name for path in file.parent.iterdir()] == ["kernel.py"]


def test_where_this_python_lies_is_not_told(file: Path) -> None:
    told = run_style(file.parent, ("python", "-m", "no_such_formatter", "{file}"), file).told
    assert "failed (exit status 1: python: No module named no_such_formatter)" in told


@pytest.mark.parametrize(
    "program", ["import os, sys; os.remove(sys.argv[1])", "import os, sys; p = sys.argv[1]; os.remove(p); os.mkdir(p)"]
)
def test_a_command_that_destroys_its_copy_destroys_nothing_else(file: Path, program: str) -> None:
    styled = run_style(file.parent, ("python", "-c", program, "{file}"), file)

    assert styled.told.endswith("left no file, so the file stays as it is")
    assert styled.content == file.read_bytes() == b"x=1\n"


def test_a_command_that_is_not_there_is_told_and_no_error(file: Path) -> None:
    told = run_style(file.parent, ("no-such-formatter",), file).told

    assert told == "the style command did not run: cannot run 'no-such-formatter': No such file or directory"
    assert file.read_text() == "x=1\n"


def test_the_file_stands_where_the_command_says_or_last() -> None:
    file = Path("k.py")

    assert command_for(("fmt", "--in={file}", "-w"), file) == ("fmt", "--in=k.py", "-w")
    assert command_for(("fmt", "-w"), file) == ("fmt", "-w", "k.py")
