"""A worker process that does what the target's path names: what a variant can do by mistake, or to spite. No torch.

Where it lives to tell, the answer's GPU is named by what came of it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from warpsmith.contracts.device import Environment
from warpsmith.contracts.measurement import HostTime
from warpsmith.measure.worker.protocol import Identify, MeasureHostTime
from warpsmith.measure.worker.serve import serve

#: What each part of the output of a flood is.
LINE = b"x" * 1023 + b"\n"


def crash(_: Path) -> str:
    ctypes.string_at(0)
    return "alive"


def abort(_: Path) -> str:
    os.abort()


def hang(_: Path) -> str:
    while True:
        pass


def hoard(_: Path) -> str:
    held = []
    while True:
        held.append(b"x" * (1 << 24))  # touched, so that it is really taken


def ask_for_too_much(_: Path) -> str:
    return str(len(bytearray(1 << 60)))


def flood(_: Path) -> str:
    sys.stdout.buffer.write(b"the first line\n")
    for _number in range(32 << 10):
        sys.stdout.buffer.write(LINE)
    sys.stdout.buffer.write(b"the last line\n")
    sys.stdout.flush()
    return "printed"


def kill_the_parent(_: Path) -> str:
    os.kill(os.getppid(), signal.SIGKILL)
    return "killed"


def kill_the_parents_group(_: Path) -> str:
    os.killpg(os.getpgid(os.getppid()), signal.SIGKILL)
    return "killed"


def overwrite(root: Path) -> str:
    (root / "kernel.py").write_text("y = 2\n")
    return "written"


def overwrite_unseen(root: Path) -> str:
    """The same size, and the same time of modification."""
    file = root / "kernel.py"
    status = file.stat()
    file.write_text("y = 2\n")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    return "written"


def truncate(root: Path) -> str:
    os.truncate(root / "kernel.py", 0)
    return "truncated"


def delete(root: Path) -> str:
    (root / "kernel.py").unlink()
    return "deleted"


def delete_all(root: Path) -> str:
    shutil.rmtree(root / "package", ignore_errors=False)
    return "deleted"


def replace(root: Path) -> str:
    """A file by a folder."""
    (root / "kernel.py").unlink()
    (root / "kernel.py").mkdir()
    (root / "kernel.py" / "other.py").write_text("")
    return "replaced"


def add(root: Path) -> str:
    (root / "package" / "new.py").write_text("z = 3\n")
    return "added"


def damage_and_crash(root: Path) -> str:
    delete(root)
    return crash(root)


def write_beside(_: Path) -> str:
    """By a relative path, where temporary files go, and below a home's caches."""
    Path("result.txt").write_text("1")
    (Path(os.environ["TMPDIR"]) / "result.txt").write_text("1")
    (Path.home() / ".triton" / "cache").mkdir(exist_ok=True)
    return f"{Path('kernel.py').read_text()!r}"


def remove_its_own(_: Path) -> str:
    shutil.rmtree(os.getcwd(), ignore_errors=True)
    shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
    return "removed"


def leave_a_daemon(_: Path) -> str:
    """In a session of its own, its parent gone, its ends of all pipes open."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        daemon = os.fork()
        if daemon == 0:
            while True:
                time.sleep(1)
        os.write(writes, str(daemon).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return os.read(reads, 100).decode()


def leave_a_daemon_and_crash(root: Path) -> str:
    (Path(os.environ["TRITON_CACHE_DIR"]) / "daemon").write_text(leave_a_daemon(root))
    return crash(root)


def answer_nonsense(_: Path) -> str:
    for descriptor in range(3, 32):
        try:
            os.write(descriptor, b"nonsense\n")
        except OSError:
            continue
    return "answered"


def name_itself(_: Path) -> str:
    return str(os.getpid())


def measure(question: MeasureHostTime) -> HostTime:
    wish: Callable[[Path], str] = globals()[question.target.path]
    found = wish(Path(question.target.root))
    return HostTime(case=question.case, mode=question.mode, samples_us={}, failures={"found": found})


def identify(question: Identify) -> Environment:
    raise AssertionError(f"nobody asks {question.kind}")


if __name__ == "__main__":
    serve(lambda: {"identify": identify, "host_time": measure})
