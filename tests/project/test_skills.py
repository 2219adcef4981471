"""The skill, copied to where agents look for it."""

from __future__ import annotations

import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from warpsmith import __version__
from warpsmith.contracts.errors import UsageError, WarpsmithError
from warpsmith.contracts.skill import InstalledSkill, SkillReceipt
from warpsmith.project.skills import PLACES, RECEIPT, SKILL, Agent, check, check_copies, install, shipped_skill
from warpsmith.workspace.documents import read_document, write_document

AGAIN = "warpsmith skills install --agent claude"
NAMES = tuple(sorted(path.relative_to(shipped_skill()).as_posix() for path in shipped_skill().rglob("*.md")))


def copy(base: Path, *, force: bool = False, agents: tuple[Agent, ...] = (Agent.CLAUDE,)) -> InstalledSkill:
    (installed,) = install(base, agents, force=force, again=AGAIN)
    return installed


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    return Path(copy(tmp_path).path)


def test_claude_has_a_folder_of_its_own_and_all_others_share_one(tmp_path: Path) -> None:
    claude, shared = install(tmp_path, tuple(Agent), force=False, again=AGAIN)

    assert claude.path == str(tmp_path / ".claude/skills" / SKILL) and claude.agents == ("claude",)
    assert shared.path == str(tmp_path / ".agents/skills" / SKILL)
    assert shared.agents == ("codex", "copilot", "cursor", "gemini", "agents")
    assert set(PLACES) == set(Agent)


def test_a_copy_is_the_shipped_skill_to_the_byte_and_a_second_time_changes_nothing(tmp_path: Path) -> None:
    first = copy(tmp_path)
    there = {path: path.stat().st_mtime_ns for path in Path(first.path).rglob("*")}
    second = copy(tmp_path)

    assert first.written == second.unchanged == NAMES
    assert second.written == second.removed == ()
    assert {path: path.stat().st_mtime_ns for path in Path(first.path).rglob("*")} == there
    assert all((Path(first.path) / name).read_bytes() == (shipped_skill() / name).read_bytes() for name in NAMES)


def test_an_edited_file_is_named_and_left_alone_together_with_all_others(installed: Path) -> None:
    (installed / "SKILL.md").write_text("mine")
    (installed / NAMES[-1]).unlink()

    with pytest.raises(UsageError, match=r"left as it is: \S+/SKILL\.md; --force") as refused:
        copy(installed.parents[2])

    assert refused.value.next_command == f"{AGAIN} --force"
    assert (installed / "SKILL.md").read_text() == "mine"
    assert not (installed / NAMES[-1]).exists()
    assert copy(installed.parents[2], force=True).written == ("SKILL.md", NAMES[-1])


def test_a_file_that_an_older_version_wrote_is_renewed_or_removed_unasked(installed: Path) -> None:
    old = b"what another version said"
    for name in ("SKILL.md", "references/gone.md"):
        (installed / name).write_bytes(old)
    (installed / "references/mine.md").write_text("a user's own")
    receipt = read_document(installed / RECEIPT, SkillReceipt)
    written = {**receipt.files, **{name: sha256(old).hexdigest() for name in ("SKILL.md", "references/gone.md")}}
    write_document(installed / RECEIPT, SkillReceipt(version="0.0.1", files=written))

    renewed = copy(installed.parents[2])

    assert renewed.written == ("SKILL.md",) and renewed.removed == ("references/gone.md",)
    assert (installed / "references/mine.md").read_text() == "a user's own"
    assert read_document(installed / RECEIPT, SkillReceipt) == SkillReceipt(version=__version__, files=receipt.files)


def test_without_a_receipt_what_differs_counts_as_edited(installed: Path) -> None:
    (installed / RECEIPT).unlink()
    assert copy(installed.parents[2]).unchanged == NAMES

    (installed / RECEIPT).write_text("{")
    (installed / "SKILL.md").write_text("mine")
    with pytest.raises(UsageError, match="edited since"):
        copy(installed.parents[2])


def test_links_are_not_written_through(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.md"
    theirs.write_text("theirs")
    folder = tmp_path / ".claude/skills" / SKILL
    folder.mkdir(parents=True)
    (folder / "SKILL.md").symlink_to(theirs)

    with pytest.raises(UsageError, match="edited since"):
        copy(tmp_path)
    copy(tmp_path, force=True)
    shutil.move(folder, tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="is a link"):
        copy(tmp_path, force=True)

    assert theirs.read_text() == "theirs"


def test_check_compares_copies_with_what_is_shipped(installed: Path) -> None:
    base = installed.parents[2]
    shipped, same = check_copies({base: "--user"})
    (installed / NAMES[-1]).write_text("# Other\n")
    _, different = check_copies({base: "--user"})

    assert shipped.problems == same.problems == ()
    (told,) = different.problems
    assert told.file == NAMES[-1]
    assert f"as warpsmith {__version__} ships it; renew it with `{AGAIN} --user`" in told.problem


def test_check_of_no_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder"):
        check(tmp_path / "nothing")


def test_the_skill_is_found_in_a_wheel_and_missed_where_it_is_not(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "warpsmith"
    shutil.copytree(shipped_skill(), package / "skills" / SKILL)

    assert shipped_skill(package) == package / "skills" / SKILL
    with pytest.raises(WarpsmithError, match="the skill is missing"):
        shipped_skill(tmp_path / "a" / "b" / "c")
