"""The skill as it is shipped, installed for coding agents, and checked."""

from __future__ import annotations

from warpsmith.contracts.base import Contract, Document, Sha256


class SkillProblem(Contract):
    """What a strict reader refuses. `file` is relative to the skill's folder, "." for the folder itself."""

    file: str
    problem: str


class SkillCheck(Contract):
    """One skill's folder, read as the strictest agent would; no problem means that every agent takes it."""

    path: str
    problems: tuple[SkillProblem, ...]


class SkillChecks(Contract):
    """What `warpsmith skills check` prints."""

    skills: tuple[SkillCheck, ...]

    @property
    def ok(self) -> bool:
        return not any(skill.problems for skill in self.skills)


class InstalledSkill(Contract):
    """One copy of the skill. Files are relative to `path`; `agents` are those that look there."""

    path: str
    agents: tuple[str, ...]
    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]


class InstalledSkills(Contract):
    """What `warpsmith skills install` prints."""

    installed: tuple[InstalledSkill, ...]


class SkillReceipt(Document):
    """.warpsmith.json in an installed copy: what was written there, so that an edit is told from an older version."""

    version: str
    files: dict[str, Sha256]
