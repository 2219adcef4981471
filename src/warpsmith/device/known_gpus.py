"""GPUs that code can be compiled for without having one. Facts of data sheets only; asks no GPU.

SM counts and memory are those of NVIDIA's data sheets and white papers (B300, GB200, GH200 and H20: as CUDA reports
them), L2 sizes as CUDA reports them. Peaks stand in peaks.py.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping

from warpsmith.contracts.device import DeviceFacts, TargetGpu
from warpsmith.contracts.errors import UsageError
from warpsmith.device.peaks import PEAKS

_GIB = 1024**3
_MIB = 1024**2


def _gpu(name: str, capability: tuple[int, int], sm_count: int, memory_gib: int, l2_mib: int) -> TargetGpu:
    peaks = PEAKS[name]
    return TargetGpu(
        name=name,
        capability=capability,
        sm_count=sm_count,
        memory_bytes=memory_gib * _GIB,
        l2_bytes=l2_mib * _MIB,
        memory_gb_s=peaks.memory_gb_s,
        matmul_tflops=peaks.matmul_tflops,
    )


#: By the name that CUDA gives them. Where a model comes in several forms, the first one goes by the short name.
_KNOWN = (
    _gpu("Tesla V100-SXM2-32GB", (7, 0), 80, 32, 6),
    _gpu("Tesla T4", (7, 5), 40, 16, 4),
    _gpu("NVIDIA A100-SXM4-80GB", (8, 0), 108, 80, 40),
    _gpu("NVIDIA A100-SXM4-40GB", (8, 0), 108, 40, 40),
    _gpu("NVIDIA A30", (8, 0), 56, 24, 24),
    _gpu("NVIDIA A10", (8, 6), 72, 24, 6),
    _gpu("NVIDIA A40", (8, 6), 84, 48, 6),
    _gpu("NVIDIA RTX A6000", (8, 6), 84, 48, 6),
    _gpu("NVIDIA GeForce RTX 3090", (8, 6), 82, 24, 6),
    _gpu("NVIDIA L4", (8, 9), 58, 24, 48),
    _gpu("NVIDIA L40", (8, 9), 142, 48, 96),
    _gpu("NVIDIA L40S", (8, 9), 142, 48, 96),
    _gpu("NVIDIA GeForce RTX 4090", (8, 9), 128, 24, 72),
    _gpu("NVIDIA GeForce RTX 4080", (8, 9), 76, 16, 64),
    _gpu("NVIDIA H100 80GB HBM3", (9, 0), 132, 80, 50),
    _gpu("NVIDIA H100 PCIe", (9, 0), 114, 80, 50),
    _gpu("NVIDIA H200", (9, 0), 132, 141, 60),
    _gpu("NVIDIA GH200 480GB", (9, 0), 132, 96, 60),
    _gpu("NVIDIA H20", (9, 0), 78, 96, 60),
    _gpu("NVIDIA B200", (10, 0), 148, 180, 126),
    _gpu("NVIDIA GB200", (10, 0), 152, 186, 126),
    _gpu("NVIDIA B300 SXM6 AC", (10, 3), 148, 268, 126),
    _gpu("NVIDIA GeForce RTX 5090", (12, 0), 170, 32, 96),
    _gpu("NVIDIA GeForce RTX 5080", (12, 0), 84, 16, 64),
    _gpu("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", (12, 0), 188, 96, 128),
)

#: The GPU that most people have in mind who name an architecture. Chosen: of Hopper the H100, of which there are more
#: than of the H200; of Ada and Blackwell what kernels are written for, on a desk and in a data centre.
_BY_ARCHITECTURE = {
    "volta": "Tesla V100-SXM2-32GB",
    "turing": "Tesla T4",
    "ampere": "NVIDIA A100-SXM4-80GB",
    "ada": "NVIDIA GeForce RTX 4090",
    "adalovelace": "NVIDIA GeForce RTX 4090",
    "hopper": "NVIDIA H100 80GB HBM3",
    "blackwell": "NVIDIA B200",
}

#: Words of a name that nobody says.
_UNSAID = frozenset(
    {
        "nvidia", "tesla", "geforce", "hbm3", "sxm", "sxm2", "sxm4", "sxm5", "sxm6", "ac", "32gb", "80gb", "480gb",
        "workstation", "edition", "generation",
    }
)  # fmt: skip


#: How names of GPUs begin that are not NVIDIA's, as `_said` has them.
_OF_OTHERS = re.compile(r"(amd|radeon|instinct|mi\d|rx\d|gfx\d|intel|arc|gaudi|max1|apple|tpu|ascend)")


def known_gpu(name: str, kernel: str | None = None) -> TargetGpu:
    """The GPU of that name, in any case, with or without the maker: "H200", "nvidia h200", "RTX 4090", "H100 PCIe".

    An architecture's name, such as "hopper", is the best known GPU of it. Raises UsageError for another name, with all
    that are known, the nearest first, and the command for `kernel` that asks for that one.
    """
    wanted = _said(name)
    by_short_name: dict[str, TargetGpu] = {}
    for gpu in _KNOWN:
        by_short_name.setdefault(_said(gpu.name), gpu)
    if wanted in _BY_ARCHITECTURE:
        return by_short_name[_said(_BY_ARCHITECTURE[wanted])]
    if wanted in by_short_name:
        return by_short_name[wanted]
    raise _unknown(name, by_short_name, kernel)


def _unknown(name: str, by_short_name: Mapping[str, TargetGpu], kernel: str | None) -> UsageError:
    families = {family: family for family in _BY_ARCHITECTURE}
    sayable = {**families, **{short: _short(gpu.name) for short, gpu in by_short_name.items()}}
    is_of_others = _OF_OTHERS.match(_said(name)) is not None
    near = [] if is_of_others else difflib.get_close_matches(_said(name), sayable, n=3, cutoff=0.5)
    near = [sayable[each] for each in near]
    what = (
        f"{name!r} is no GPU of NVIDIA, and no other is compiled for" if is_of_others else f"no GPU {name!r} is known"
    )
    told = f"nearest: {', '.join(near)}; " if near else ""
    gpus = ", ".join(_short(gpu.name) for gpu in by_short_name.values())
    means = ", ".join(
        f"{family} ({_short(full)})" for family, full in _BY_ARCHITECTURE.items() if family != "adalovelace"
    )
    return UsageError(
        f"{what}; {told}known by name: {gpus}; by family: {means}",
        next_command=kernel
        and shlex.join(["warpsmith", "profile", kernel, "--target-gpu", near[0] if near else "hopper"]),
    )


def _short(full: str) -> str:
    """What people say for it, with what tells it from others of its model."""
    return " ".join(word for word in full.replace("-", " ").split() if word.casefold() not in _UNSAID)


def target_gpu_of(device: DeviceFacts) -> TargetGpu:
    """A GPU that was measured, as one to compile for."""
    return TargetGpu(
        name=device.name,
        capability=device.capability,
        sm_count=device.sm_count,
        memory_bytes=device.memory_bytes,
        l2_bytes=device.l2_bytes,
    )


def _said(name: str) -> str:
    words = name.casefold().replace("-", " ").replace("_", " ").split()
    return "".join(word for word in words if word not in _UNSAID)
