"""Where a worker runs and writes: a scratch folder of its own, caches, devices. Must not know what a worker does."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from warpsmith.workspace.atomic import unwritable

_PREFIX = "warpsmith-worker-"
_LOCK = ".lock"

#: Environment variables that name a folder of a cache: torch's, Triton's and CUDA's.
_CACHE_VARIABLES = (
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "PYTORCH_KERNEL_CACHE_PATH",
    "TRITON_CACHE_DIR",
    "TRITON_HOME",
    "CUDA_CACHE_PATH",
    "XDG_CACHE_HOME",
)

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "dxg")


@dataclass(frozen=True)
class Scratch:
    """`work` is where a worker runs: it has a link to each entry of the repository's root, so that what is read by a
    relative path is there, and what is written by one stays here. `temporary` is for its temporary files.

    Whoever made it holds its lock: a folder whose lock nobody holds was left behind by a command that was killed.
    """

    folder: Path
    lock: int
    links: tuple[tuple[Path, str], ...]

    @classmethod
    def new(cls, root: Path) -> Scratch:
        """Raises Unavailable where it cannot be made."""
        _remove_abandoned()
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
            lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.rename(folder / "lock", folder / _LOCK)  # one that is seen is held
            links = tuple((folder / "work" / name, str(root / name)) for name in sorted(os.listdir(root)))
            scratch = cls(folder, lock, links)
            scratch.work.mkdir()
            scratch.temporary.mkdir()
            for link, entry in links:
                link.symlink_to(entry)
        except OSError as error:
            raise unwritable(Path(tempfile.gettempdir()) / f"{_PREFIX}*", error) from error
        return scratch

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    @property
    def is_whole(self) -> bool:
        """Whether all is as it was made: a worker can remove it, and put its own in its place."""
        try:
            return self.temporary.is_dir() and all(os.readlink(link) == entry for link, entry in self.links)
        except OSError:
            return False

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self.lock)


@functools.cache
def _remove_abandoned() -> None:
    """Once in a process: what commands that were killed left behind."""
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        with contextlib.suppress(OSError):  # held, or another user's
            descriptor = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(descriptor)


def cache_variables(environment: Mapping[str, str], root: Path) -> dict[str, str]:
    """Where a worker's caches are, absolute, and the same for one worker after another."""
    inductor = Path(tempfile.gettempdir()) / f"torchinductor_{_user()}"
    asked = {name: str(root / environment[name]) for name in _CACHE_VARIABLES if environment.get(name)}
    return {"TORCHINDUCTOR_CACHE_DIR": str(inductor), **asked}


def writable_places(environment: Mapping[str, str], root: Path) -> list[Path]:
    """What a worker with that environment needs to write to besides its scratch folder: caches, which are made where
    they are missing, and devices. None of them has the repository in it.
    """
    home = Path(environment.get("HOME") or "~").expanduser()
    variables = {name: Path(environment[name]) for name in _CACHE_VARIABLES if environment.get(name)}
    triton = variables.pop("TRITON_HOME", home) / ".triton"
    caches = {triton, home / ".nv", home / ".cache", *variables.values()}
    for cache in caches:
        with contextlib.suppress(OSError):  # a home that cannot be written to has no caches
            cache.mkdir(parents=True, exist_ok=True)
    devices = {*Path("/dev").glob("nvidia*"), *(Path("/dev") / name for name in _DEVICES)}
    # cuInit fails (304) where it cannot name its threads, in /proc/<pid>/task/<tid>/comm, of whichever process asks it
    names = {Path("/proc")} if Path("/dev/nvidiactl") in devices else set()
    mps = Path(environment.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps")
    ncu_sections = home / "Documents" / "NVIDIA Nsight Compute"
    there = (place for place in {*caches, *devices, *names, mps, ncu_sections} if place.exists())
    repository = root.resolve()
    return sorted(place for place in there if not repository.is_relative_to(place.resolve()))


@functools.cache
def make_devices() -> None:
    """CUDA has them made by a program that is set to run as root, which a confined process cannot start as such."""
    program = shutil.which("nvidia-modprobe")
    if program and Path("/dev/nvidiactl").exists() and not Path("/dev/nvidia-uvm").exists():
        subprocess.run([program, "-c", "0", "-u"], check=False, capture_output=True)


def _user() -> str:
    try:
        return getpass.getuser().replace("/", "_")
    except (KeyError, OSError):  # an id without a name, as in many containers
        return str(os.getuid())
