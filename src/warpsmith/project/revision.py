"""Reads what a repository was at a revision of git, in a folder of its own: nothing is checked out, no reference, index
or file of the repository changes. Must not know what is in it."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from warpsmith.contracts.errors import UsageError

#: The name that asks for the revision which a change is looked at from.
AUTO = "auto"

#: What the default branch is called where no remote tells.
_DEFAULT_BRANCHES = ("origin/main", "origin/master", "main", "master")

#: Settings of the user's under which reading would write, or leave files out.
_READ_ONLY = ("-c", "core.sparseCheckout=false", "-c", "core.splitIndex=false", "-c", "core.fsmonitor=false")

#: What git sets for a hook of its own: which repository and index are meant is asked anew, from the root.
_OF_A_HOOK = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"})


@dataclass(frozen=True)
class Revision:
    """A commit, by its full hash, and the name that it was asked for by. `why` says how `auto` came to it."""

    name: str
    commit: str
    why: str | None = None


def revision_of(root: Path, name: str) -> Revision:
    """The revision of that name. `auto` is where HEAD left the default branch; where HEAD is on it, HEAD itself if
    files differ from it, else the commit before.

    Raises UsageError where there is no such revision, or no git.
    """
    if name == AUTO:
        return _default(root)
    commit = _commit(root, name)
    if commit is None:
        raise UsageError(
            f"--base {name}: neither a file nor a revision that git knows here; a shallow clone has no others than "
            "those it was made with",
            next_command=f"git fetch origin {shlex.quote(name)}",
        )
    return Revision(name, commit)


def exported(root: Path, revision: Revision, into: Path) -> Path:
    """All files of the revision's tree below `into`, which is made; the folder in it that corresponds to `root`.

    Files that git ignores, such as generated or compiled modules, are no part of a revision and are linked from where
    they are now, but for folders of nothing else. Raises UsageError where git cannot.
    """
    top = Path(_asked(root, "rev-parse", "--show-toplevel"))
    into.mkdir(parents=True)
    index = {"GIT_INDEX_FILE": str(into.with_name(f"{into.name}.index"))}
    _asked(top, "read-tree", revision.commit, **index)
    _asked(top, "checkout-index", "--all", "--quiet", f"--prefix={into}{os.sep}", **index)
    ignored = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    for name in _asked(top, *ignored).split("\0"):
        link = into / name
        if name and not name.endswith("/") and link.parent.is_dir() and not os.path.lexists(link):
            link.symlink_to(top / name)
    return into / root.resolve().relative_to(top.resolve())


def _default(root: Path) -> Revision:
    told = _answer(root, "symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD")
    candidates = ((told or "").strip(), *_DEFAULT_BRANCHES)
    branch = next((each for each in candidates if each and _commit(root, each)), None)
    head = _commit(root, "HEAD")
    if branch is None or head is None:
        raise UsageError(
            f"--base {AUTO}: {root} has no commit that a change could be compared with: expected a git repository with "
            f"one of {', '.join(_DEFAULT_BRANCHES)}; name the base: a revision or a file"
        )
    left = (_answer(root, "merge-base", branch, "HEAD") or "").strip()
    if not left:
        raise _not_deep_enough(f"HEAD and {branch} have no commit in common here")
    if left != head:
        return Revision(AUTO, left, f"where HEAD left {branch}")
    if _answer(root, "diff", "--quiet", "HEAD", "--") is None:
        return Revision(AUTO, head, f"HEAD, which is on {branch}; files differ from it")
    before = _commit(root, "HEAD~1")
    if before is None:
        raise _not_deep_enough(f"HEAD is on {branch}, and the commit before it is not here")
    return Revision(AUTO, before, f"the commit before HEAD, which is on {branch}")


def _not_deep_enough(what: str) -> UsageError:
    return UsageError(
        f"--base {AUTO}: {what}; a shallow clone lacks it, else name the base: a revision or a file",
        next_command="git fetch --unshallow",
    )


def _commit(root: Path, name: str) -> str | None:
    found = _answer(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    return found.strip() if found else None


def _answer(root: Path, *words: str) -> str | None:
    """What git says; None where it says no. Raises UsageError where it cannot be asked."""
    finished = _run(root, words, {})
    return None if finished.returncode else os.fsdecode(finished.stdout)


def _asked(root: Path, *words: str, **variables: str) -> str:
    finished = _run(root, words, variables)
    if finished.returncode:
        said = os.fsdecode(finished.stderr).strip() or f"status {finished.returncode}"
        raise UsageError(f"git {words[0]} in {root}: {said}")
    return os.fsdecode(finished.stdout).rstrip("\n")


def _run(root: Path, words: tuple[str, ...], variables: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    environment = {**inherited, "GIT_OPTIONAL_LOCKS": "0", "GIT_LFS_SKIP_SMUDGE": "1", **variables}
    try:
        return subprocess.run(
            ["git", *_READ_ONLY, "-C", str(root), *words], env=environment, capture_output=True, check=False
        )
    except OSError as error:
        raise UsageError(f"git cannot be run: {error.strerror}; name a file as the base") from error
