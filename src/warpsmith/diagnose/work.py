"""Owns which kernels do the work of a call: the source's own or a library's, and which launch has most of it.

Must not know classes of bottlenecks, nor what to say of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from warpsmith.contracts.launch import LaunchRecord
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.kernels import COPY, FILL, KernelTime, is_of, kernel_times, shares_by_kernel
from warpsmith.diagnose.places import Site, row_loops
from warpsmith.diagnose.roofline import bound_of, ridge_flops_per_byte

#: Chosen: where kernels that are not the source's take more than this of a call, its own do not say what limits it.
MOSTLY = 0.5
#: Chosen: a launch that takes less than this of a call's time does not speak for it.
SMALL = 0.1
#: What programs that multiply matrices walk over.
TILES = "their tiles"


@dataclass(frozen=True)
class LibraryPart:
    """The part of a call's device time that kernels take which are no jit function, fills and copies apart;
    `main` is the one of them that takes most.
    """

    share: float
    main: str

    @property
    def decides(self) -> bool:
        return self.share > MOSTLY


def times_of(site: Site) -> tuple[KernelTime, ...]:
    """Its kernels; those of its passes where the call itself was not seen. Empty where some of them are unknown."""
    seen = [kernel_times(each) for each in (site.of_passes or (site,))]
    return tuple(time for times in seen for time in times) if all(seen) else ()


def library_part(site: Site, evidence: Evidence) -> LibraryPart | None:
    """None where no such kernel was seen."""
    times = times_of(site)
    theirs = [t for t in times if t.name not in (FILL, COPY) and not is_of(t.name, evidence.jit_functions)]
    whole_us = math.fsum(t.us for t in times)
    if not theirs or not whole_us:
        return None
    return LibraryPart(math.fsum(t.us for t in theirs) / whole_us, next(iter(shares_by_kernel(theirs))))


def mostly_library(site: Site, evidence: Evidence) -> bool:
    part = library_part(site, evidence)
    return part is not None and part.decides


def speaks_for(record: LaunchRecord, site: Site, evidence: Evidence) -> bool:
    """Whether a launch's kernel takes enough of the call's time; where times are not known, whether it has enough of
    the call's warps, or walks over the rows with fewer.
    """
    times = times_of(site)
    if times:
        return _us(record, times) >= SMALL * math.fsum(t.us for t in times)
    if row_loops([record], evidence.audit, evidence.device.sm_count):
        return True
    return _warps(record) >= SMALL * max(map(_warps, site.launches))


def main_launch(site: Site) -> LaunchRecord | None:
    """The launch with most of the work: the longest where times are known, else the one with most programs."""
    times = times_of(site)
    return max(site.launches, key=lambda r: (_us(r, times), math.prod(r.grid)), default=None)


def loops_over_rows(site: Site, evidence: Evidence) -> bool:
    """Whether the grid of the main launch follows the SM count and its programs loop."""
    main = main_launch(site)
    return main is not None and bool(row_loops([main], evidence.audit, evidence.device.sm_count))


def multiplies_matrices(record: LaunchRecord) -> bool:
    """Whether its code has matrix instructions; False where the code was not read."""
    return bool(record.compiled.matrix_instructions)


def uses_matrix_units(site: Site, evidence: Evidence) -> bool:
    """Whether its operations are matrix products: by its code, or because a library's kernels do most of it.

    Where no code was read it is not known, and taken to be so: that ridge is the farther one.
    """
    read = [record for record in site.launches if record.compiled.matrix_instructions is not None]
    return not read or any(map(multiplies_matrices, read)) or mostly_library(site, evidence)


def ridge_of(site: Site, evidence: Evidence) -> float | None:
    """Operations a byte at which the units that it uses and the copy ceiling meet, None where one is not known."""
    by_matrix_units = uses_matrix_units(site, evidence)
    return ridge_flops_per_byte(site.cost, site.case.dtype, evidence.device, by_matrix_units=by_matrix_units)


def is_compute_heavier(site: Site, evidence: Evidence) -> bool:
    """Whether the operations, on the units that it uses, take longer at their ceiling than the bytes at theirs."""
    ridge = ridge_of(site, evidence)
    if ridge is None or not site.cost.bytes_moved:
        return bound_of(site.cost, site.case.dtype, evidence.device) == "matmul"
    return site.cost.flops / site.cost.bytes_moved > ridge


def what_it_walks(site: Site) -> str:
    """What the programs of its main launch loop over."""
    main = main_launch(site)
    return TILES if main is not None and multiplies_matrices(main) else "the rows"


def _warps(record: LaunchRecord) -> int:
    return math.prod(record.grid) * record.compiled.num_warps


def _us(record: LaunchRecord, times: tuple[KernelTime, ...]) -> float:
    own = frozenset({record.jit_function})
    return math.fsum(t.us for t in times if is_of(t.name, own))
