"""For which maker's GPUs the torch that is installed was built, read from its files. Must not import it."""

from __future__ import annotations

import importlib.util
import re
from importlib import metadata
from pathlib import Path

from warpsmith.contracts.errors import Unavailable

#: The local part of a wheel's version, or the name in torch/version.py, that tells another backend.
_OTHERS = {"rocm": "AMD (ROCm)", "hip": "AMD (ROCm)", "xpu": "Intel (XPU)"}
_SET = r"^{name}\s*(?::[^=\n]*)?=\s*['\"]"


def other_backend() -> str | None:
    """The backend that torch was built for instead of CUDA, such as "AMD (ROCm)"; None for CUDA, CPU and no torch."""
    try:
        local = metadata.version("torch").partition("+")[2].lower()
    except metadata.PackageNotFoundError:
        return None
    if local.startswith(("cu", "cpu")):
        return None
    written = _version_file()
    for name, backend in _OTHERS.items():
        if local.startswith(name) or re.search(_SET.format(name=name), written, re.MULTILINE):
            return backend
    return None


def cuda_of_torch() -> tuple[int, int] | None:
    """The CUDA that torch was built for, such as (13, 0); None for a build without it and for no torch."""
    found = re.search(_SET.format(name="cuda") + r"(\d+)\.(\d+)", _version_file(), re.MULTILINE)
    return (int(found[1]), int(found[2])) if found else None


def require_nvidia() -> None:
    """Raises Unavailable where torch was built for another maker's GPUs."""
    if (backend := other_backend()) is not None:
        raise Unavailable(
            f"NVIDIA only: torch {metadata.version('torch')} is built for {backend}, and warpsmith measures on CUDA",
            next_command="pip install --force-reinstall torch   (a build for CUDA)",
        )


def _version_file() -> str:
    """torch/version.py, which a build from source writes too; "" where there is none."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return ""
    try:
        return (Path(found.origin).parent / "version.py").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
