"""What is here to work with, whether it fits together, and what each missing piece costs.

Asks NVML, the path and files; what needs torch runs in a process of its own, where there is a GPU. Never raises: what
cannot be examined is a finding too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path

from warpsmith.contracts.errors import WarpsmithError
from warpsmith.device.gpus import choose, gpus
from warpsmith.device.state import driver
from warpsmith.measure.worker.confinement import confinement
from warpsmith.project.config import load_config
from warpsmith.project.discover import find_root, list_targets
from warpsmith.project.recordings import RecordedRun
from warpsmith.stages.doctor.finding import Finding
from warpsmith.stages.doctor.machine import ceiling_findings, driver_finding, gpu_findings
from warpsmith.stages.doctor.pairs import findings_of_pairs
from warpsmith.stages.doctor.software import installed, software_findings
from warpsmith.stages.doctor.trial import trial_findings

__all__ = ["Finding", "examine"]


def examine(start: Path) -> tuple[Finding, ...]:
    """Every finding, in the order a person would look; the recordings are those of the project at `start`."""
    listed, software = functools.cache(gpus), functools.cache(lambda: installed(driver()))
    sections: dict[str, Callable[[], Iterable[Finding]]] = {
        "gpu": lambda: gpu_findings(listed()),
        "driver": lambda: [driver_finding(software().driver)],
        "software": lambda: software_findings(software()),
        "versions": lambda: findings_of_pairs(software(), listed().gpus),
        "tools": lambda: trial_findings(choose("auto", listed())),
        "ceilings": lambda: ceiling_findings(listed().gpus),
        "workers": lambda: [_workers()],
        "recordings": lambda: _recordings(start),
    }
    return tuple(finding for name, section in sections.items() for finding in _examined(name, section))


def _examined(name: str, section: Callable[[], Iterable[Finding]]) -> list[Finding]:
    found: list[Finding] = []
    try:
        for finding in section():
            found.append(finding)
    except Exception as error:  # whatever a broken installation raises is a finding, and must not hide the others
        told = f"could not be examined: {type(error).__name__}: {error}"
        found.append(Finding(name=name, ok=False, found=told))
    return found


def _workers() -> Finding:
    """What keeps a variant from harm to the repository and to this command."""
    found = confinement()
    if found.reason is not None:
        return Finding(
            name="workers",
            ok=False,
            found=f"not confined: {found.reason}",
            consequence="what a variant does to files is seen and put back, not prevented; it can end the command",
            remedy="run on Linux 6.2 or newer, with Landlock on",
        )
    told = f"confined by Landlock (ABI {found.abi})"
    if found.keeps_signals_in:
        return Finding(name="workers", ok=True, found=told)
    return Finding(
        name="workers", ok=True, found=told, consequence="a variant can end the command; the same command goes on"
    )


def _recordings(start: Path) -> list[Finding]:
    """Which kernels can be replayed where there is no GPU. None outside a project."""
    try:
        root = find_root(start)
        targets = list_targets(root, load_config(root))
    except WarpsmithError:
        return []
    return [found for kernel, path in targets.items() if (found := _recording(RecordedRun.of(path, kernel)))]


def _recording(recorded: RecordedRun) -> Finding | None:
    name = f"recording {recorded.kernel}"
    try:
        recording = recorded.read()
    except WarpsmithError as error:
        return Finding(name=name, ok=False, found=error.message, consequence="it cannot be replayed")
    if recording is None:
        return None
    return Finding(name=name, ok=True, found=f"{recording.origin}; `warpsmith demo {recorded.kernel}` replays it")
