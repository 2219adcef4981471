"""Finds a repository's root and the target file of a kernel, by file names alone: nothing of the user's is imported."""

from __future__ import annotations

import difflib
import reprlib
import shlex
from pathlib import Path

from warpsmith.contracts.errors import UsageError
from warpsmith.project.config import FILE_NAME, ProjectConfig

_ROOT_MARKS = (FILE_NAME, "pyproject.toml", ".git")
_TARGET_PREFIX = "benchmark_"
_NOT_TARGETS = frozenset({"__init__", "conftest"})


def find_root(start: Path) -> Path:
    """The nearest folder at or above `start` with a warpsmith.yaml, else with a pyproject.toml, else with a .git.

    Raises UsageError where there is none, or where its path is no UTF-8: what is measured is kept with it, as JSON.
    """
    folders = [resolved := start.resolve(), *resolved.parents]
    for mark in _ROOT_MARKS:
        for folder in folders:
            if (folder / mark).exists():
                return _nameable(folder)
    raise UsageError(
        f"no repository here: neither {resolved} nor a folder above it has {', '.join(_ROOT_MARKS[:-1])} or .git",
        next_command=f"touch {shlex.quote(str(resolved / FILE_NAME))}",
    )


def _nameable(folder: Path) -> Path:
    try:
        str(folder).encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the repository's path must be UTF-8, found {str(folder).encode(errors='surrogateescape')!r}; "
            "rename that folder"
        ) from error
    return folder


def list_targets(root: Path, config: ProjectConfig) -> dict[str, Path]:
    """Kernel name -> target file, by name. A target is `benchmark_<kernel>.py` or `<kernel>.py` under the globs.

    Raises UsageError where two files claim one kernel.
    """
    found: dict[str, Path] = {}
    for glob in config.targets:
        for path in _matches(root, glob):
            kernel = path.stem.removeprefix(_TARGET_PREFIX)
            if not _is_target(path, kernel):
                continue
            other = found.setdefault(kernel, path)
            if other != path:
                raise UsageError(
                    f"two targets for kernel {kernel!r}: {other.relative_to(root)} and {path.relative_to(root)}; "
                    "rename one, or narrow `targets` in warpsmith.yaml",
                    next_command=f"edit {shlex.quote(str(root / FILE_NAME))}",
                )
    return dict(sorted(found.items()))


def find_target(root: Path, config: ProjectConfig, kernel: str) -> Path:
    """The target file of a kernel. Raises UsageError naming the nearest kernels where there is none."""
    targets = list_targets(root, config)
    if kernel in targets:
        return targets[kernel]
    where = ", ".join(config.targets)
    if not targets:
        misnamed = "".join(f"; {each}" for each in misnamed_told(root, config)[:1])
        raise UsageError(
            f"no target for kernel {kernel!r}: no file of {root} matches {where}; a target is a Python file that "
            f"defines `target = Target(...)`, and warpsmith.yaml says where targets lie{misnamed}"
        )
    nearest = difflib.get_close_matches(kernel, targets, n=3, cutoff=0.5)
    told = f"nearest: {', '.join(nearest)}" if nearest else f"there are: {', '.join(sorted(targets)[:5])}"
    raise UsageError(
        f"no target for kernel {kernel!r} under {where}; {told} (of {len(targets)})",
        next_command="warpsmith list",
    )


def misnamed_told(root: Path, config: ProjectConfig) -> list[str]:
    """Files that are named as targets are, but for what stands where the kernel's name should."""
    files = {path for glob in config.targets for path in _matches(root, glob)}
    return [
        f"{path.relative_to(root).as_posix()} is no target: a kernel's name is ASCII letters, digits and "
        f"underscores, no digit first; found {kernel!r}"
        for path in sorted(files)
        if path.name.startswith(_TARGET_PREFIX) and path.suffix == ".py" and path.is_file()
        if not _is_name(kernel := path.stem.removeprefix(_TARGET_PREFIX))
    ]


def _matches(root: Path, glob: str) -> list[Path]:
    try:
        return sorted(root.glob(glob))
    except (ValueError, IndexError, NotImplementedError, OSError) as error:
        raise UsageError(
            f"targets: {reprlib.repr(glob)} in warpsmith.yaml is no glob: {getattr(error, 'strerror', None) or error}",
            next_command=f"edit {shlex.quote(str(root / FILE_NAME))}",
        ) from error


def _is_target(path: Path, kernel: str) -> bool:
    named = _is_name(kernel) and path.stem not in _NOT_TARGETS
    return named and path.suffix == ".py" and path.is_file()


def _is_name(kernel: str) -> bool:
    return kernel.isascii() and kernel.isidentifier()
