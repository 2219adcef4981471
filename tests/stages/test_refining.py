"""The end of a search: what won apart is tried together, and what brings nothing is taken out again."""

from __future__ import annotations

from dataclasses import replace

from simulated_gpu import described
from simulated_kernel import Work, duration_us
from simulated_run import Run
from test_optimizer import is_zeroed, recommend_only, told

from warpsmith.contracts.result import SearchResult
from warpsmith.contracts.variant import VariantStatus
from warpsmith.contracts.verdict import Outcome
from warpsmith.measure.worker.protocol import Time
from warpsmith.workspace.documents import read_document


def takes(run: Run, **shares: float) -> None:
    """A run of the original's duration times the share of each text that a source has; of "empty" if it zeroes
    nothing."""
    costs, original = described(run.root).costs, run.workspace.original.read_text()

    def slowdown(work: Work) -> float:
        costs_here = costs[work.case.name]
        wanted = duration_us(replace(work, text=original, settings={}), costs_here)
        for text, share in shares.items():
            wanted *= share if (text in work.text if text != "empty" else not is_zeroed(work)) else 1.0
        return wanted / duration_us(work, costs_here)

    run.gpu.slowdown = slowdown


def contenders_of_ablation(run: Run) -> list[list[str]]:
    asked = [q for q in run.gpu.asked if isinstance(q, Time)]
    return [[c.name for c in q.contenders] for q in asked if any(" " in c.name for c in q.contenders)]


def test_two_gains_that_are_each_too_small_are_tried_together_and_win(profiled: Run) -> None:
    recommend_only(profiled, "needless_initialisation", "cache_hints")
    takes(profiled, empty=0.993, evict_first=0.993)
    result = profiled.optimize()

    assert told(profiled.variants()) == [
        ("needless_initialisation", 0, VariantStatus.JUDGED, Outcome.REJECTED),
        ("cache_hints", 0, VariantStatus.JUDGED, Outcome.REJECTED),
        ("combination", 0, VariantStatus.JUDGED, Outcome.ACCEPTED),
    ]
    combined = profiled.variants()[2]
    assert combined.against_prediction(1 / 0.993**2) == "within"
    assert [change.partition(":")[0] for change in combined.changes] == ["v1", "v2"]
    source = profiled.workspace.variant(3).read_text()
    assert "torch.zeros(" not in source and "evict_first" in source
    assert (result.winner, result.winner_sha256) == (3, combined.source_sha256)


def test_what_broke_a_rule_is_not_tried_again_together(profiled: Run) -> None:
    recommend_only(profiled, "needless_initialisation", "cache_hints")
    takes(profiled, empty=0.993, evict_first=1.02)
    profiled.optimize()
    assert "combination" not in [variant.strategy for variant in profiled.variants()]


def test_each_part_of_the_winner_is_removed_once_and_what_each_brings_is_told(optimized: Run) -> None:
    result = read_document(optimized.workspace.search_result, SearchResult)
    assert [(part.name, part.needed) for part in result.parts] == [
        ("settings of _rms_norm_backward_kernel", True),
        ("Allocate empty what is wholly overwritten", True),
        ("Issue the next rows' loads ahead", True),
    ]
    assert all(part.gain is not None and part.gain.low > 1 for part in result.parts)
    page = optimized.workspace.comparison.read_text()
    assert "## What each part brings" in page
    assert "| Allocate empty what is wholly overwritten | 1.0" in page
    assert result.winner == 3  # nothing was taken out, so that nothing new was judged


def test_what_brings_nothing_any_more_goes_and_the_smaller_change_wins(profiled: Run) -> None:
    recommend_only(profiled, "needless_initialisation", "pipelined_loop")
    costs = described(profiled.root).costs

    def slowdown(work: Work) -> float:
        """Where the loop is pipelined, zeroing costs nothing."""
        if "tl.range(" not in work.text or not is_zeroed(work):
            return 1.0
        emptied = replace(work, text=work.text.replace("torch.zeros(", "torch.empty("))
        return duration_us(emptied, costs[work.case.name]) / duration_us(work, costs[work.case.name])

    profiled.gpu.slowdown = slowdown
    result = profiled.optimize()

    first, second, smaller = (v for v in profiled.variants() if v.verdict is not None and v.verdict.cases)
    assert (first.strategy, second.strategy, smaller.strategy) == (
        "needless_initialisation",
        "pipelined_loop",
        "ablation",
    )
    assert (smaller.based_on, smaller.without) == (second.number, (first.number,))
    assert smaller.changes == ("taken out again: Allocate empty what is wholly overwritten",)
    assert [part.name for part in result.parts if not part.needed] == ["Allocate empty what is wholly overwritten"]
    assert result.winner == smaller.number
    source = profiled.workspace.variant(smaller.number).read_text()
    assert "torch.zeros(" in source and "tl.range(" in source
    profiled.finalize()
    report = profiled.workspace.report_page.read_text()
    made_of = report[report.index("## What changed") : report.index("## The profile")]
    assert f"- v{second.number}, pipelined loop:" in made_of and f"- v{smaller.number}, ablation:" in made_of
    assert f"- v{first.number}, needless initialisation:" not in made_of
    assert "Allocate empty what is wholly overwritten: nothing beyond noise" in made_of


def test_a_winner_of_one_part_is_not_taken_apart(profiled: Run) -> None:
    recommend_only(profiled, "needless_initialisation")
    profiled.optimize()
    assert contenders_of_ablation(profiled) == []
    assert read_document(profiled.workspace.search_result, SearchResult).parts == ()


def test_no_time_left_is_none_for_refining_either(profiled: Run) -> None:
    profiled.ask_for(autonomous=True, time_budget_s=1e-9)
    assert profiled.optimize().parts == ()
    assert contenders_of_ablation(profiled) == []
