"""`warpsmith skills`, as a shell sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Command

from warpsmith.contracts.errors import ExitCode
from warpsmith.contracts.skill import InstalledSkills, SkillChecks
from warpsmith.project.skills import SKILL


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "warpsmith.yaml").touch()
    return tmp_path / "project"


def test_install_tells_what_it_wrote_and_check_finds_every_copy(project: Path, command: Command) -> None:
    first = command(project, "skills", "install", "--agent", "claude", "--agent", "codex", "--json")
    again = command(project, "skills", "install", "--agent", "claude")
    for_all = command(project, "skills", "install", "--agent", "gemini", "--user")
    checked = command(project, "skills", "check", "--json")

    assert first.exit_code == again.exit_code == for_all.exit_code == checked.exit_code == ExitCode.DONE
    assert [copy.agents for copy in InstalledSkills.model_validate_json(first.out).installed] == [
        ("claude",),
        ("codex",),
    ]
    assert again.told.endswith("up to date")
    assert "wrote SKILL.md" in for_all.told
    places = (project / ".claude", project / ".agents", project.parent / "home" / ".agents")
    found = SkillChecks.model_validate_json(checked.out).skills
    assert {skill.path for skill in found[1:]} == {str(place / "skills" / SKILL) for place in places}


def test_an_edited_copy_is_refused_with_the_command_that_overwrites(project: Path, command: Command) -> None:
    command(project, "skills", "install", "--agent", "claude")
    page = project / ".claude" / "skills" / SKILL / "SKILL.md"
    page.write_text("mine")

    refused = command(project, "skills", "install", "--agent", "claude", "--json")
    checked = command(project, "skills", "check", str(page.parent))

    assert refused.exit_code == ExitCode.USAGE
    assert json.loads(refused.out)["error"]["next_command"] == "warpsmith skills install --agent claude --force"
    assert checked.exit_code == ExitCode.PREFLIGHT
    assert "SKILL.md: must begin with a block between two lines of ---" in checked.told


def test_check_needs_no_repository(project: Path, command: Command) -> None:
    checked = command(project.parent, "skills", "check")

    assert checked.exit_code == ExitCode.DONE
    assert checked.told.startswith("ok ")
