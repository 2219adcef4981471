"""Runs a command for a caller, and ends the whole process group, itself included, once nobody holds its input open.

`python supervise.py COMMAND...`, started as the leader of a group: the command's output goes to standard error, how
it ended to standard output as one JSON line, {"status": 0} or {"errno": 2}. Closing the input is the caller's way to
end what is left of the group, and a killed caller does so too. Must not import anything that starts slowly.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence


def main(command: Sequence[str]) -> None:
    """Never returns: what ends it is the end of its input."""
    threading.Thread(target=_run, args=(command, os.dup(1)), daemon=True).start()
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def _run(command: Sequence[str], answers: int) -> None:
    try:
        told = {"status": subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=2, stderr=2).wait()}
    except OSError as error:
        told = {"errno": error.errno or 0}
    os.write(answers, json.dumps(told).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
