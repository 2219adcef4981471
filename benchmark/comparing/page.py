"""The comparison as a page that GitHub shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpsmith.contracts.bench import BenchResult
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.report import quantities
from warpsmith.report.rows import provider_order

if TYPE_CHECKING:
    from comparing.summary import Standing


def page(results: Sequence[BenchResult], found: Sequence[Standing]) -> str:
    device = results[0].device
    environment = device.environment
    versions = ", ".join(f"{name} {version}" for name, version in sorted(environment.packages.items()))
    sections = "\n\n".join(_section(result, [s for s in found if s.kernel == result.kernel]) for result in results)
    return f"""# The kernel library beside others

Device time on {device.name} (driver {environment.driver}, CUDA {environment.cuda}, torch {environment.torch}, Triton
{environment.triton}{", " + versions if versions else ""}), by
`python benchmark/library.py measure`; written by `summarize`. L2 is cold, all of a row were timed together, and each
interval is over rounds with fresh inputs, addresses, code and captures. *Speed* is the time of the fastest other over
ours: above 1 is faster. Forward passes aim at 0.97 at least, backward passes at 0.85.

![speed beside the fastest other, by kernel, case and pass](library.png)

{_shortfalls(found)}

{sections}
"""


def _shortfalls(found: Sequence[Standing]) -> str:
    compared = [each for each in found if each.speed is not None]
    short = [each for each in compared if each.falls_short]
    head = f"{len(compared) - len(short)} of {len(compared)} passes reach their aim."
    if not short:
        return head
    lines = [
        f"- {each.kernel}, {quantities.case_label(each.case)}, {each.mode.value}: {each.speed.value:.2f} of {each.best}"
        for each in short
        if each.speed is not None
    ]
    return "\n".join([f"{head} These fall short, and are the optimizer's work:", "", *lines])


def _section(result: BenchResult, found: Sequence[Standing]) -> str:
    others = sorted({name for each in found for name in each.times_us if name != ORIGINAL}, key=provider_order)
    head = ["case", "pass", "warpsmith", "of the ceiling", *others, "speed"]
    rule = ["---"] * len(head)
    head_line = f"## {result.kernel}, {result.device.measured_at[:10]}"
    lines = [head_line, "", *map(_row, (head, rule, *(_cells(each, others) for each in found)))]
    lines += [f"\nNot timed: {name}, {why}." for name, why in result.excluded.items()]
    return "\n".join(lines)


def _cells(each: Standing, others: Sequence[str]) -> list[str]:
    times = [
        quantities.time(each.times_us[name] / 1e3) if name in each.times_us else quantities.MISSING for name in others
    ]
    speed = quantities.MISSING if each.speed is None else quantities.ratio_interval(each.speed)
    return [
        quantities.case_label(each.case),
        each.mode.value,
        f"**{quantities.time(each.times_us[ORIGINAL] / 1e3)}**",
        quantities.percent(each.share_of_ceiling),
        *times,
        f"**{speed}**, short of {each.bar}" if each.falls_short else speed,
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
