"""From raw timings and memory to one row a provider, case and mode: what tables, plots and pages show."""

from __future__ import annotations

from collections.abc import Iterable

from warpsmith.contracts.base import Contract
from warpsmith.contracts.case import Mode, Role
from warpsmith.contracts.measurement import OPTIMIZED, ORIGINAL, Memory, Timing, TimingMethod
from warpsmith.contracts.verdict import Interval
from warpsmith.verdict.statistics import median_ms


class ProviderRow(Contract):
    """One provider at one case and mode: median time in ms with its 95% interval, peak memory in bytes.

    `time_ms` is None exactly where `unavailable` says why. `rounds` counts the interleaved rounds behind it. `apart` is
    whether it was timed in another comparison than the one that the original's row is of.
    """

    provider: str
    case: str
    role: Role
    mode: Mode
    time_ms: Interval | None
    peak_bytes: int | None = None
    method: TimingMethod
    rounds: int
    samples: int
    apart: bool = False
    unavailable: str | None = None


def provider_rows(timings: Iterable[Timing], memories: Iterable[Memory] = ()) -> tuple[ProviderRow, ...]:
    """The rows in the order measured. Of a provider timed in several comparisons of a case, the first counts."""
    peaks = {(m.case.name, m.mode, name): peak for m in memories for name, peak in m.peak_bytes.items()}
    rows: dict[tuple[str, Mode, str], ProviderRow] = {}
    begun: set[tuple[str, Mode]] = set()
    for timing in timings:
        case_and_mode = (timing.case.name, timing.mode)
        for provider in contenders_of(timing):
            key = (*case_and_mode, provider)
            rows.setdefault(key, _row(timing, provider, peaks.get(key), apart=case_and_mode in begun))
        begun.add(case_and_mode)
    return tuple(rows.values())


def contenders_of(timing: Timing) -> tuple[str, ...]:
    """Every contender of a timing, the original first, then by name, those that failed among them."""
    names = {block.contender for block in timing.blocks} | set(timing.failures)
    return tuple(sorted(names, key=provider_order))


def provider_order(name: str) -> tuple[int, str]:
    """The original, then the optimized, then the rest by name."""
    return {ORIGINAL: 0, OPTIMIZED: 1}.get(name, 2), name


def samples_ms(timing: Timing, contender: str) -> tuple[float, ...]:
    """All raw samples of one contender, in the order they were taken."""
    return tuple(sample for block in timing.blocks if block.contender == contender for sample in block.samples_ms)


def _row(timing: Timing, provider: str, peak_bytes: int | None, *, apart: bool) -> ProviderRow:
    failure = timing.failures.get(provider)
    return ProviderRow(
        provider=provider,
        case=timing.case.name,
        role=timing.case.role,
        mode=timing.mode,
        time_ms=None if failure is not None else median_ms(timing, provider),
        peak_bytes=peak_bytes,
        method=timing.method,
        rounds=sum(block.contender == provider for block in timing.blocks),
        samples=len(samples_ms(timing, provider)),
        apart=apart,
        unavailable=failure,
    )
