"""What was measured of the library, case by case, beside the best of the others. Needs no GPU."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from comparing.aims import Aim, aims_of
from comparing.page import page
from comparing.plot import save_plot
from warpsmith.contracts.bench import BenchResult, BenchRow
from warpsmith.contracts.case import Mode
from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.contracts.verdict import Interval
from warpsmith.workspace.documents import read_document


@dataclass(frozen=True)
class Standing:
    """One pass at one case. `times_us` is contender -> median device time, the library's own among them.

    `speed` is the time of `rival` over the library's: of the one that the aim is beside, or the fastest other. Both are
    None where it could not be timed. `peaks_bytes` are above the inputs, of those whose memory was measured.
    """

    kernel: str
    case: str
    mode: Mode
    times_us: Mapping[str, float]
    share_of_ceiling: float | None
    aim: Aim
    rival: str | None
    speed: Interval | None
    peaks_bytes: Mapping[str, int]

    @property
    def falls_short(self) -> bool:
        return self.speed is not None and self.speed.value < self.aim.least


def standings(result: BenchResult) -> list[Standing]:
    """Every pass of one kernel that has an aim and could be timed, in the order of its target."""
    places: dict[tuple[str, Mode], list[BenchRow]] = {}
    for row in result.rows:
        if row.time_ms is not None and row.mode in aims_of(result.kernel):
            places.setdefault((row.case, row.mode), []).append(row)
    return [
        _standing(result.kernel, case, mode, rows)
        for (case, mode), rows in places.items()
        if any(row.contender == ORIGINAL for row in rows)
    ]


def _standing(kernel: str, case: str, mode: Mode, rows: Sequence[BenchRow]) -> Standing:
    own = next(row for row in rows if row.contender == ORIGINAL)
    aim = aims_of(kernel)[mode]
    others = {row.contender: row.speedup for row in rows if row.speedup is not None}
    rivals = {name: speedup for name, speedup in others.items() if aim.beside in (name, None)}
    rival = max(rivals, key=lambda name: rivals[name].value, default=None)
    return Standing(
        kernel=kernel,
        case=case,
        mode=mode,
        times_us={row.contender: 1e3 * row.time_ms.value for row in rows if row.time_ms is not None},
        share_of_ceiling=own.share_of_ceiling,
        aim=aim,
        rival=rival,
        speed=_inverse(rivals[rival]) if rival is not None else None,
        peaks_bytes={row.contender: row.peak_bytes for row in rows if row.peak_bytes is not None},
    )


def _inverse(speedup: Interval) -> Interval:
    """Of another over the library's own: the library's over the other."""
    return Interval(value=1 / speedup.value, low=1 / speedup.high, high=1 / speedup.low)


def write_summary(directory: Path) -> bool:
    """Writes README.md, library.csv and library.png, and packs the raw samples. False where nothing was measured.

    Raises UsageError where it was measured on GPUs of several models, or with several versions of what stands beside
    it. Several GPUs of one model will do: a row is a whole comparison on one.
    """
    results = [read_document(path, BenchResult) for path in sorted(directory.glob("*/bench.json"))]
    found = [standing for result in results for standing in standings(result)]
    if not found:
        return False
    first = results[0].device.environment.model_dump(mode="json")
    for result in results[1:]:
        if changes := result.device.environment.changes_since(first):
            raise UsageError(
                f"{result.kernel} was not measured as {results[0].kernel} was: {'; '.join(changes)}",
                next_command=f"python benchmark/library.py measure {result.kernel} --into ANOTHER-DIRECTORY",
            )
    (directory / "README.md").write_text(page(results, found), encoding="utf-8")
    _table(found).to_csv(directory / "library.csv", index=False, float_format="%.4f")
    save_plot(results[0], found, directory / "library.png")
    _pack(directory.glob("*/measurements.jsonl"))
    return True


def _table(found: Iterable[Standing]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "kernel": each.kernel,
            "case": each.case,
            "mode": each.mode.value,
            "contender": "warpsmith" if name == ORIGINAL else name,
            "device_us": time_us,
        }
        for each in found
        for name, time_us in each.times_us.items()
    )


def _pack(paths: Iterable[Path]) -> None:
    """The same bytes for the same samples."""
    for path in paths:
        path.with_name("measurements.jsonl.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
