"""Owns where the device time of a call goes: its kernels by name, those of torch beside the target's own.

Times are the profiler's or ncu's and count only against each other. Must not know what is wrong with a kernel.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.diagnose.counted import DURATION
from warpsmith.diagnose.places import Site
from warpsmith.measure.counters.kernel_names import short_name

#: What torch's kernels are known by: parts of their GPU functions' names (ATen/native/cuda), and the profiler's words.
FILL, COPY = "fill", "copy"
_KNOWN = (
    (FILL, ("FillFunctor", "Memset", "memset")),
    (COPY, ("direct_copy_kernel", "Memcpy", "memcpy", "CatArrayBatchedCopy")),
    ("cast", ("bfloat16_copy_kernel", "float16_copy_kernel", "float8_copy_kernel")),
    ("sum", ("sum_functor", "func_wrapper_t")),
    ("reduction", ("reduce_kernel",)),
)
#: What a kernel takes that does next to nothing. Chosen: half of the 2 us that ncu reads of a fill of 1 MB on an H200.
LEAST_US = 1.0


@dataclass(frozen=True)
class KernelTime:
    """One launch of a call. `name` is short: a jit function's own, or what a kernel of torch does."""

    name: str
    us: float


def kernel_times(site: Site) -> tuple[KernelTime, ...]:
    """The call's launches in order, by the profiler where it was asked, else by ncu; empty where neither told."""
    if site.durations:
        return tuple(KernelTime(role(k.name), statistics.median(k.samples_us)) for k in site.durations)
    if any(DURATION not in row.metrics for row in site.rows):
        return ()
    return tuple(KernelTime(role(row.kernel), row.metrics[DURATION] / 1e3) for row in site.rows)


def source_of_times(site: Site) -> str:
    """Where the times of `kernel_times` come from."""
    if site.durations:
        return f"torch's profiler, {site.case.name}"
    return f"ncu {site.ncu_version or ''}".strip() + f", {site.case.name}"


def role(gpu_function: str) -> str:
    """What a kernel of torch is there for: "fill", "copy", "cast", "sum" or "reduction"; any other's own short name."""
    for name, parts in _KNOWN:
        if any(part in gpu_function for part in parts):
            return name
    return short_name(gpu_function)


def shares_by_kernel(times: Sequence[KernelTime]) -> dict[str, float]:
    """Name -> its share of the sum, the largest first."""
    total = math.fsum(t.us for t in times)
    names = dict.fromkeys(t.name for t in times)
    shares = {name: math.fsum(t.us for t in times if t.name == name) / total for name in names} if total else {}
    return dict(sorted(shares.items(), key=lambda pair: -pair[1]))


def scaled(times: Sequence[KernelTime], by: float) -> tuple[KernelTime, ...]:
    """The same kernels, each so much longer, or shorter but for what any kernel takes."""
    return tuple(KernelTime(t.name, max(t.us * by, min(t.us, LEAST_US))) for t in times)


def overhead_us(times: Sequence[KernelTime]) -> float:
    """Time of fills and copies: work that a kernel could do by itself, or that is not needed."""
    return math.fsum(t.us for t in times if t.name in (FILL, COPY))


def share_of_own(times: Sequence[KernelTime], jit_functions: frozenset[str]) -> float:
    """The part of the time, fills and copies apart, that these jit functions take; 1 where it is not known.

    A specialization's GPU function may go by the jit function's name with a suffix.
    """
    own = [t for t in times if t.name not in (FILL, COPY)]
    of_them = math.fsum(t.us for t in own if is_of(t.name, jit_functions))
    return of_them / math.fsum(t.us for t in own) if of_them > 0 else 1.0


def is_of(kernel: str, jit_functions: frozenset[str]) -> bool:
    """Whether a GPU function is one of these jit functions."""
    return any(kernel == name or kernel.startswith(f"{name}_") for name in jit_functions)
