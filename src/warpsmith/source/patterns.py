"""How the functions of a source access memory and compute: one pattern of a kind for each function."""

from __future__ import annotations

from warpsmith.contracts.audit import Pattern
from warpsmith.source.call_paths import CallPaths
from warpsmith.source.handed_on import intermediates
from warpsmith.source.kernel_patterns import kernel_patterns
from warpsmith.source.launches import Reading
from warpsmith.source.online import online
from warpsmith.source.pass_patterns import recomputed, saved_for_backward, shared_memory


def patterns(reading: Reading, paths: CallPaths) -> tuple[Pattern, ...]:
    """Everything found: kernel by kernel in source order, then what concerns several functions."""
    found: list[Pattern] = []
    for jit in reading.jits.values():
        found += [*kernel_patterns(reading, jit), *online(jit)]
    return (
        *found,
        *recomputed(reading, paths),
        *shared_memory(reading),
        *intermediates(reading),
        *saved_for_backward(paths),
    )
