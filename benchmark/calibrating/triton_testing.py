"""Prints, in µs and as JSON, what triton.testing says of the kernel's forward pass, and the time of an empty kernel."""

from __future__ import annotations

import json
import sys
from statistics import median

import torch
import triton
from kernel import scale
from target import COLUMNS
from triton.testing import do_bench, do_bench_cudagraph


@triton.jit
def _empty_kernel(x_ptr):
    pass


def empty_node_us(x: torch.Tensor, nodes: int = 256) -> float:
    """Microseconds a node of a graph of empty kernels takes."""
    start, end = (torch.cuda.Event(enable_timing=True, external=True) for _ in range(2))
    _empty_kernel[(1,)](x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        start.record()
        for _ in range(nodes):
            _empty_kernel[(1,)](x)
        end.record()
    times = []
    for _ in range(50):
        graph.replay()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1000 / nodes)
    return median(times)


def empty_kernel_us(x: torch.Tensor) -> float:
    """Microseconds that the profiler gives an empty kernel."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(200):
            _empty_kernel[(1,)](x)
        torch.cuda.synchronize()
    spans = [e.time_range.end - e.time_range.start for e in profiler.events() if e.name == "_empty_kernel"]
    return median(spans)


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda")
    found: dict[str, dict[str, float]] = {}
    w = torch.randn(COLUMNS, device=device, dtype=torch.bfloat16)
    for rows in map(int, sys.argv[1:]):
        x = torch.randn(rows, COLUMNS, device=device, dtype=torch.bfloat16)

        def run(x: torch.Tensor = x) -> torch.Tensor:
            return scale(x, w)

        run()
        found[str(rows)] = {
            "do_bench": do_bench(run) * 1000,
            "do_bench_cudagraph": do_bench_cudagraph(run) * 1000,
        }
    found["empty"] = {"graph node": empty_node_us(w), "profiler": empty_kernel_us(w)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
