"""What a repository was at a revision, read without a trace in it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from warpsmith.contracts.errors import UsageError
from warpsmith.project.revision import AUTO, Revision, exported, revision_of

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """Runs git in a repository of two commits on main, whose project lies in `sub`."""
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, "/dev/null")
    root = tmp_path / "a repository"

    def run(*words: str) -> str:
        who = ("-c", "user.name=A", "-c", "user.email=a@b.c")
        return subprocess.run(
            ["git", *who, *words], cwd=root, check=True, capture_output=True, text=True
        ).stdout.strip()

    (root / "sub").mkdir(parents=True)
    run("init", "-q", "-b", "main")
    for number in (1, 2):
        (root / "sub" / "kernel.py").write_text(f"{number}\n")
        (root / ".gitignore").write_text("generated.py\nbuild/\n")
        run("add", ".")
        run("commit", "-q", "-m", str(number))
    return run


@pytest.fixture
def root(tmp_path: Path, git: Git) -> Path:
    return tmp_path / "a repository" / "sub"


def branched(git: Git, root: Path) -> str:
    """A commit on a branch, after which main went on; where they part."""
    parted = git("rev-parse", "HEAD")
    git("checkout", "-q", "-b", "work")
    git("commit", "-q", "--allow-empty", "-m", "work")
    git("checkout", "-q", "main")
    git("commit", "-q", "--allow-empty", "-m", "meanwhile")
    git("checkout", "-q", "work")
    return parted


def test_a_revision_is_the_commit_of_that_name(git: Git, root: Path) -> None:
    git("tag", "-a", "-m", "release", "v1", "HEAD~1")
    first = git("rev-parse", "HEAD~1")

    assert revision_of(root, "HEAD~1") == Revision("HEAD~1", first)
    assert revision_of(root, "v1") == Revision("v1", first)
    assert revision_of(root, first[:8]).commit == first


@pytest.mark.parametrize("name", ["nothing", "--all", "-x", "HEAD:sub", "HEAD~7", ""])
def test_a_name_that_is_no_commit_is_a_usage_error(root: Path, name: str) -> None:
    with pytest.raises(UsageError, match="neither a file nor a revision that git knows here"):
        revision_of(root, name)


def test_auto_is_where_the_branch_left_the_default_one(git: Git, root: Path) -> None:
    parted = branched(git, root)

    assert revision_of(root, AUTO) == Revision(AUTO, parted, "where HEAD left main")


def test_the_remote_s_default_branch_comes_before_names_that_are_usual(git: Git, root: Path) -> None:
    branched(git, root)
    git("update-ref", "refs/remotes/origin/trunk", "work~2")
    git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")

    assert revision_of(root, AUTO) == Revision(AUTO, git("rev-parse", "work~2"), "where HEAD left origin/trunk")


def test_on_the_default_branch_auto_is_head_while_files_differ_and_else_the_commit_before(git: Git, root: Path) -> None:
    clean = revision_of(root, AUTO)
    (root / "kernel.py").write_text("3\n")
    changed = revision_of(root, AUTO)

    assert clean == Revision(AUTO, git("rev-parse", "HEAD~1"), "the commit before HEAD, which is on main")
    assert changed == Revision(AUTO, git("rev-parse", "HEAD"), "HEAD, which is on main; files differ from it")


def test_a_shallow_clone_is_told_what_it_lacks(git: Git, root: Path, tmp_path: Path) -> None:
    git("clone", "-q", "--depth", "1", f"file://{root.parent}", str(tmp_path / "shallow"))
    with pytest.raises(UsageError, match="the commit before it is not here") as caught:
        revision_of(tmp_path / "shallow", AUTO)
    assert caught.value.next_command == "git fetch --unshallow"


def test_what_is_no_repository_has_no_base(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected a git repository with one of origin/main"):
        revision_of(tmp_path, AUTO)


def test_a_tree_is_laid_out_with_what_git_ignores_and_the_repository_is_as_it_was(
    git: Git, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "generated.py").write_text("now\n")
    (root / "new.py").write_text("not in any revision\n")
    (root / "build").mkdir()
    (root / "build" / "left.py").write_text("a folder of nothing else\n")
    (root / "kernel.py").write_text("staged\n")
    git("add", "sub/kernel.py")
    (root / "kernel.py").write_text("changed\n")
    everything = sorted(path for path in root.parent.rglob("*") if path.is_file())
    before = {path: path.read_bytes() for path in everything}
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "of a hook"))

    tree = exported(root, revision_of(root, "HEAD~1"), tmp_path / "out" / "tree")

    assert tree == tmp_path / "out" / "tree" / "sub"
    assert {path.name: path.read_text() for path in tree.iterdir()} == {"kernel.py": "1\n", "generated.py": "now\n"}
    assert {path: path.read_bytes() for path in root.parent.rglob("*") if path.is_file()} == before
