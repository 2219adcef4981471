"""The GPUs, their state, the driver, and the ceilings that are kept of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from warpsmith.contracts.errors import Unavailable
from warpsmith.device.architecture import architecture_of
from warpsmith.device.gpus import Gpu, GpuList
from warpsmith.device.kept import kept_file, read_kept
from warpsmith.device.state import Driver, GpuState, state_of
from warpsmith.stages.doctor.finding import Finding

_GIB = 1 << 30


def gpu_findings(listed: GpuList) -> Iterator[Finding]:
    """A finding on each GPU and one on its clocks; why there are none, or not all of those in the machine."""
    if not listed.gpus:
        yield Finding(
            name="gpu",
            ok=False,
            found=listed.reason or "NVML lists no GPU",
            consequence="nothing can be measured here",
            remedy="an NVIDIA GPU with its driver, visible to this process; recorded runs replay without one",
        )
        return
    for gpu in listed.gpus:
        state = state_of(gpu.uuid)
        yield _gpu(gpu, state)
        yield _clocks(gpu, state)
    if listed.reason is not None:
        yield Finding(name="visible", ok=True, found=listed.reason)


def _gpu(gpu: Gpu, state: GpuState) -> Finding:
    capability = f"SM {gpu.capability[0]}.{gpu.capability[1]}"
    memory = "" if state.memory_bytes is None else f", {state.memory_bytes / _GIB:.0f} GiB"
    name = f"gpu {gpu.index}"
    try:
        architecture = architecture_of(gpu.capability)
    except Unavailable as error:
        found = f"{gpu.name}, {gpu.uuid}, {capability} (not known to this version){memory}; {_used(gpu)}"
        return Finding(name=name, ok=False, found=found, consequence=f"nothing is measured on it: {error.message}")
    found = f"{gpu.name}, {gpu.uuid}, {capability} ({architecture}){memory}; {_used(gpu)}"
    if not gpu.other_processes:
        return Finding(name=name, ok=True, found=found)
    return Finding(
        name=name,
        ok=True,
        found=found,
        consequence="figures may be off while they compute, and ceilings are not kept",
        remedy="end them, or choose another GPU with --device",
    )


def _used(gpu: Gpu) -> str:
    """By whom else."""
    if gpu.other_processes is None:
        return "NVML does not say whether other processes use it"
    if not gpu.other_processes:
        return "no other process uses it"
    return f"other processes use it: {', '.join(map(str, gpu.other_processes))}"


def _clocks(gpu: Gpu, state: GpuState) -> Finding:
    """As they are now: an idle GPU's clock is low, and that is no reason for concern."""
    parts = [
        None if state.sm_clock_mhz is None else f"SM at {state.sm_clock_mhz} MHz now",
        None if state.max_sm_clock_mhz is None else f"at most {state.max_sm_clock_mhz} MHz",
        None if state.throttled_by is None else f"slowed by {', '.join(state.throttled_by) or 'nothing'}",
        None if state.persistence is None else f"persistence mode {'on' if state.persistence else 'off'}",
        None if state.power_limit_w is None else f"power limit {state.power_limit_w:g} W{_of_default(state)}",
    ]
    found = ", ".join(part for part in parts if part) or "NVML does not tell"
    if not state.throttled_by:
        return Finding(name=f"clocks {gpu.index}", ok=True, found=found)
    return Finding(
        name=f"clocks {gpu.index}",
        ok=False,
        found=found,
        consequence="what is measured now is slower than the GPU can be; comparisons are interleaved and stay fair",
        remedy="find out by `nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE`, and measure when it has passed",
    )


def _of_default(state: GpuState) -> str:
    default = state.default_power_limit_w
    return "" if default is None or default == state.power_limit_w else f" (by default {default:g} W)"


def driver_finding(driver: Driver) -> Finding:
    if driver.version is None:
        return Finding(
            name="driver",
            ok=False,
            found="no NVIDIA driver that NVML finds",
            consequence="nothing can be measured here",
            remedy="install NVIDIA's driver; in a container, start it with the GPU (`--gpus all`)",
        )
    at_most = "" if driver.cuda is None else f", supports CUDA up to {driver.cuda[0]}.{driver.cuda[1]}"
    return Finding(name="driver", ok=True, found=f"{driver.version}{at_most}")


def ceiling_findings(gpus: Sequence[Gpu]) -> Iterator[Finding]:
    """What earlier runs measured of these GPUs. Deleting the file is how to have it measured anew."""
    for gpu in gpus:
        path, name = kept_file(gpu.uuid), f"ceilings {gpu.index}"
        if path is None:
            yield Finding(name=name, ok=True, found="not kept: there is no home folder", consequence=_MEASURED_EACH_RUN)
            continue
        kept = read_kept(path)
        if kept.facts is not None:
            today = kept.facts.environment
            found = (
                f"measured at {kept.facts.measured_at} with driver {today.driver}, torch {today.torch} and triton "
                f"{today.triton}; kept in {path}, delete it to have them measured anew"
            )
            yield Finding(name=name, ok=True, found=found)
        elif kept.reason is not None:
            yield Finding(
                name=name,
                ok=False,
                found=kept.reason,
                consequence=_MEASURED_EACH_RUN,
                remedy=f"rm {shlex.quote(str(path))}",
            )
        else:
            yield Finding(name=name, ok=True, found=f"not measured yet; a run will, and keep them in {path}")


_MEASURED_EACH_RUN = "a run measures them itself, which takes some seconds"
