"""The skill, read as the strictest of the agents' readers would read it, and held against the program."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml

import warpsmith
from warpsmith.cli.app import app
from warpsmith.cli.edge import ClickException
from warpsmith.contracts.errors import ExitCode
from warpsmith.project.skill_rules import KEYS, problems
from warpsmith.search.strategies import CATALOGUE

ROOT = Path(__file__).resolve().parents[2]
SKILL = ROOT / "skills" / "triton-kernel-perf"
PAGES = (SKILL / "SKILL.md", *sorted((SKILL / "references").glob("*.md")))
MAX_LINES = 120
COMMAND = re.compile(r"`warpsmith ([a-z][^`]*)`")
OPTION_OF_RUN = re.compile(r"`(--[^`]+)`")
#: What a page puts where the user's own word belongs -> such a word.
BLANKS = {"KERNEL": "rms_norm", "N": "8", "FILE.py": "faster.py", "REF": "main", "GPU": "H200", "NAME": "rms_norm"}


def skill_text() -> str:
    return (SKILL / "SKILL.md").read_text(encoding="utf-8")


def command_lines() -> Iterator[str]:
    """Every command line that the skill's pages name, and every option of its table of requests, as one of `run`."""
    for page in PAGES:
        yield from COMMAND.findall(page.read_text(encoding="utf-8").replace("\n", " "))
    table = skill_text().partition("\n## The request\n")[2].partition("\n## ")[0]
    yield from (f"run KERNEL {option}" for option in OPTION_OF_RUN.findall(table))


def parse(line: str) -> None:
    """Raises ClickException for what the program does not take: command, option or value."""
    words = [BLANKS.get(word, word) for word in shlex.split(line)]
    command = typer.main.get_command(app)
    while isinstance(command, typer.core.TyperGroup):
        command = command.commands[words.pop(0)]
    if words or " " in line:  # else a page speaks of a command by its name
        command.make_context("warpsmith", words)


def test_a_strict_reader_accepts_the_skill() -> None:
    assert problems(SKILL) == ()


def test_the_reference_validator_accepts_the_skill() -> None:
    skills_ref = pytest.importorskip("skills_ref", reason="skills-ref is there from Python 3.11 on, by the extra `dev`")

    assert skills_ref.validate(SKILL) == []


def test_the_front_matter_says_what_when_and_when_not() -> None:
    front_matter = yaml.safe_load(skill_text().split("---\n")[1])

    assert tuple(front_matter) == KEYS
    assert front_matter["license"] == "Apache-2.0"
    assert front_matter["metadata"] == {"version": warpsmith.__version__}
    for words in ("Triton kernel", "Use when", "Do not use"):
        assert words in front_matter["description"]


def test_the_skill_fits_on_the_page_an_agent_keeps_in_mind() -> None:
    assert len(skill_text().splitlines()) <= MAX_LINES


def test_every_reference_is_introduced_by_when_to_read_it() -> None:
    introduced = re.findall(r"^- Read (references/[a-z]+\.md) when ", skill_text(), re.MULTILINE)

    assert sorted(introduced) == [path.relative_to(SKILL).as_posix() for path in PAGES[1:]]


def test_the_skill_carries_no_scripts() -> None:
    assert [path for path in SKILL.rglob("*") if path.is_file() and path.suffix != ".md"] == []


def test_every_exit_code_is_explained() -> None:
    explained = {int(code) for code in re.findall(r"^\| (\d+) \|", skill_text(), re.MULTILINE)}

    assert explained == set(ExitCode)


@pytest.mark.parametrize("line", sorted(set(command_lines())))
def test_every_command_line_of_the_skill_is_one_that_the_program_takes(line: str) -> None:
    parse(line)


@pytest.mark.parametrize("line", ["run KERNEL --goal sideways", "run KERNEL --magic", "profile --json", "list KERNEL"])
def test_a_command_line_that_the_program_does_not_take_is_noticed(line: str) -> None:
    with pytest.raises(ClickException, match=r"(?i)is not one of|no such option|missing parameter|unexpected extra"):
        parse(line)


def test_every_strategy_of_the_catalogue_is_described_and_no_other() -> None:
    page = (SKILL / "references" / "strategies.md").read_text(encoding="utf-8")
    described = re.findall(r"^## `(\w+)`$", page, re.MULTILINE)

    assert sorted(described) == sorted(CATALOGUE)
