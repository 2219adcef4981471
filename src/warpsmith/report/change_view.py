"""What a change makes of compiled code, arranged for reading: only what differs, and equal differences told once.

Pure; must not know how the page is laid out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from warpsmith.contracts.case import Mode
from warpsmith.contracts.compiled_change import (
    ComparedOn,
    CompiledChange,
    CompiledLaunch,
    CompiledRegression,
    Fact,
    LaunchPair,
)
from warpsmith.report import quantities
from warpsmith.report.templates import render

#: Calls that are named; the rest are counted. `--json` has them all.
NAMED_CALLS = 3


@dataclass(frozen=True)
class ChangeRow:
    """One fact that differs in the same way at these calls. `over` is the limit that it is over, if any."""

    kernel: str
    fact: str
    base: str
    change: str
    where: str
    over: str


@dataclass(frozen=True)
class GpuView:
    """The differences on one GPU; `lines` tell what is no difference between two launches."""

    gpu: str
    rows: tuple[ChangeRow, ...]
    lines: tuple[str, ...]


def change_page(result: CompiledChange) -> str:
    """The answer of `warpsmith check --base` as Markdown."""
    views = tuple(_view(on, is_new=result.base.missing is not None) for on in result.on)
    regressions = [each for on in result.on for each in on.regressions]
    facts = list(dict.fromkeys(each.fact.value for each in regressions))
    return render(
        "check-change.md.j2",
        {
            "result": result,
            "views": views,
            "facts": facts,
            "is_same": not any(view.rows or view.lines for view in views),
            "calls": sum(len({(pair.case, pair.mode) for pair in on.pairs}) for on in result.on),
        },
    )


def _view(on: ComparedOn, *, is_new: bool) -> GpuView:
    rows = () if is_new else (*_rows(on), *_specializations(on))
    alone = () if is_new else _one_sided(on)
    return GpuView(on.gpu, rows, (*alone, *_gaps(on), *_other_code(on.pairs)))


def _rows(on: ComparedOn) -> tuple[ChangeRow, ...]:
    merged: dict[tuple[str, str, str, str, str], list[tuple[str, Mode]]] = {}
    for pair in on.pairs:
        if pair.base is None or pair.change is None:
            continue
        for fact, base, change in _differences(pair.base, pair.change):
            key = (_named(pair), fact.value, base, change, _over(fact, pair, on.regressions))
            merged.setdefault(key, []).append((pair.case, pair.mode))
    rows = (ChangeRow(*key[:4], _where(calls, on), key[4]) for key, calls in merged.items())
    return tuple(sorted(rows, key=lambda row: (not row.over, row.kernel)))


def _differences(base: CompiledLaunch, change: CompiledLaunch) -> Iterator[tuple[Fact, str, str]]:
    before, after = _facts(base), _facts(change)
    for fact, (figure, told) in before.items():
        now, now_told = after[fact]
        if figure != now:
            yield fact, *((told, now_told) if told != now_told else (f"{figure} B", f"{now} B"))


def _facts(launch: CompiledLaunch) -> dict[Fact, tuple[object, str]]:
    """What is compared, and how it is written: sizes in bytes to three digits."""
    resident = f"{launch.resident_warps} ({'all fit at once' if launch.fits_at_once else launch.limiter})"
    numbers = {
        Fact.WARPS: launch.num_warps,
        Fact.STAGES: launch.num_stages,
        Fact.CLUSTER: launch.num_ctas,
        Fact.REGISTERS: launch.registers,
    }
    return {
        Fact.GRID: (launch.grid, quantities.grid(launch.grid)),
        **{fact: (number, str(number)) for fact, number in numbers.items()},
        Fact.SPILLS: (launch.spill_bytes, quantities.size(launch.spill_bytes)),
        Fact.SHARED_MEMORY: (launch.shared_bytes, quantities.size(launch.shared_bytes)),
        Fact.RESIDENT_WARPS: (launch.resident_warps, resident),
    }


def _over(fact: Fact, pair: LaunchPair, regressions: Iterable[CompiledRegression]) -> str:
    """The limit that the change's launch is over in this fact."""
    assert pair.change is not None
    figure = _facts(pair.change)[fact][0]
    found = (fact, pair.change.jit_function, pair.case, pair.mode, figure)
    return next((e.limit for e in regressions if (e.fact, e.jit_function, e.case, e.mode, e.change) == found), "")


