"""A skill's folder, read by the rules of the strictest agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.contracts.skill import SkillProblem
from warpsmith.project.skill_rules import problems

GOOD = (
    '---\nname: a-skill\ndescription: "Does a thing: well."\nlicense: MIT\nmetadata:\n  version: "1"\n---\n'
    "# A\n\n- Read references/more.md when in doubt.\n"
)


def skill(folder: Path, text: str = GOOD) -> Path:
    (folder / "a-skill" / "references").mkdir(parents=True)
    (folder / "a-skill" / "references" / "more.md").write_text("# More\n")
    (folder / "a-skill" / "SKILL.md").write_text(text)
    return folder / "a-skill"


def test_a_good_skill_has_no_problem_and_hidden_files_are_nobody_s_business(tmp_path: Path) -> None:
    folder = skill(tmp_path)
    (folder / ".warpsmith.json").write_text("{}")

    assert problems(folder) == ()


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("---\nname", "name", "must begin with a block"),
        ('"Does a thing: well."', "Does a thing: well", "description: a colon outside quotes"),
        ('"Does a thing: well."', "Does a thing", "description: one line in double quotes"),
        ('"Does a thing: well."', '"Turns <x> into y"', "no angle brackets"),
        ('"Does a thing: well."', '"' + "x" * 1025 + '"', "1 to 1,024 characters"),
        ('description: "Does a thing: well."\n', "", "1 to 1,024 characters"),
        ("a-skill", "a--skill", "single hyphens"),
        ("a-skill", "A-skill", "1 to 64 of a-z"),
        ("a-skill", "b-skill", "the folder is called 'a-skill'"),
        ("license: MIT", "allowed-tools: Bash", "allowed-tools: only name"),
        ("license: MIT", "license: 1", "license: a string"),
        ('version: "1"', "version: 1", "strings only"),
        ("license: MIT", 'license: "MIT', "is no YAML"),
        ("# A\n", "# A\n" * 500, "at most 500"),
        ("# A\n", "# A\n[b](references/b.md)\n", "references/b.md is not there"),
        ("# A\n", "# A\n`scripts/run.sh`\n", "scripts/run.sh is not there"),
        ("# A\n", "# A\n[b](../b.md)\n", "stay in it"),
        ("references/more.md", "more", "SKILL.md does not name it"),
    ],
)
def test_what_a_strict_reader_refuses_is_told_alone(tmp_path: Path, before: str, after: str, complaint: str) -> None:
    assert before in GOOD

    (found,) = problems(skill(tmp_path, GOOD.replace(before, after, 1)))

    assert complaint in found.problem


def test_links_and_deep_files_are_told_by_name(tmp_path: Path) -> None:
    folder = skill(tmp_path, GOOD + "[deep](references/a/deep.md), [web](https://agentskills.io), references/link.md\n")
    (folder / "references" / "a").mkdir()
    (folder / "references" / "a" / "deep.md").write_text("")
    (folder / "references" / "link.md").symlink_to("more.md")

    assert problems(folder) == (
        SkillProblem(file="references/a/deep.md", problem="more than one level deep, where some agents do not look"),
        SkillProblem(file="references/link.md", problem="a link, which some agents skip; copy the file"),
    )


def test_a_folder_without_a_page_and_a_page_that_is_no_text(tmp_path: Path) -> None:
    (missing,) = problems(tmp_path)
    folder = skill(tmp_path)
    (folder / "SKILL.md").write_bytes(b"\xff\xfe")
    (broken,) = problems(folder)

    assert missing.file == "." and "no SKILL.md here" in missing.problem
    assert broken.file == "SKILL.md" and "not UTF-8" in broken.problem
