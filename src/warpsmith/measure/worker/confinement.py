"""What a process of a worker may not do: write outside a few places, or signal what is not its own.

By Landlock (https://docs.kernel.org/userspace-api/landlock.html), which takes these rights from a process for good, and
from all that it starts. Reading, executing and the network stay free. Nothing is held here against chmod, chown and
touch, which Landlock does not know; against what is changed in a cache that workers share; against what root changes
below /proc, to which CUDA has to write; or against a kernel without Landlock: there a tree's changes are seen and put
back (tree.py), and a variant can kill the command that asked; the next one resumes.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import functools
import json
import os
import resource
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

#: Names what a worker may write to, as a JSON list of paths. Where it is not set, a worker confines itself to nothing.
WRITABLE = "WARPSMITH_WORKER_WRITABLE"

#: The first version that has all that is needed (the kernel's documentation): renames between folders, which Triton's
#: cache makes, came with 2, and without 3 any file can be truncated.
NEEDED_ABI = 3

#: The first version that can keep signals in.
SIGNALS_ABI = 6

#: prctl's number for it (linux/prctl.h).
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Confinement:
    """What this kernel offers: the version of Landlock's interface, or why there is none to be used."""

    abi: int
    reason: str | None = None

    @property
    def keeps_signals_in(self) -> bool:
        return self.reason is None and self.abi >= SIGNALS_ABI


@functools.cache
def confinement() -> Confinement:
    """Tried once, in a thread of its own: what Landlock takes from a thread it takes from no other."""
    try:
        import landlockpy
    except ImportError:
        return Confinement(0, "the Python package landlockpy is not installed")
    try:
        abi = landlockpy.abi_version()
    except OSError as error:
        return Confinement(0, f"Landlock does not answer: {error.strerror}")
    if abi < NEEDED_ABI:
        found = f"this kernel has version {abi} of it" if abi else "this kernel does not offer it"
        return Confinement(abi, f"Landlock {NEEDED_ABI} or newer is needed, {found}")
    refused: list[OSError] = []

    def attempt() -> None:
        try:
            confine(())
        except OSError as error:
            refused.append(error)

    thread = Thread(target=attempt)
    thread.start()
    thread.join()
    return Confinement(abi, f"Landlock refuses: {refused[0].strerror}" if refused else None)


def confine(writable: Iterable[Path]) -> None:
    """From now on this thread and all that it starts write to these files, and in and below these folders, alone.

    Raises OSError where the kernel refuses, or one of them is not there.
    """
    from landlockpy import AccessFS, AccessNet, Ruleset, Scope

    to_files = AccessFS.WRITE_FILE | AccessFS.TRUNCATE
    in_folders = AccessFS.REMOVE_DIR | AccessFS.REMOVE_FILE | AccessFS.REFER | AccessFS.MAKE_DIR | AccessFS.MAKE_REG
    in_folders |= AccessFS.MAKE_SYM | AccessFS.MAKE_SOCK | AccessFS.MAKE_FIFO | AccessFS.MAKE_CHAR | AccessFS.MAKE_BLOCK
    with Ruleset(handled_fs=to_files | in_folders, handled_net=AccessNet.NONE, scoped=Scope.SIGNAL) as rules:
        for place in writable:
            rules.allow_path(place, to_files | in_folders if place.is_dir() else to_files)
        rules.restrict()


def isolate_this_process() -> None:
    """What a worker does to itself before anything foreign runs in it. Ends it where it cannot be confined as asked.

    Where memory runs out the kernel takes the worker, not who asked it; what it starts stays below it, so that it can
    be found; a crash says where it was and leaves no core.
    """
    faulthandler.enable(all_threads=False)
    with contextlib.suppress(OSError):  # a system without it chooses by size, and the worker is the largest
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    with contextlib.suppress(OSError, ValueError):  # a core is large and helps nobody: no more than that
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    writable = os.environ.get(WRITABLE)
    if writable is None:
        return
    try:
        confine(map(Path, json.loads(writable)))
    except OSError as error:
        sys.exit(f"the worker cannot be confined by Landlock: {error}")
