"""The software that measuring depends on, read from its files and metadata: torch and triton are not imported."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from warpsmith.device.builds import cuda_of_torch, other_backend
from warpsmith.device.state import Driver
from warpsmith.stages.doctor.finding import Finding

#: A compiler of triton's, and the variable that names another in its place (triton/knobs.py).
_COMPILERS = {"ptxas": "TRITON_PTXAS_PATH", "ptxas-blackwell": "TRITON_PTXAS_BLACKWELL_PATH"}

#: Chosen: ptxas tells its version in some ms.
_TIME_LIMIT_S = 20.0

_PINNED = re.compile(r"^(?:pytorch-)?triton\s*\(?==\s*(?P<version>[^\s;,)]+)")


@dataclass(frozen=True)
class Ptxas:
    """`targets` are the SM versions that it compiles for, such as 90 for 9.0, as it lists them itself."""

    path: str
    version: tuple[int, int]
    targets: frozenset[int]


@dataclass(frozen=True)
class Software:
    """Versions as their packages tell them; None for what is not there or does not tell.

    `pinned_triton` is the version that torch's own metadata asks for. `compilers` are triton's, by name.
    """

    driver: Driver = field(default_factory=Driver)
    torch: str | None = None
    torch_cuda: tuple[int, int] | None = None
    other_backend: str | None = None
    triton: str | None = None
    pinned_triton: str | None = None
    compilers: Mapping[str, Ptxas] = field(default_factory=dict)
    python: tuple[int, int, int] = (sys.version_info.major, sys.version_info.minor, sys.version_info.micro)
    system: str = platform.system()
    glibc: tuple[int, int] | None = None


def installed(driver: Driver) -> Software:
    """What is installed for this Python."""
    return Software(
        driver=driver,
        torch=_version("torch"),
        torch_cuda=cuda_of_torch(),
        other_backend=other_backend(),
        triton=_version("triton"),
        pinned_triton=_pinned_triton(),
        compilers=_compilers(),
        glibc=_glibc(),
    )


def software_findings(software: Software) -> Iterator[Finding]:
    """torch, triton, its compilers and Python, each by itself. Whether they fit together is asked elsewhere."""
    yield _torch(software)
    if software.triton is None:
        yield Finding(
            name="triton",
            ok=False,
            found="not installed",
            consequence="nothing can be compiled or measured",
            remedy="pip install triton   (on Linux)",
        )
    else:
        yield Finding(name="triton", ok=True, found=software.triton)
        yield _ptxas(software)
    yield Finding(name="python", ok=True, found=".".join(map(str, software.python)))


def _torch(software: Software) -> Finding:
    if software.torch is None:
        return Finding(
            name="torch", ok=False, found="not installed", consequence="nothing can be measured", remedy=_CUDA_BUILD
        )
    if software.other_backend is not None:
        consequence = f"built for {software.other_backend}; NVIDIA only: nothing can be measured"
        return Finding(name="torch", ok=False, found=software.torch, consequence=consequence, remedy=_CUDA_BUILD)
    if software.torch_cuda is None:
        return Finding(
            name="torch",
            ok=False,
            found=software.torch,
            consequence="a build without CUDA: it finds no GPU",
            remedy=_CUDA_BUILD,
        )
    return Finding(name="torch", ok=True, found=f"{software.torch}, built for CUDA {_dotted(software.torch_cuda)}")


_CUDA_BUILD = "pip install --force-reinstall torch   (a build for CUDA)"


def _ptxas(software: Software) -> Finding:
    if not software.compilers:
        return Finding(
            name="ptxas",
            ok=False,
            found="none that runs, in triton's package or by TRITON_PTXAS_PATH",
            consequence="no kernel can be compiled",
            remedy="pip install --force-reinstall triton",
        )
    found = ", ".join(
        f"{name} {_dotted(each.version)}{_elsewhere(name, each)}" for name, each in software.compilers.items()
    )
    return Finding(name="ptxas", ok=True, found=found)


def _elsewhere(name: str, ptxas: Ptxas) -> str:
    variable = _COMPILERS[name]
    return f" ({ptxas.path}, by {variable})" if os.environ.get(variable) == ptxas.path else ""


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _pinned_triton() -> str | None:
    try:
        requirements = metadata.requires("torch") or []
    except metadata.PackageNotFoundError:
        return None
    found = (_PINNED.match(requirement) for requirement in requirements)
    return next((match["version"] for match in found if match), None)


def _compilers() -> dict[str, Ptxas]:
    """Those that run."""
    package = importlib.util.find_spec("triton")
    folder = Path(package.origin).parent / "backends" / "nvidia" / "bin" if package and package.origin else None
    compilers: dict[str, Ptxas] = {}
    for name, variable in _COMPILERS.items():
        path = os.environ.get(variable) or (str(folder / name) if folder else "")
        if path and (ptxas := _asked(path)) is not None:
            compilers[name] = ptxas
    return compilers


def _asked(path: str) -> Ptxas | None:
    told = []
    for option in ("--version", "--help"):
        try:
            ended = subprocess.run([path, option], capture_output=True, text=True, check=False, timeout=_TIME_LIMIT_S)
        except (OSError, subprocess.TimeoutExpired):
            return None
        told.append(ended.stdout)
    release = re.search(r"release (\d+)\.(\d+)", told[0])
    if release is None:
        return None
    targets = frozenset(int(number) for number in re.findall(r"'sm_(\d+)[a-z]?'", told[1]))
    return Ptxas(path=path, version=(int(release[1]), int(release[2])), targets=targets)


def _glibc() -> tuple[int, int] | None:
    name, version = platform.libc_ver()
    found = re.match(r"(\d+)\.(\d+)", version) if name == "glibc" else None
    return (int(found[1]), int(found[2])) if found else None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
