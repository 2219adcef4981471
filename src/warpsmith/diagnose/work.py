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


def speaks_for(record: LaunchRecord, site: Site) -> bool:
    """Whether a launch's kernel takes enough of the call's time; where times are not known, any does."""
    times = times_of(site)
    return not times or _us(record, times) >= SMALL * math.fsum(t.us for t in times)


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


def what_it_walks(site: Site) -> str:
    """What the programs of its main launch loop over."""
    main = main_launch(site)
    return TILES if main is not None and multiplies_matrices(main) else "the rows"


def _us(record: LaunchRecord, times: tuple[KernelTime, ...]) -> float:
    own = frozenset({record.jit_function})
    return math.fsum(t.us for t in times if is_of(t.name, own))
