"""What is kept of a tuned kernel and of a comparison with an exhaustive search: every raw sample, packed."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TypeVar

from warpsmith.contracts.base import Contract, Document, Settings
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.measurement import Timing
from warpsmith.contracts.variant import VariantStatus
from warpsmith.contracts.verdict import Verdict
from warpsmith.workspace.documents import write_bytes

SUFFIX = ".json.gz"
#: The variant's name among the contenders.
TUNED = "tuned"
#: The folder of the comparisons.
EXHAUSTIVE = "exhaustive"


class KeptReading(Contract):
    """One choice of settings at one case. `time_ms` is None where it was not timed, and `note` says why."""

    case: str
    settings: Settings
    time_ms: float | None
    final: bool
    note: str = ""


class SweptPass(Contract):
    """The search of one jit function in one pass. `planned_ms` is the length of all blocks that were asked for."""

    mode: Mode
    jit_function: str
    knobs: tuple[str, ...]
    inert: tuple[str, ...]
    planned_ms: float
    stopped: str | None
    readings: tuple[KeptReading, ...]


class Tuned(Document):
    """One kernel whose launch settings were tuned, and the judgement on the variant; nothing else was changed.

    `of` is the package the kernel is from, `elapsed_s` what it took in all, `device_time_ms` what the searches timed,
    by their samples. `timings` are the original beside the variant, from which the verdict can be made anew. Where no
    settings were better there is no variant, and `detail` says so.
    """

    kernel: str
    of: str
    elapsed_s: float
    device: DeviceFacts
    noise_floor: float | None
    status: VariantStatus
    detail: str | None = None
    changes: tuple[str, ...] = ()
    learnings: tuple[str, ...] = ()
    diff: str = ""
    device_time_ms: float = 0.0
    passes: tuple[SweptPass, ...] = ()
    verdict: Verdict | None = None
    timings: tuple[Timing, ...] = ()


class Exhausted(Document):
    """Every runnable choice of settings timed at one case and pass, and what the search chose from the same space.

    `timings` are the exhaustive search's; `last` is its best few, the search's choice and the original side by side.
    Device times are of all samples that each search took. `n_distinct` counts the different machine codes and grids.
    """

    kernel: str
    of: str
    case: Case
    mode: Mode
    jit_function: str
    device: DeviceFacts
    n_settings: int
    n_runnable: int
    n_distinct: int
    exhaustive_device_time_ms: float
    search_device_time_ms: float
    chosen: Settings
    timings: tuple[Timing, ...]
    last: Timing


_Kept = TypeVar("_Kept", Tuned, Exhausted)


def write_kept(path: Path, kept: Tuned | Exhausted) -> None:
    """The same bytes for the same content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, gzip.compress(kept.model_dump_json().encode("utf-8"), mtime=0))


def read_kept(path: Path, kind: type[_Kept]) -> _Kept:
    return kind.model_validate_json(gzip.decompress(path.read_bytes()))


def tuned_path(directory: Path, kernel: str) -> Path:
    return directory / f"{kernel}{SUFFIX}"


def exhausted_path(directory: Path, kernel: str, mode: Mode, case: str) -> Path:
    return directory / EXHAUSTIVE / f"{kernel}-{mode.value}-{case}{SUFFIX}"
