"""What a bench is asked, and whether there is such a thing. Must not know how it is measured.

Names are told to be wrong before a GPU or a recording is missed: that needs the target's description alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpsmith.contracts.case import Mode
from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.measurement import L2, ORIGINAL, TimingMethod
from warpsmith.contracts.target import TargetSpec
from warpsmith.measure.worker.protocol import Describe, WorkerError, answer_of
from warpsmith.project.snapshot import read_source
from warpsmith.stages.session import target_ref, worker_without_gpu

#: Chosen: as many as are read through to find one's own.
SHOWN_NAMES = 12


@dataclass(frozen=True)
class Asked:
    """What the command line asked for. Empty is all there are; `l2` None is cold, and warm too where that can be.

    `files` are sources to compare, each named by the stem of its file. `device_time_only` leaves host time and peak
    memory out.
    """

    providers: tuple[str, ...] = ()
    modes: tuple[Mode, ...] = ()
    cases: tuple[str, ...] = ()
    l2: L2 | None = None
    method: TimingMethod | None = None
    files: tuple[Path, ...] = ()
    device: str = "auto"
    device_time_only: bool = False


def sources_of(asked: Asked) -> dict[str, bytes]:
    """The files that were asked for, by name. Raises UsageError."""
    found: dict[str, bytes] = {}
    for path in asked.files:
        if not path.is_file():
            raise UsageError(f"--with {path}: no such file; {beside(path)}")
        if not path.stem.isidentifier():
            raise UsageError(f"--with {path}: a source is named by its file, and {path.stem!r} is no Python identifier")
        if path.stem in (*found, ORIGINAL):
            raise UsageError(f"--with {path}: a source is named by its file, and {path.stem!r} is taken; rename it")
        found[path.stem] = read_source(path)
    return found


def expect_names(root: Path, target_path: Path, asked: Asked) -> None:
    """Raises UsageError for a file, provider, case or mode that there is not, as far as this can be told without a GPU.

    A target that cannot be described here is left to whoever needs it described.
    """
    sources_of(asked)
    if not (asked.providers or asked.cases or asked.modes or asked.files):
        return
    try:
        with worker_without_gpu(root) as worker:
            spec = answer_of(worker, Describe(target=target_ref(root, target_path)), TargetSpec)
    except WorkerError:
        return
    known = tuple(dict.fromkeys((*spec.providers, *spec.missing_providers)))
    chosen_of(asked, spec.model_copy(update={"providers": known, "missing_providers": {}}))


def chosen_of(asked: Asked, spec: TargetSpec) -> TargetSpec:
    """The target with what was asked for of its cases, modes and providers. Raises UsageError naming what there is."""
    for name in asked.providers:
        if name in spec.missing_providers:
            raise UsageError(f"--providers {name}: it cannot be measured here: {spec.missing_providers[name]}")
    for path in asked.files:
        if path.stem in (*spec.providers, *spec.missing_providers):
            raise UsageError(f"--with {path}: {path.stem!r} is a baseline provider of {spec.name}; rename the file")
    providers = named_of("--providers", asked.providers, spec.providers, spec)
    cases = named_of("--case", asked.cases, [case.name for case in spec.cases], spec)
    modes = named_of("--mode", [mode.value for mode in asked.modes], [mode.value for mode in spec.modes], spec)
    update = {
        "providers": providers,
        "missing_providers": {} if asked.providers else spec.missing_providers,
        "cases": tuple(case for case in spec.cases if case.name in cases),
        "modes": tuple(mode for mode in spec.modes if mode.value in modes),
    }
    return spec.model_copy(update=update)


def named_of(option: str, asked: Iterable[str], known: Sequence[str], spec: TargetSpec) -> tuple[str, ...]:
    """What was asked for of what there is, in its order; all of it where nothing was asked for."""
    wanted = tuple(asked)
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            more = f", and {len(known) - SHOWN_NAMES} more, see {spec.target_file}" if len(known) > SHOWN_NAMES else ""
            there = ", ".join(known[:SHOWN_NAMES]) or "none"
            raise UsageError(f"{option} {name}: {spec.name} has {there}{more}{hint}")
    return tuple(name for name in known if not wanted or name in wanted)


def beside(path: Path) -> str:
    """What there is where a file was looked for."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    there = sorted(each.name for each in path.parent.glob("*.py"))
    nearest = difflib.get_close_matches(path.name, there, n=3, cutoff=0.3) or there[:3]
    return f"{path.parent} has {', '.join(nearest)}" if nearest else f"{path.parent} has no Python file"
