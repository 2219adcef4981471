"""The cases that count, fixed before anything is optimized: by how near the kernels come to their ceiling as they are.

Owns that list and where its shares are from: the profiles that were measured. Once it is there, nothing changes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from profiling.kept import path_of, read_those

from warpsmith.contracts.base import Contract, Document, Sha256
from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.device import Environment
from warpsmith.contracts.errors import PreflightError, UsageError
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.profile import Baseline, Profile
from warpsmith.workspace.documents import read_document, write_document

DATA = Path(__file__).resolve().parents[1] / "data"
FIXED, PROFILES = DATA / "autonomous" / "cases.json", DATA / "profiles"
#: Of the measured ceiling: a case counts where its kernel, as it is, stays below.
LINE = 0.80
#: A call is its two passes: counted as a third, it would count twice.
PASSES = (Mode.FORWARD, Mode.BACKWARD)


class FixedCase(Contract):
    """One pass of a kernel at one tuning case. `share` is that of its ceiling which the original reaches."""

    mode: Mode
    case: str
    share: float
    counts: bool


class FixedKernel(Contract):
    """The passes of a kernel at its tuning cases, by the profile in the file of that hash."""

    kernel: str
    of: str
    source_sha256: Sha256
    profile_sha256: Sha256
    measured_at: str
    cases: tuple[FixedCase, ...]


class FixedCases(Document):
    """benchmark/data/autonomous/cases.json. A case counts where its share of the ceiling is below `line`."""

    line: float
    environment: Environment
    kernels: tuple[FixedKernel, ...]

    @property
    def counted(self) -> tuple[tuple[str, FixedCase], ...]:
        return tuple((each.kernel, case) for each in self.kernels for case in each.cases if case.counts)

    def of_kernel(self, kernel: str) -> FixedKernel:
        """Raises UsageError for a kernel of which no case was fixed."""
        for each in self.kernels:
            if each.kernel == kernel:
                return each
        there = ", ".join(each.kernel for each in self.kernels)
        raise UsageError(f"no cases were fixed for {kernel}; there are those of {there}")


def fixed_by(profiles: Path, kernels: Sequence[str]) -> FixedCases:
    """What the profiles of these kernels say. Raises UsageError, PreflightError where one is missing or untimed."""
    found = read_those(profiles, kernels)
    if absent := [kernel for kernel in kernels if kernel not in {each.kernel for each in found}]:
        raise PreflightError(
            f"{profiles} has no profile of {', '.join(absent)}",
            next_command=f"python benchmark/profiles.py measure {' '.join(absent)}   (on a GPU)",
        )
    fixed = tuple(
        FixedKernel(
            kernel=kept.kernel,
            of=kept.of,
            source_sha256=kept.profile.source_sha256,
            profile_sha256=sha256_of(path_of(profiles, kept.kernel)),
            measured_at=kept.profile.device.measured_at,
            cases=tuple(map(_case, _passes(kept.profile))),
        )
        for kept in found
    )
    return FixedCases(line=LINE, environment=found[0].profile.device.environment, kernels=fixed)


def _passes(profile: Profile) -> list[Baseline]:
    return [
        row for row in profile.baselines if row.provider == ORIGINAL and row.role is Role.TUNING and row.mode in PASSES
    ]


def _case(row: Baseline) -> FixedCase:
    share = row.share_of_ceiling
    if share is None:
        raise PreflightError(f"{row.mode.value} {row.case}: its share of the ceiling is not known")
    return FixedCase(mode=row.mode, case=row.case, share=round(share, 4), counts=share < LINE)


def fix(path: Path, profiles: Path, kernels: Sequence[str]) -> None:
    """Writes the list. Raises UsageError where there is one, and as `fixed_by` does."""
    if path.is_file():
        raise UsageError(f"{path} is there: the cases that count were fixed before, and stay as they are")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_document(path, fixed_by(profiles, kernels))


def read_fixed(path: Path = FIXED) -> FixedCases:
    """Raises UsageError where it is not there, or damaged."""
    return read_document(path, FixedCases)


def sha256_of(path: Path) -> Sha256:
    return hashlib.sha256(path.read_bytes()).hexdigest()
