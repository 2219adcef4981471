"""Raw samples as CSV: what every figure of a report can be computed from again.

One row a block, its samples in the order they were taken. Owns the columns; must not know where a file goes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping

from warpsmith.contracts.device import Origin
from warpsmith.contracts.measurement import Memory, Timing

COLUMNS = (
    *("comparison", "metric", "unit", "case", "mode", "contender", "process", "round"),
    *("method", "l2", "samples", "origin"),
)


def samples_csv(comparisons: Mapping[str, Iterable[Timing]], memories: Iterable[Memory], origin: Origin) -> str:
    """CSV text with a header and LF line ends. `comparisons` are timings by a name that tells them apart.

    Times are ms a call, as in `Block`; a peak of memory is in bytes, exact, and has one sample. A timing that stands
    under two names is written under the first. A contender that failed has no row.
    """
    rows: list[tuple[object, ...]] = []
    written: list[Timing] = []
    for name, timings in comparisons.items():
        for timing in timings:
            if not any(timing is earlier for earlier in written):
                written.append(timing)
                rows += _time_rows(name, timing)
    rows += [
        ("memory", "peak_memory", "bytes", m.case.name, m.mode.value, contender, "", "", "", "", peak)
        for m in memories
        for contender, peak in m.peak_bytes.items()
    ]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([*row, str(origin)] for row in rows)
    return text.getvalue()


def _time_rows(comparison: str, timing: Timing) -> list[tuple[object, ...]]:
    place = ("time", "ms", timing.case.name, timing.mode.value)
    return [
        (
            *(comparison, *place, block.contender, block.process, block.round),
            *(timing.method.value, timing.l2.value, " ".join(map(str, block.samples_ms))),
        )
        for block in timing.blocks
    ]
