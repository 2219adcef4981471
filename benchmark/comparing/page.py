"""The comparison as a page that GitHub shows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from comparing.aims import AIMS, ROWS
from warpsmith.contracts.bench import BenchResult
from warpsmith.contracts.case import Mode
from warpsmith.contracts.measurement import ORIGINAL
from warpsmith.report import quantities
from warpsmith.report.rows import provider_order

if TYPE_CHECKING:
    from comparing.summary import Standing


def page(results: Sequence[BenchResult], found: Sequence[Standing]) -> str:
    device = results[0].device
    environment = device.environment
    versions = ", ".join(f"{name} {version}" for name, version in sorted(environment.packages.items()))
    gpus = len({result.device.environment.gpu_uuid for result in results})
    of_one_model = f" ({gpus} of them, each kernel on one)" if gpus > 1 else ""
    sections = "\n\n".join(_section(result, [s for s in found if s.kernel == result.kernel]) for result in results)
    return f"""# The kernel library beside others

Device time on {device.name}{of_one_model} (driver {environment.driver}, CUDA {environment.cuda}, torch
{environment.torch}, Triton {environment.triton}{", " + versions if versions else ""}), by
`python benchmark/library.py measure`; written by `summarize`. L2 is cold, all of a row were timed together, and each
interval is over rounds with fresh inputs, addresses, code and captures. *Speed* is the time of the fastest other over
ours, or of the one that the column names: above 1 is faster. *Of the ceiling* is beside what the best copy or cuBLAS's
product in the case's dtype reached on the same GPU, run on end: "above" are products that run by themselves at higher
clocks, and those of int8 and fp8, of which no ceiling was measured.
{_aims({result.kernel for result in results})}

![speed beside the fastest other, or the one that is named, by kernel, case and pass](library.png)

{_shortfalls(found)}

{sections}
"""


def _aims(kernels: Collection[str]) -> str:
    rest = (
        f"Forward passes aim at {ROWS[Mode.FORWARD].least:g} at least, backward passes at {ROWS[Mode.BACKWARD].least:g}"
    )
    others = [
        f"{kernel} {mode.value} at {aim}"
        for kernel, aims in AIMS.items()
        for mode, aim in aims.items()
        if kernel in kernels
    ]
    return f"{rest}; {', '.join(others)}." if others else f"{rest}."


def _shortfalls(found: Sequence[Standing]) -> str:
    compared = [each for each in found if each.speed is not None]
    short = [each for each in compared if each.falls_short]
    head = f"{len(compared) - len(short)} of {len(compared)} passes reach their aim."
    if not short:
        return head
    lines = [f"- {_pass(each)}: {each.speed.value:.2f} of {each.rival}" for each in short if each.speed is not None]
    return "\n".join([f"{head} These fall short, and are the optimizer's work:", "", *lines])


def _pass(each: Standing) -> str:
    return f"{each.kernel}, {quantities.case_label(each.case)}, {each.mode.value}"


def _section(result: BenchResult, found: Sequence[Standing]) -> str:
    others = sorted({name for each in found for name in each.times_us if name != ORIGINAL}, key=provider_order)
    head = ["case", "pass", "warpsmith", "of the ceiling", *others, _speed_heading(found)]
    rule = ["---"] * len(head)
    head_line = f"## {result.kernel}, {result.device.measured_at[:10]}"
    lines = [head_line, "", *map(_row, (head, rule, *(_cells(each, others) for each in found)))]
    lines += _peaks(found)
    lines += [f"\nNot timed: {name}, {why}." for name, why in result.excluded.items()]
    return "\n".join(lines)


def _speed_heading(found: Sequence[Standing]) -> str:
    beside = {each.aim.beside for each in found} - {None}
    return f"speed beside {', '.join(map(str, beside))}" if beside else "speed"


def _peaks(found: Sequence[Standing]) -> list[str]:
    """A table, where memory was measured."""
    contenders = sorted({name for each in found for name in each.peaks_bytes}, key=provider_order)
    if not contenders:
        return []
    head = ["peak memory above the inputs", *("warpsmith" if name == ORIGINAL else name for name in contenders)]
    rows = (
        [quantities.case_label(each.case), *(quantities.size(each.peaks_bytes.get(name)) for name in contenders)]
        for each in found
    )
    note = "Gradients that are returned count."
    if "liger" in contenders:
        note += " Liger writes that of its logits over them, which others do only if asked."
    return ["", *map(_row, (head, ["---"] * len(head), *rows)), "", note]


def _cells(each: Standing, others: Sequence[str]) -> list[str]:
    times = [
        quantities.time(each.times_us[name] / 1e3) if name in each.times_us else quantities.MISSING for name in others
    ]
    speed = quantities.MISSING if each.speed is None else quantities.ratio_interval(each.speed)
    return [
        quantities.case_label(each.case),
        each.mode.value,
        f"**{quantities.time(each.times_us[ORIGINAL] / 1e3)}**",
        "above" if (each.share_of_ceiling or 0) > 1 else quantities.percent(each.share_of_ceiling),
        *times,
        f"**{speed}**, short of {each.aim.least:g}" if each.falls_short else speed,
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
