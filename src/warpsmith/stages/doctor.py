"""What is here to work with, and what each missing piece costs. Asks NVML and the path, not torch."""

from __future__ import annotations

import shutil
import sys
from importlib import metadata
from pathlib import Path

from warpsmith.contracts.base import Contract
from warpsmith.contracts.errors import Unavailable, WarpsmithError
from warpsmith.device.architecture import architecture_of
from warpsmith.device.builds import other_backend
from warpsmith.device.gpus import Gpu, gpus
from warpsmith.measure.worker.confinement import confinement
from warpsmith.project.config import load_config
from warpsmith.project.discover import find_root, list_targets
from warpsmith.project.recordings import RecordedRun

#: The Triton versions that the code supports, inclusive minor versions.
SUPPORTED_TRITON = ((3, 6), (3, 9))


class Finding(Contract):
    """One thing that was looked for. `consequence` says what does not work without it."""

    name: str
    ok: bool
    found: str
    consequence: str | None = None


def examine(start: Path) -> tuple[Finding, ...]:
    """Every finding, in the order a person would look; the recordings are those of the project at `start`."""
    return (
        *_gpus(),
        _torch(),
        _triton(),
        _tool("ncu", "no hardware counters; the profile goes on with durations and compiled code"),
        _tool("compute-sanitizer", "no memory checker"),
        _workers(),
        Finding(name="python", ok=True, found=".".join(str(part) for part in sys.version_info[:3])),
        *_recordings(start),
    )


def _workers() -> Finding:
    """What keeps a variant from harm to the repository and to this command."""
    found = confinement()
    if found.reason is not None:
        return Finding(
            name="workers",
            ok=False,
            found=f"not confined: {found.reason}",
            consequence="what a variant does to files is seen and put back, not prevented; it can end the command",
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


def _gpus() -> list[Finding]:
    listed = gpus()
    if not listed.gpus:
        reason = listed.reason or "NVML lists no GPU"
        return [Finding(name="gpu", ok=False, found=reason, consequence="nothing can be measured here")]
    return [
        Finding(
            name=f"gpu {gpu.index}",
            ok=True,
            found=f"{gpu.name}, SM {gpu.capability[0]}.{gpu.capability[1]} ({_architecture(gpu.capability)})"
            f"; {_used(gpu)}",
        )
        for gpu in listed.gpus
    ]


def _used(gpu: Gpu) -> str:
    """By whom else."""
    if gpu.other_processes is None:
        return "NVML does not say whether other processes use it"
    if not gpu.other_processes:
        return "no other process uses it"
    return f"other processes use it: {', '.join(map(str, gpu.other_processes))}"


def _package(name: str, consequence: str) -> Finding:
    try:
        return Finding(name=name, ok=True, found=metadata.version(name))
    except metadata.PackageNotFoundError:
        return Finding(name=name, ok=False, found="not installed", consequence=consequence)


def _torch() -> Finding:
    finding = _package("torch", "nothing can be measured")
    if (backend := other_backend()) is not None:
        return finding.model_copy(
            update={"ok": False, "consequence": f"built for {backend}; NVIDIA only: nothing can be measured"}
        )
    if not finding.found.endswith("+cpu"):
        return finding
    return finding.model_copy(update={"ok": False, "consequence": "a build without CUDA: it finds no GPU"})


def _triton() -> Finding:
    finding = _package("triton", "nothing can be compiled or measured")
    if not finding.ok:
        return finding
    low, high = SUPPORTED_TRITON
    version = tuple(int(part) if part.isdecimal() else 0 for part in finding.found.split(".")[:2])
    if low <= version <= high:
        return finding
    wanted = f"{low[0]}.{low[1]} to {high[0]}.{high[1]}"
    return finding.model_copy(update={"ok": False, "consequence": f"not supported; {wanted} are"})


def _tool(name: str, consequence: str) -> Finding:
    path = shutil.which(name)
    return Finding(
        name=name, ok=path is not None, found=path or "not on the path", consequence=None if path else consequence
    )


def _architecture(capability: tuple[int, int]) -> str:
    try:
        return architecture_of(capability)
    except Unavailable:
        return "not known to this version"