def _specializations(on: ComparedOn) -> Iterator[ChangeRow]:
    base, change = on.specializations
    if base != change:
        over = next((each.limit for each in on.regressions if each.fact is Fact.SPECIALIZATIONS), "")
        yield ChangeRow("all", Fact.SPECIALIZATIONS.value, str(base), str(change), "all calls", over)


def _one_sided(on: ComparedOn) -> Iterator[str]:
    """Launches that one side alone makes."""
    merged: dict[str, list[tuple[str, Mode]]] = {}
    for pair in on.pairs:
        launch = pair.change or pair.base
        if launch is None or (pair.change and pair.base):
            continue
        side = "the change" if pair.change else "the base"
        told = f"{launch.registers} registers, {quantities.size(launch.spill_bytes)} spilled, {launch.num_warps} warps"
        if pair.change and (limit := _over(Fact.SPILLS, pair, on.regressions)):
            told += f"; **spills: {limit}**"
        merged.setdefault(f"only {side} launches `{launch.jit_function}` ({told})", []).append((pair.case, pair.mode))
    return (f"{_where(calls, on)}: {told}" for told, calls in merged.items())


def _gaps(on: ComparedOn) -> Iterator[str]:
    merged: dict[str, list[tuple[str, Mode]]] = {}
    for gap in on.gaps:
        if gap.base is None:
            told = f"**the change does not compile**: {gap.change}"
        elif gap.change is None:
            told = f"not compared, as the base does not compile: {gap.base}"
        elif gap.base == gap.change:
            told = f"not compared, as neither side compiles: {gap.base}"
        else:
            told = f"not compared, as neither side compiles: {gap.change}; of the base: {gap.base}"
        merged.setdefault(told, []).append((gap.case, gap.mode))
    return (f"{_where(calls, on)}: {told}" for told, calls in merged.items())


def _other_code(pairs: Iterable[LaunchPair]) -> Iterator[str]:
    """Launches whose facts agree and whose code does not."""
    both = [(pair.base, pair.change) for pair in pairs if pair.base and pair.change]
    same = [(base, change) for base, change in both if not list(_differences(base, change))]
    other = [change for base, change in same if base.binary_sha256 != change.binary_sha256]
    if other:
        yield f"other machine code with the same facts: {len(other)} of {len(both)} launches"


def _named(pair: LaunchPair) -> str:
    assert pair.base is not None and pair.change is not None
    names = dict.fromkeys((pair.base.jit_function, pair.change.jit_function))
    return " → ".join(f"`{name}`" for name in names)


def _where(calls: Iterable[tuple[str, Mode]], on: ComparedOn) -> str:
    """Modes with their cases, the first few by name."""
    known = [(pair.case, pair.mode) for pair in on.pairs] + [(gap.case, gap.mode) for gap in on.gaps]
    every, some = _by_mode(known), _by_mode(calls)
    are_all = {mode: len(every[mode]) > 1 and cases.keys() == every[mode].keys() for mode, cases in some.items()}
    return "; ".join(
        f"{mode.value}, {'all cases' if are_all[mode] else _first(list(cases))}" for mode, cases in some.items()
    )


def _by_mode(calls: Iterable[tuple[str, Mode]]) -> dict[Mode, dict[str, None]]:
    found: dict[Mode, dict[str, None]] = {}
    for case, mode in calls:
        found.setdefault(mode, {}).setdefault(case)
    return found


def _first(cases: list[str]) -> str:
    more = len(cases) - NAMED_CALLS
    return ", ".join(map(quantities.case_label, cases[:NAMED_CALLS])) + (f" and {more} more" if more > 0 else "")
