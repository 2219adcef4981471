"""A profile as it is kept: what the command printed, packed, with what it was made of."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

from warpsmith.contracts.base import Document
from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.profile import Profile
from warpsmith.workspace.documents import write_bytes

SUFFIX = ".json.gz"


class Kept(Document):
    """The profile of one kernel. `of` is the package that the kernel is from; `elapsed_s` is what the command took."""

    kernel: str
    of: str
    elapsed_s: float
    profile: Profile


def path_of(directory: Path, kernel: str) -> Path:
    return directory / f"{kernel}{SUFFIX}"


def write_kept(directory: Path, kept: Kept) -> None:
    """The same bytes for the same profile."""
    packed = gzip.compress(kept.model_dump_json().encode("utf-8"), mtime=0)
    directory.mkdir(parents=True, exist_ok=True)
    write_bytes(path_of(directory, kept.kernel), packed)


def read_kept(directory: Path, kernels: Sequence[str]) -> tuple[Kept, ...]:
    """Those of the kernels that are there, in that order.

    Raises UsageError where the directory has a profile of a kernel that is not among them, or where they were not all
    made on one model of GPU with the same software: their figures would not compare.
    """
    there = {path.name.removesuffix(SUFFIX) for path in directory.glob(f"*{SUFFIX}")}
    if strange := sorted(there - set(kernels)):
        raise UsageError(f"{directory} has profiles of kernels that are not there: {', '.join(strange)}")
    return read_those(directory, kernels)


def read_those(directory: Path, kernels: Sequence[str]) -> tuple[Kept, ...]:
    """The same, whatever other profiles the directory has."""
    there = [path for path in (path_of(directory, kernel) for kernel in kernels) if path.is_file()]
    found = tuple(map(_read, there))
    for other in found[1:]:
        first = found[0].profile.device.environment.model_dump(mode="json")
        if changes := other.profile.device.environment.changes_since(first):
            raise UsageError(f"{other.kernel} was not profiled as {found[0].kernel} was: {'; '.join(changes)}")
    return found


def _read(path: Path) -> Kept:
    return Kept.model_validate_json(gzip.decompress(path.read_bytes()))
