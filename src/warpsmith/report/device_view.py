"""The GPU's facts and ceilings, each with its source.

Pure; must not know how the page is laid out.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.profile import Profile
from warpsmith.report import quantities

#: What DeviceFacts says of a thing that a GPU which is not there has not.
NONE = "none"
MEASURED = "measured"

#: Fact, value, source.
Row = tuple[str, str, str]


def device_rows(profile: Profile) -> tuple[Row, ...]:
    return (*_facts(profile), *_ceilings(profile), *_software(profile))


def ceilings_origin(profile: Profile) -> str:
    """Where the ceilings come from: measured with this profile, kept from an earlier run, or a data sheet."""
    device = profile.device
    if device.ceilings_from != MEASURED:
        return device.ceilings_from
    if device.ceilings_measured_at is not None:
        return f"measured on {device.name}, {device.ceilings_measured_at[:10]}"
    return quantities.origin_told(profile.origin, device)


def _facts(profile: Profile) -> Iterator[Row]:
    device = profile.device
    source = "data sheet" if profile.is_predicted else "device properties"
    identity = device.name if device.uuid == NONE else f"{device.name}, `{device.uuid}`"
    capability = ".".join(map(str, device.capability))
    yield "GPU", f"{identity}{', not here' if profile.is_predicted else ''}", source
    yield "architecture", f"{device.architecture}, compute capability {capability}", source
    yield "SMs", str(device.sm_count), source
    yield "memory, L2", f"{quantities.size(device.memory_bytes)}, {quantities.size(device.l2_bytes)}", source
    yield "shared memory", _shared(device), source
    yield "registers, threads", f"{device.registers_per_sm}, {device.max_threads_per_sm} an SM", source
    if device.max_sm_clock_mhz is not None:
        yield "highest SM clock", f"{device.max_sm_clock_mhz} MHz", "data sheet" if profile.is_predicted else "NVML"


def _shared(device: DeviceFacts) -> str:
    an_sm, a_block = device.shared_memory_per_sm_bytes, device.shared_memory_per_block_bytes
    return f"{quantities.size(an_sm)} an SM, {quantities.size(a_block)} a block"


def _ceilings(profile: Profile) -> Iterator[Row]:
    device, origin = profile.device, ceilings_origin(profile)
    for ceiling in device.copy_ceilings:
        if device.ceilings_from == MEASURED:
            fact, kernel = f"copy ceiling at {quantities.size(ceiling.footprint_bytes)}", f" ({ceiling.kernel})"
        else:
            fact, kernel = "memory bandwidth", ""
        yield fact, f"{quantities.gb_s(ceiling.gb_s)}{kernel}", origin
    for dtype, tflops in device.matmul_tflops.items():
        yield f"matmul ceiling, {dtype.short}", f"{tflops:.0f} TFLOP/s", origin
    for operands, tflops in device.operand_tflops.items():
        yield f"matmul ceiling, {operands}", f"{tflops:.0f} TOP/s", origin


def _software(profile: Profile) -> Iterator[Row]:
    device, environment = profile.device, profile.device.environment
    named = {
        "driver": environment.driver,
        "CUDA": environment.cuda,
        "torch": environment.torch,
        "triton": environment.triton,
        "ptxas": environment.ptxas or "unknown",
    }
    versions = [f"{name} {version}" for name, version in named.items() if version != NONE]
    if environment.packages:
        versions.append(environment.packages_told)
    yield "software", ", ".join(versions), "its own version queries"
    if device.measured_at:
        yield profile.origin.kind.value, f"{device.measured_at}, harness {environment.harness}", "the run's own clock"
