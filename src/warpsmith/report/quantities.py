"""How figures are written: one form a kind of figure, the same on every page, table and plot.

Pure functions from numbers to text. None is always the dash; why there is no figure stands beside it on the page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from warpsmith.contracts.device import DeviceFacts, Origin, OriginKind
from warpsmith.contracts.measurement import TimingMethod
from warpsmith.contracts.verdict import Interval

MISSING = "–"

_METHODS = {
    TimingMethod.GRAPH.value: "CUDA-graph replay",
    TimingMethod.PROFILER.value: "the profiler's kernel durations",
    TimingMethod.EVENTS.value: "CUDA events",
}

#: What to mind with the figures of any table of times.
WITHIN_A_ROW = (
    "Compare within a row: absolute times move by some per cent with what is timed beside and where it lies in memory."
)
HOST_TIME_DRIFTS = "The level of host time drifts from process to process: only figures of one comparison compare."

_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def time(milliseconds: float | None) -> str:
    """As "73.12 µs" below a millisecond, "1.234 ms" from there, "12.35 s" from ten: four digits or a few more."""
    if milliseconds is None:
        return MISSING
    scale, unit, digits = _time_unit(milliseconds)
    return f"{milliseconds * scale:.{digits}f} {unit}"


def microseconds(value: float | None) -> str:
    """Microseconds as `time` writes them."""
    return MISSING if value is None else time(value / 1000)


def microseconds_range(low: float, high: float) -> str:
    """As "20.1 to 33.0 µs", both in the unit of the higher, or "2.10 µs" where the ends are alike."""
    scale, unit, digits = _time_unit(high / 1000)
    ends = dict.fromkeys(f"{end / 1000 * scale:.{digits}f}" for end in (low, high))
    return f"{' to '.join(ends)} {unit}"


def time_interval(interval: Interval | None) -> str:
    """As "73.12 µs [72.98, 73.30]", all three in the unit of the estimate."""
    if interval is None:
        return MISSING
    scale, unit, digits = _time_unit(interval.value)
    value, low, high = (f"{x * scale:.{digits}f}" for x in (interval.value, interval.low, interval.high))
    return f"{value} {unit} [{low}, {high}]"


def _time_unit(milliseconds: float) -> tuple[float, str, int]:
    if milliseconds >= 10_000:
        return 1e-3, "s", 2
    if milliseconds >= 1:
        return 1.0, "ms", 3 - sum(milliseconds >= bound for bound in (10, 100, 1000))
    return 1000.0, "µs", 2 if milliseconds < 0.1 else 1


def ratio(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3f}×"


def ratio_interval(interval: Interval | None) -> str:
    """As "1.263× [1.258, 1.268]"."""
    if interval is None:
        return MISSING
    return f"{interval.value:.3f}× [{interval.low:.3f}, {interval.high:.3f}]"


def predicted_range(low: float, high: float) -> str:
    """As "1.10× to 1.40×", or "1.02×" where the ends are alike; a prediction has no third decimal."""
    ends = dict.fromkeys((f"{low:.2f}×", f"{high:.2f}×"))
    return " to ".join(ends)


def percent(share: float | None) -> str:
    """A share of 1 as "84.2%"."""
    return MISSING if share is None else f"{100 * share:.1f}%"


def gb_s(value: float | None) -> str:
    """10⁹ bytes a second."""
    return MISSING if value is None else f"{value:.0f} GB/s"


def size(size_bytes: float | None) -> str:
    """Bytes in the largest binary unit that is not a fraction: "64.0 MiB", "512 B"."""
    if size_bytes is None:
        return MISSING
    exponent = 0
    while abs(size_bytes) >= 1024 and exponent < len(_BINARY_UNITS) - 1:
        size_bytes /= 1024
        exponent += 1
    return f"{size_bytes:.0f} B" if exponent == 0 else f"{size_bytes:.1f} {_BINARY_UNITS[exponent]}"


def measured(value: float, unit: str) -> str:
    """A guardrail's figure in its unit; bytes and durations in units that fit their size."""
    if unit == "bytes":
        return size(value)
    scale_to_ms = {"ms": 1.0, "us": 1e-3}.get(unit)
    return f"{value:.4g} {unit}".strip() if scale_to_ms is None else time(value * scale_to_ms)


def grid(sizes: Sequence[int]) -> str:
    """As "8192" or "64×128": without the dimensions of 1 that end it, as a launch may give one, two or three."""
    kept = list(sizes)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "×".join(map(str, kept))


def case_label(name: str) -> str:
    """A case's name for people: "8192x4096-bf16-layout=row_strided" as "8192×4096 bf16 layout=row_strided"."""
    sizes, _, rest = name.partition("-")
    return " ".join([re.sub(r"(?<=\d)x(?=\d)", "×", sizes), *rest.split("-")]).strip()


def method(name: str) -> str:
    """A timing method in words; a name that is not one of ours as it is."""
    return _METHODS.get(name, name)


def count(number: int, noun: str) -> str:
    """As "1 line" or "3 lines"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def words(identifier: str) -> str:
    """An identifier as text: "grid_too_small" as "grid too small"."""
    return identifier.replace("_", " ")


def cell(text: object) -> str:
    """Text that stays in one cell of a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|") or MISSING


def fenced(text: str, language: str = "") -> str:
    """A Markdown code block whose fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def origin_told(origin: Origin, device: DeviceFacts | None = None) -> str:
    """The origin with its GPU and date: "measured on NVIDIA H200, 2026-11-29". The device fills in what it lacks."""
    gpu = origin.gpu or (device.name if device else None)
    if origin.kind is OriginKind.PREDICTED or gpu is None:
        return f"{origin.kind.value} for {gpu}" if gpu else origin.kind.value
    date = origin.date or (device.measured_at[:10] if device else None)
    return f"{origin.kind.value} on {gpu}" + (f", {date}" if date else "")
