"""What a GPU can do at best, measured on it: copies at several footprints, large matmuls by dtype.

Each is the best of several kernels or sizes. Whoever changes what is measured raises METHOD in device/kept.py.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-untyped-defs

from __future__ import annotations

import contextlib
import importlib.metadata
import statistics
from collections.abc import Callable, Sequence
from datetime import datetime, timezone

import torch

from warpsmith import __version__
from warpsmith.contracts.case import DType
from warpsmith.contracts.device import CopyCeiling, DeviceFacts, Environment
from warpsmith.device.architecture import architecture_of, limits_of
from warpsmith.device.clocks import max_sm_clock_mhz
from warpsmith.measure.timing.copies import copies
from warpsmith.measure.timing.rotation import L2_TURNOVER
from warpsmith.measure.worker.streams import graph_stream

MIB = 1 << 20
#: Bytes read plus bytes written by one call: from well within L2 to what a large layer moves.
FOOTPRINTS_BYTES = (4 * MIB, 16 * MIB, 32 * MIB, 64 * MIB, 192 * MIB, 384 * MIB, 1024 * MIB)
#: Chosen: the largest take some ms, and beyond them power limits the clock.
MATMUL_SIZES = {
    DType.BFLOAT16: (4096, 6144, 8192),
    DType.FLOAT16: (4096, 6144, 8192),
    DType.FLOAT32: (4096, 6144),
}
OPERAND_SIZES = (4096, 8192)
#: Chosen: calls in a graph at least, over which what its replay takes to start is spread.
LEAST_COPIES, LEAST_MATMULS = 8, 4
WARM_UP_REPLAYS, REPLAYS = 3, 15
#: Distributions whose kernels a target's baselines commonly call: another version is another figure.
KERNEL_PACKAGES = (
    "cut-cross-entropy",
    "flash-attn",
    "flashinfer-python",
    "liger-kernel",
    "quack-kernels",
    "transformer-engine",
)


def inspect_device(device: torch.device) -> DeviceFacts:
    """Facts and ceilings of one GPU; takes some seconds. Raises Unavailable for an architecture that is not known."""
    properties = torch.cuda.get_device_properties(device)
    capability = (properties.major, properties.minor)
    limits = limits_of(capability)
    environment = read_environment(device)
    return DeviceFacts(
        name=properties.name,
        uuid=environment.gpu_uuid,
        capability=capability,
        architecture=architecture_of(capability),
        sm_count=properties.multi_processor_count,
        memory_bytes=properties.total_memory,
        l2_bytes=properties.L2_cache_size,
        shared_memory_per_sm_bytes=limits.shared_memory_per_sm_bytes,
        shared_memory_per_block_bytes=limits.shared_memory_per_block_bytes,
        registers_per_sm=limits.registers_per_sm,
        max_threads_per_sm=limits.max_threads_per_sm,
        max_sm_clock_mhz=max_sm_clock_mhz(environment.gpu_uuid),
        copy_ceilings=tuple(_copy_ceiling(footprint, device) for footprint in FOOTPRINTS_BYTES),
        matmul_tflops={dtype: _matmul_tflops(dtype, sizes, device) for dtype, sizes in MATMUL_SIZES.items()},
        environment=environment,
        operand_tflops=_operand_tflops(device),
        measured_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def read_environment(device: torch.device) -> Environment:
    """What every answer of this process depends on."""
    properties = torch.cuda.get_device_properties(device)
    uuid = f"GPU-{properties.uuid}"
    return Environment(
        gpu_name=properties.name,
        gpu_uuid=uuid,
        driver=_driver(),
        cuda=str(torch.version.cuda),
        torch=torch.__version__,
        triton=importlib.metadata.version("triton"),
        ptxas=_ptxas_version(),
        fp_fusion=True,
        harness=__version__,
        packages=installed_versions(KERNEL_PACKAGES),
    )


def installed_versions(names: Sequence[str]) -> dict[str, str]:
    """The version of each distribution that is installed."""
    versions: dict[str, str] = {}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _driver() -> str:
    import pynvml

    try:
        pynvml.nvmlInit()
        version = pynvml.nvmlSystemGetDriverVersion()
    except pynvml.NVMLError as error:
        return f"unknown ({error})"
    return version.decode() if isinstance(version, bytes) else str(version)


def _ptxas_version() -> str | None:
    try:
        from triton.backends.nvidia.compiler import get_ptxas

        return str(get_ptxas(90).version) if get_ptxas.__code__.co_argcount else str(get_ptxas().version)
    except (ImportError, AttributeError, TypeError, RuntimeError):
        return None


def _copy_ceiling(footprint_bytes: int, device: torch.device) -> CopyCeiling:
    """The best of several copy kernels over buffers that turn L2 over."""
    elements = footprint_bytes // 2 // 2
    l2_bytes = torch.cuda.get_device_properties(device).L2_cache_size
    count = max(1, -(-L2_TURNOVER * l2_bytes // (footprint_bytes // 2)))
    sources = [torch.randn(elements, device=device, dtype=torch.bfloat16) for _ in range(count)]
    targets = [torch.empty_like(source) for source in sources]
    found = ((_graph_ms(copy, count, LEAST_COPIES), name) for name, copy in copies(sources, targets))
    time_ms, name = min(found)
    return CopyCeiling(footprint_bytes=footprint_bytes, gb_s=round(footprint_bytes / time_ms / 1e6, 1), kernel=name)


def _matmul_tflops(dtype: DType, sizes: Sequence[int], device: torch.device) -> float:
    """The best of several square matmuls by torch, 2·n³ operations each, in float32 without TF32."""
    previous = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        return max(_square_matmul_tflops(dtype, size, device) for size in sizes)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = previous


def _square_matmul_tflops(dtype: DType, size: int, device: torch.device) -> float:
    """On random values: on zeros it would draw less power and run faster than on what models compute."""
    left, right = (
        torch.randn(size, size, device=device, dtype=torch.float32).to(getattr(torch, dtype.value)) for _ in range(2)
    )
    return round(2 * size**3 / _graph_ms(lambda _: left @ right, 1, LEAST_MATMULS) / 1e9, 1)


def _operand_tflops(device: torch.device) -> dict[str, float]:
    """TOP/s of products of operands of one byte, by torch's name; those that torch has no product for here are left
    out.
    """
    found: dict[str, float] = {}
    for operands, product in OPERAND_PRODUCTS.items():
        with contextlib.suppress(RuntimeError, ValueError, AttributeError, NotImplementedError):
            found[operands] = max(product(size, device) for size in OPERAND_SIZES)
    return found


def _int8_tops(size: int, device: torch.device) -> float:
    left, right = (torch.randint(-128, 128, (size, size), device=device, dtype=torch.int8) for _ in range(2))
    return _tops(size, lambda _: torch._int_mm(left, right.t()))


def _float8_tops(size: int, device: torch.device) -> float:
    """The faster of the two ways to sum: what is held against it may sum in either."""
    left, right = (torch.randn(size, size, device=device).to(torch.float8_e4m3fn) for _ in range(2))
    scale = torch.ones((), device=device)

    def product(fast: bool) -> Callable[[int], object]:
        return lambda _: torch._scaled_mm(
            left, right.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16, use_fast_accum=fast
        )

    return max(_tops(size, product(fast)) for fast in (True, False))


#: torch has one product for the two kinds of float8, at the same rate.
OPERAND_PRODUCTS: dict[str, Callable[[int, torch.device], float]] = {
    "int8": _int8_tops,
    "float8_e4m3fn": _float8_tops,
}


def _tops(size: int, product: Callable[[int], object]) -> float:
    """The first call says whether torch can, before a graph is captured."""
    product(0)
    return round(2 * size**3 / _graph_ms(product, 1, LEAST_MATMULS) / 1e9, 1)


def _graph_ms(kernel: Callable[[int], object], count: int, least_calls: int) -> float:
    """Median ms a call, over replays of a graph that calls the kernel on every buffer between two events."""
    start, end = (torch.cuda.Event(enable_timing=True, external=True) for _ in range(2))
    stream = graph_stream(torch.device("cuda", torch.cuda.current_device()))
    stream.wait_stream(torch.cuda.current_stream())
    rounds = max(1, least_calls // count)
    with torch.cuda.stream(stream):
        for _ in range(2):
            kernel(0)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            start.record()
            for index in list(range(count)) * rounds:
                kernel(index)
            end.record()
        times_ms = []
        for _ in range(WARM_UP_REPLAYS + REPLAYS):
            graph.replay()
            end.synchronize()
            times_ms.append(start.elapsed_time(end))
    return float(statistics.median(times_ms[WARM_UP_REPLAYS:])) / (count * rounds)
