"""Copies the skill to where coding agents look for skills. Must not know what the skill says.

Copies are files, as some agents skip links. What was written there is kept as a receipt in the copy: a file that
somebody edited is never overwritten unasked, one that an older version wrote is renewed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path

from warpsmith import __version__
from warpsmith.contracts.errors import UsageError, WarpsmithError
from warpsmith.contracts.skill import InstalledSkill, SkillCheck, SkillProblem, SkillReceipt
from warpsmith.project.skill_rules import PAGE, problems
from warpsmith.workspace.atomic import replace_bytes, unwritable
from warpsmith.workspace.documents import read_document, write_document

SKILL = "triton-kernel-perf"
RECEIPT = ".warpsmith.json"


class Agent(str, Enum):
    """The agents whose folders are known. `agents` is every other one that reads the shared folder."""

    CLAUDE = "claude"
    CODEX = "codex"
    COPILOT = "copilot"
    CURSOR = "cursor"
    GEMINI = "gemini"
    AGENTS = "agents"


#: Below a repository's root, and with --user below the home directory. docs/skill.md says where each is documented.
_SHARED = ".agents/skills"
PLACES = {agent: ".claude/skills" if agent is Agent.CLAUDE else _SHARED for agent in Agent}


def shipped_skill(package: Path | None = None) -> Path:
    """The skill's folder in an installed wheel (warpsmith/skills) or in a checkout (<root>/skills).

    `package` is the folder of the warpsmith package, by default this one. Raises WarpsmithError where neither is.
    """
    package = package or Path(__file__).resolve().parents[1]
    candidates = [folder / "skills" / SKILL for folder in (package, *package.parents[:2])]
    for candidate in candidates:
        if (candidate / PAGE).is_file():
            return candidate
    raise WarpsmithError(
        f"the skill is missing: expected {PAGE} in one of {', '.join(map(str, candidates))}",
        next_command="pip install --force-reinstall warpsmith",
    )


def install(base: Path, agents: Sequence[Agent], *, force: bool, again: str) -> tuple[InstalledSkill, ...]:
    """Copies the skill below `base`, a repository's root or the home directory, once a folder. Does it again at will.

    `again` is the command that was given, for the error. Raises UsageError, having written nothing, naming every file
    that was edited since it was written, unless `force`; Unavailable where the disk does not let it be written.
    """
    places: dict[str, list[Agent]] = {}
    for agent in agents:
        if agent not in (reading := places.setdefault(PLACES[agent], [])):
            reading.append(agent)
    shipped = {name: path.read_bytes() for name, path in _files(shipped_skill()).items()}
    folders = {place: base / place / SKILL for place in places}
    edited = [path for folder in folders.values() for path in _edited(folder, shipped)]
    if edited and not force:
        raise UsageError(
            f"edited since it was installed, and left as it is: {', '.join(map(str, edited))}; --force overwrites",
            next_command=f"{again} --force",
        )
    return tuple(_copy(folders[place], reading, shipped) for place, reading in places.items())


def check(folder: Path) -> SkillCheck:
    """A skill's folder by the rules. Raises UsageError where it is no folder or cannot be read."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; expected that of a skill, with {PAGE} in it")
    try:
        return SkillCheck(path=str(folder), problems=problems(folder))
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be read: {error.strerror}") from error


def check_copies(bases: Mapping[Path, str]) -> tuple[SkillCheck, ...]:
    """The shipped skill, and its copies below these folders, which have to be the same to the byte.

    `bases` maps a folder to the option of `warpsmith skills install` that writes there.
    """
    shipped = shipped_skill()
    found = [check(shipped)]
    for base, option in bases.items():
        for agent in (Agent.CLAUDE, Agent.AGENTS):
            if (folder := base / PLACES[agent] / SKILL).is_dir():
                again = " ".join(["warpsmith skills install --agent", agent.value, *([option] if option else [])])
                found.append(_check_copy(folder, shipped, again))
    return tuple(found)


def _check_copy(folder: Path, shipped: Path, again: str) -> SkillCheck:
    there, ours = _files(folder), _files(shipped)
    different = [name for name in sorted({*there, *ours}) if _content(there.get(name)) != _content(ours.get(name))]
    found = check(folder).problems
    told = f"is not as warpsmith {__version__} ships it; renew it with `{again}`"
    return SkillCheck(
        path=str(folder), problems=(*found, *(SkillProblem(file=name, problem=told) for name in different))
    )


def _copy(folder: Path, agents: list[Agent], shipped: dict[str, bytes]) -> InstalledSkill:
    there = {name: _content(path) for name, path in _files(folder).items()}
    written = tuple(name for name, content in shipped.items() if there.get(name) != content)
    removed = tuple(name for name in there if name not in shipped and name in _receipt(folder))
    for name in written:
        replace_bytes(folder / name, shipped[name])
    try:
        for name in removed:
            (folder / name).unlink()
    except OSError as error:
        raise unwritable(folder, error) from error
    receipt = SkillReceipt(version=__version__, files={name: _sha256(content) for name, content in shipped.items()})
    if written or removed or _receipt(folder) != receipt.files:
        write_document(folder / RECEIPT, receipt)
    unchanged = tuple(name for name in shipped if name not in written)
    names = tuple(agent.value for agent in agents)
    return InstalledSkill(path=str(folder), agents=names, written=written, removed=removed, unchanged=unchanged)


def _edited(folder: Path, shipped: dict[str, bytes]) -> list[Path]:
    """Files that are neither as they are shipped nor as they were written there. Raises UsageError for a link."""
    if folder.is_symlink():
        raise UsageError(f"{folder} is a link; remove it, and the skill is copied there")
    receipt, edited = _receipt(folder), []
    for name, path in _files(folder).items():
        content = _content(path)
        is_ours = content is not None and (content == shipped.get(name) or _sha256(content) == receipt.get(name))
        if not is_ours and (name in shipped or name in receipt):
            edited.append(path)
    return edited


def _receipt(folder: Path) -> dict[str, str]:
    """What was written there, by its hash. Without a receipt that can be read, nothing there is known to be ours."""
    try:
        return read_document(folder / RECEIPT, SkillReceipt).files
    except UsageError:
        return {}


def _files(folder: Path) -> dict[str, Path]:
    """What a skill is made of: name -> path, hidden files left out."""
    paths = sorted(path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    names = {path.relative_to(folder): path for path in paths}
    return {name.as_posix(): path for name, path in names.items() if not any(part[0] == "." for part in name.parts)}


def _content(path: Path | None) -> bytes | None:
    """None where there is no file of its own: missing, or a link."""
    if path is None or path.is_symlink():
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
