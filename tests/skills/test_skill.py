"""The skill, read as the strictest of the agents' readers would read it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from warpsmith.contracts.errors import ExitCode
from warpsmith.search.strategies import CATALOGUE

SKILL = Path(__file__).resolve().parents[2] / "skills" / "triton-kernel-perf"
KEYS = ("name", "description", "license", "metadata")
QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
MAX_LINES = 120


class BadFrontMatter(ValueError):
    """What a strict reader refuses, and why."""


def front_matter(text: str, folder: str) -> dict[str, Any]:
    """The front matter of a SKILL.md, by the rules of the strictest reader. Raises BadFrontMatter."""
    lines = text.splitlines()
    if lines[:1] != ["---"] or "---" not in lines[1:]:
        raise BadFrontMatter("must begin with a block between two lines of ---")
    block = lines[1 : lines.index("---", 1)]
    for line in block:
        key, separator, value = line.partition(": ")
        if separator and ":" in QUOTED.sub("", value):
            raise BadFrontMatter(f"{key.strip()}: a colon outside quotes")
    parsed = yaml.safe_load("\n".join(block))
    if not isinstance(parsed, dict) or set(parsed) - set(KEYS):
        raise BadFrontMatter(f"only {', '.join(KEYS)} are allowed")
    name, description = parsed.get("name"), parsed.get("description")
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) or len(name) > 64:
        raise BadFrontMatter("name: 1 to 64 of a-z, 0-9 and single hyphens")
    if name != folder:
        raise BadFrontMatter(f"name: the folder is called {folder}")
    if not isinstance(description, str) or not 1 <= len(description) <= 1024 or set("<>") & set(description):
        raise BadFrontMatter("description: 1 to 1,024 characters without angle brackets")
    if not any(line.startswith("description: ") and QUOTED.fullmatch(line[13:]) for line in block):
        raise BadFrontMatter("description: one line in double quotes")
    metadata = parsed.get("metadata", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise BadFrontMatter("metadata: strings only")
    return parsed


def skill_text() -> str:
    return (SKILL / "SKILL.md").read_text(encoding="utf-8")


def test_a_strict_reader_accepts_the_front_matter() -> None:
    parsed = front_matter(skill_text(), SKILL.name)

    assert tuple(parsed) == KEYS
    assert parsed["name"] == "triton-kernel-perf"
    assert parsed["license"] == "Apache-2.0"


def test_the_description_says_what_when_and_when_not() -> None:
    description = front_matter(skill_text(), SKILL.name)["description"]

    assert "Triton kernel" in description
    assert "Use when" in description
    assert "Do not use" in description


GOOD = '---\nname: a-skill\ndescription: "Does a thing: well."\nlicense: MIT\nmetadata:\n  version: "1"\n---\n# A\n'


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("---\nname", "name", "must begin with"),
        ('"Does a thing: well."', "Does a thing: well", "colon outside quotes"),
        ('"Does a thing: well."', "Does a thing", "one line in double quotes"),
        ('"Does a thing: well."', '"Turns <x> into y"', "without angle brackets"),
        ('"Does a thing: well."', '"' + "x" * 1025 + '"', "1 to 1,024 characters"),
        ("a-skill", "a--skill", "single hyphens"),
        ("a-skill", "A-skill", "1 to 64 of a-z"),
        ("a-skill", "b-skill", "the folder is called"),
        ("license: MIT", "allowed-tools: Bash", "are allowed"),
        ('version: "1"', "version: 1", "strings only"),
    ],
)
def test_what_a_strict_reader_refuses_is_refused(before: str, after: str, complaint: str) -> None:
    assert front_matter(GOOD, "a-skill")["name"] == "a-skill"

    with pytest.raises(BadFrontMatter, match=complaint):
        front_matter(GOOD.replace(before, after, 1), "a-skill")


def test_the_skill_fits_on_the_page_an_agent_keeps_in_mind() -> None:
    assert len(skill_text().splitlines()) <= MAX_LINES


def test_every_reference_is_there_one_level_deep_and_introduced_by_when_to_read_it() -> None:
    introduced = re.findall(r"^- Read (references/[a-z]+\.md) when ", skill_text(), re.MULTILINE)
    there = [path.relative_to(SKILL).as_posix() for path in SKILL.rglob("*") if path.is_file()]

    assert sorted(there) == sorted(["SKILL.md", *introduced])


def test_the_skill_carries_no_scripts_and_no_links() -> None:
    assert [path for path in SKILL.rglob("*") if path.is_symlink() or (path.is_file() and path.suffix != ".md")] == []


def test_every_exit_code_is_explained() -> None:
    explained = {int(code) for code in re.findall(r"^\| (\d+) \|", skill_text(), re.MULTILINE)}

    assert explained == set(ExitCode)


def test_every_strategy_of_the_catalogue_is_described_and_no_other() -> None:
    page = (SKILL / "references" / "strategies.md").read_text(encoding="utf-8")
    described = re.findall(r"^## `(\w+)`$", page, re.MULTILINE)

    assert sorted(described) == sorted(CATALOGUE)
