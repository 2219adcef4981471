"""A git repository of a few files, whoever's configuration this machine has."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n")


def without_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the user's configuration nor the machine's, nor an identity from the environment."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"):
        monkeypatch.delenv(name, raising=False)


def committed(root: Path) -> Path:
    """All files that are there, in a first commit of a new repository on branch main, by somebody with a name."""
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "config", "user.name", "A. Person")
    git(root, "config", "user.email", "person@example.com")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "the kernel as it was")
    return root
