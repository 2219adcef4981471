"""Whether what is installed fits together: the pairs that are known to be bad, as data, and why. Pure.

Only what a document says is judged; a newer version than the tables know is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpsmith.device.gpus import Gpu
from warpsmith.stages.doctor.finding import Finding
from warpsmith.stages.doctor.software import Software

#: The Triton versions that the code supports, inclusive minor versions.
SUPPORTED_TRITON = ((3, 6), (3, 9))

#: The Python versions that the code supports (pyproject.toml).
SUPPORTED_PYTHON = ((3, 10), (3, 13))

#: CUDA's major version -> the oldest driver that runs it (minor-version compatibility,
#: https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html).
OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}

#: Major capability -> the first CUDA that knows such GPUs (release notes of the toolkit: 11.8, 12.8, 13.0; Thor, which
#: is 11.0 since 13.0, was 10.1 before). 8.9 came with 9.0.
FIRST_CUDA = {9: (11, 8), 10: (12, 8), 11: (13, 0), 12: (12, 8)}

#: Since this CUDA, whatever is below this capability is no longer compiled for (release notes of CUDA 13.0).
VOLTA_DROPPED_SINCE, VOLTA_DROPPED_BELOW = (13, 0), (7, 5)

#: What Triton's README lists as supported.
FIRST_CAPABILITY_OF_TRITON = (8, 0)

#: The tag manylinux_2_28 that torch's wheels carry (seen on 2.13.0).
FIRST_GLIBC = (2, 28)

#: The capability from which on triton compiles with its second compiler (triton/backends/nvidia/compiler.py).
BLACKWELL = (10, 0)


def findings_of_pairs(software: Software, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    """A finding for each pair of which both are there. A name that begins with torch or triton: nothing runs so."""
    for found in (_triton(software), _pin(software), _torch_and_driver(software), _python(software), _libc(software)):
        if found is not None:
            yield found
    for gpu in gpus:
        for found in (_torch_and_gpu(software, gpu), _ptxas_and_gpu(software, gpu), _triton_and_gpu(software, gpu)):
            if found is not None:
                yield found


def _triton(software: Software) -> Finding | None:
    if software.triton is None:
        return None
    low, high = SUPPORTED_TRITON
    wanted = f"{_dotted(low)} to {_dotted(high)}"
    if low <= _numbers(software.triton)[:2] <= high:
        return None
    return Finding(
        name="triton + warpsmith",
        ok=False,
        found=f"triton {software.triton}",
        consequence=f"not supported; {wanted} are",
        remedy=f"pip install 'triton>={_dotted(low)},<{high[0]}.{high[1] + 1}'",
    )


def _pin(software: Software) -> Finding | None:
    """torch is built and tested with one triton; `torch.compile` calls into it."""
    pinned, found = software.pinned_triton, software.triton
    if pinned is None or found is None or pinned.endswith(".*"):
        return None
    told = f"torch {software.torch} asks for triton {pinned}, {found} is installed"
    if _public(pinned) == _public(found):
        return Finding(name="pinned triton", ok=True, found=told)
    return Finding(
        name="pinned triton",
        ok=False,
        found=told,
        consequence="`torch.compile`, a baseline of most targets, may fail or differ; kernels themselves run",
        remedy=f"pip install triton=={pinned}",
    )


def _torch_and_driver(software: Software) -> Finding | None:
    cuda, driver = software.torch_cuda, software.driver.version
    if cuda is None or driver is None or cuda[0] not in OLDEST_DRIVER:
        return None
    oldest = OLDEST_DRIVER[cuda[0]]
    told = f"CUDA {_dotted(cuda)} of torch needs driver {oldest} or newer, {driver} is here"
    if _numbers(driver)[:1] >= (oldest,):
        return Finding(name="torch + driver", ok=True, found=told)
    return Finding(
        name="torch + driver",
        ok=False,
        found=told,
        consequence="torch finds no GPU: nothing can be measured",
        remedy=f"install driver {oldest} or newer, or a torch for an older CUDA",
    )


def _python(software: Software) -> Finding | None:
    low, high = SUPPORTED_PYTHON
    if low <= software.python[:2] <= high:
        return None
    return Finding(
        name="python + warpsmith",
        ok=False,
        found=f"Python {_dotted(software.python)}",
        consequence=f"not supported; {_dotted(low)} to {_dotted(high)} are",
        remedy=f"make the environment with Python {_dotted(high)}",
    )


def _libc(software: Software) -> Finding | None:
    if software.system != "Linux":
        return Finding(
            name="system",
            ok=False,
            found=software.system or "unknown",
            consequence="Linux only: triton and the worker run nowhere else",
            remedy="run in Linux, or in WSL2 on Windows",
        )
    if software.glibc is None:
        return Finding(
            name="system",
            ok=False,
            found="Linux without glibc",
            consequence="the wheels of torch and triton are built against glibc",
            remedy="use a distribution with glibc, such as Debian or Ubuntu",
        )
    told = f"Linux, glibc {_dotted(software.glibc)}"
    if software.glibc >= FIRST_GLIBC:
        return Finding(name="system", ok=True, found=told)
    return Finding(
        name="system",
        ok=False,
        found=told,
        consequence=f"torch's wheels need glibc {_dotted(FIRST_GLIBC)}",
        remedy="use a newer distribution, or a container with one",
    )


def _torch_and_gpu(software: Software, gpu: Gpu) -> Finding | None:
    cuda, name = software.torch_cuda, f"torch + gpu {gpu.index}"
    if cuda is None:
        return None
    first = FIRST_CUDA.get(gpu.capability[0])
    told = f"CUDA {_dotted(cuda)} of torch, SM {_dotted(gpu.capability)} of {gpu.name}"
    if first is not None and cuda < first:
        return Finding(
            name=name,
            ok=False,
            found=told,
            consequence=f"only CUDA {_dotted(first)} and newer have code for it: no kernel of torch runs",
            remedy=f"install a torch for CUDA {_dotted(first)} or newer",
        )
    if cuda >= VOLTA_DROPPED_SINCE and gpu.capability < VOLTA_DROPPED_BELOW:
        return Finding(
            name=name,
            ok=False,
            found=told,
            consequence=f"CUDA {_dotted(VOLTA_DROPPED_SINCE)} dropped what is older than "
            f"{_dotted(VOLTA_DROPPED_BELOW)}: no kernel of torch runs",
            remedy="install a torch for CUDA 12",
        )
    return Finding(name=name, ok=True, found=told)


def _ptxas_and_gpu(software: Software, gpu: Gpu) -> Finding | None:
    """By ptxas's own list of what it compiles for."""
    wanted = "ptxas-blackwell" if gpu.capability >= BLACKWELL else "ptxas"
    ptxas = software.compilers.get(wanted)
    if ptxas is None or not ptxas.targets:
        return None
    target = 10 * gpu.capability[0] + gpu.capability[1]
    told = f"{wanted} {_dotted(ptxas.version)} of triton, sm_{target} of {gpu.name}"
    if target in ptxas.targets:
        return Finding(name=f"triton + gpu {gpu.index}", ok=True, found=told)
    newest = max(ptxas.targets)
    return Finding(
        name=f"triton + gpu {gpu.index}",
        ok=False,
        found=told,
        consequence=f"it does not compile for that GPU (its newest target is sm_{newest}): no kernel runs",
        remedy=f"install a triton with a ptxas that does, or set TRITON_{wanted.upper().replace('-', '_')}_PATH to one",
    )


def _triton_and_gpu(software: Software, gpu: Gpu) -> Finding | None:
    if software.triton is None or gpu.capability >= FIRST_CAPABILITY_OF_TRITON:
        return None
    return Finding(
        name=f"old gpu {gpu.index}",
        ok=False,
        found=f"SM {_dotted(gpu.capability)} of {gpu.name}",
        consequence=f"Triton supports {_dotted(FIRST_CAPABILITY_OF_TRITON)} and newer: some kernels do not compile",
    )


def _public(version: str) -> str:
    """Without the part that tells one build of a version from another."""
    return version.partition("+")[0]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() else 0 for part in _public(version).split("."))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
