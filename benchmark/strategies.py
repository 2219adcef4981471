"""Writes what is told of the strategies from their cards and from recorded runs: `python benchmark/strategies.py`.

docs/strategies.md is for people, the skill's references/briefs.md for whoever writes variants, and
src/warpsmith/diagnose/track_record.json for the next prediction. Recorded runs are those in optimization/ that are
committed: in each of them the prediction was on disk before its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from warpsmith.contracts.result import SearchResult
from warpsmith.contracts.track_record import StrategyRecord, TrackRecord
from warpsmith.contracts.variant import Variant
from warpsmith.diagnose.learned import KEPT
from warpsmith.search.strategies import BRIEFS, CATALOGUE
from warpsmith.search.strategies.base import Card
from warpsmith.verdict.track_record import LEAST_RESULTS, correction, track_record
from warpsmith.workspace.documents import read_document, write_document, write_text

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "strategies.md"
BRIEFS_PAGE = ROOT / "skills" / "triton-kernel-perf" / "references" / "briefs.md"
#: The workspaces that are committed. Others are of one machine.
COMMITTED = ("rms_norm",)

_INTRODUCTION = """\
# Strategies: what is tried, when and why

Written by `make strategies` from the cards in `src/warpsmith/search/strategies/`. The automatic ones a run tries by
itself, in the order that the profile recommends; a brief is for a person or a coding agent who writes the variant, and
the profile names those that its figures speak for. Whatever is written passes the same gate and the same comparison.
"""
_TRACK = f"""\
## What came of predictions

Each strategy's predictions against its results, over {{runs}}.
In a run that tries a strategy twice the first try counts. *Gain* is the geometric mean of the speed-ups over what each
variant built on; *over the middle* is that of the measured speed-up over the middle of the predicted range. With
{LEAST_RESULTS} results or more the next prediction is corrected by it, less where results are few, and never beyond the
ceiling; with fewer it is left as it is.
"""
_BRIEFS = """\
# Briefs: techniques that need thought

Read when you write a variant yourself, or no automatic strategy is left. "For whoever writes variants" in
`optimization/KERNEL/profile.md` names those that the profile's figures speak for, and the figures: begin with these,
one technique a variant, hypothesis and predicted range first. A source that you wrote goes through
`warpsmith check KERNEL FILE.py` before it is timed, and `warpsmith bench KERNEL --with FILE.py` times it beside the
original. Nothing here is tried by a run itself.
"""


def recorded_runs(root: Path = ROOT) -> Iterator[tuple[str, tuple[Variant, ...]]]:
    """The name of each committed run, and its variants."""
    for kernel in COMMITTED:
        folder = root / "optimization" / kernel
        search = read_document(folder / "comparison.json", SearchResult)
        variants = (read_document(folder / f"{kernel}_v{number}.json", Variant) for number in search.variants)
        yield f"{kernel} on {search.origin.gpu}, {search.origin.date}", tuple(variants)


def record_of(runs: Iterable[tuple[str, tuple[Variant, ...]]]) -> TrackRecord:
    found = tuple(runs)
    return TrackRecord(
        runs=tuple(name for name, _ in found), strategies=track_record(variants for _, variants in found)
    )


def page(record: TrackRecord) -> str:
    """docs/strategies.md."""
    cards = [*(strategy.card for strategy in CATALOGUE.values()), *BRIEFS.values()]
    by_name = {each.strategy: each for each in record.strategies}
    rows = [
        (f"[`{c.name}`](#{c.name})", c.title, _kind(c), c.layer.value, _told_short(by_name.get(c.name))) for c in cards
    ]
    overview = _table(("strategy", "what", "how", "layer", "results"), rows)
    runs = f"{len(record.runs)} recorded {'run' if len(record.runs) == 1 else 'runs'} ({'; '.join(record.runs)})"
    tracked = _table(
        (
            "strategy",
            "tried",
            "applicable",
            "measured",
            "accepted",
            "within range",
            "gain",
            "over the middle",
            "correction",
        ),
        [_tracked(each) for each in record.strategies],
    )
    sections = "\n".join(_section(card, by_name.get(card.name)) for card in cards)
    return f"{_INTRODUCTION}\n{overview}\n{_TRACK.format(runs=runs)}\n{tracked}\n{sections}"


def briefs_page() -> str:
    """The skill's references/briefs.md."""
    sections = (f"## `{c.name}`\n\n{c.title}: {c.applies}.\n\n{c.brief}\n" for c in BRIEFS.values())
    return "\n".join([_BRIEFS, *sections])


def _section(card: Card, record: StrategyRecord | None) -> str:
    lines = [
        f"## {card.name}",
        "",
        f"**{card.title}.** {_kind(card).capitalize()}, {card.layer.value}.",
        "",
        f"- When: {card.applies}.",
        f"- Why: {card.hypothesis}",
        f"- Expected: {card.expected}.",
        f"- Risk: {card.risk}.",
        f"- Of its predictions: {_told(record)}.",
    ]
    if card.takes_up:
        lines.append(f"- Takes up: {', '.join(kind.value.replace('_', ' ') for kind in card.takes_up)}.")
    if card.brief is not None:
        lines += ["", "The brief:", "", card.brief]
    return "\n".join([*lines, ""])


def _kind(card: Card) -> str:
    return "automatic" if card.brief is None else "brief"


def _told_short(record: StrategyRecord | None) -> str:
    return "none recorded" if record is None else f"{record.accepted} of {record.tried} accepted"


def _told(record: StrategyRecord | None) -> str:
    if record is None:
        return "nothing is recorded"
    if record.measured_over_middle is None:
        return f"tried {record.tried}×, never measured"
    results = f"{record.measured} {'result' if record.measured == 1 else 'results'}"
    return f"{results}, {record.measured_over_middle:.3f}× the middle of the range; correction {_corrected(record)}"


def _corrected(record: StrategyRecord) -> str:
    factor = correction(record)
    return f"none: fewer than {LEAST_RESULTS} results" if factor is None else f"× {factor:.3f}"


def _tracked(record: StrategyRecord) -> tuple[str, ...]:
    counts = (record.tried, record.applicable, record.measured, record.accepted, record.within)
    figures = (
        "not measured" if value is None else f"{value:.3f}×" for value in (record.gain, record.measured_over_middle)
    )
    return (f"`{record.strategy}`", *map(str, counts), *figures, _corrected(record))


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [titles, tuple("---" for _ in titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    record = record_of(recorded_runs())
    write_document(KEPT, record)
    write_text(PAGE, page(record))
    write_text(BRIEFS_PAGE, briefs_page())


if __name__ == "__main__":
    main()
