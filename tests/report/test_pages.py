"""The Markdown pages, against golden files, and what each must say whatever its wording."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import measured_fixtures as measured
import profile_fixtures as profiles
import pytest
import report_fixtures as run

from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.result import FinalOutcome
from warpsmith.contracts.verdict import Outcome
from warpsmith.report.context import Plot
from warpsmith.report.pages import render_comparison, render_profile, render_report, render_variant_notes
from warpsmith.stages.confirmation import CONFIRMING_PROCESSES

Golden = Callable[[str, str], None]
RECORDED = Origin(kind=OriginKind.RECORDED, gpu=measured.GPU, date="2026-11-29")


def plots() -> tuple[Plot, ...]:
    folder = Path("optimization/rms_norm/plots")
    return (Plot(title="Speed-up by case", png=folder / "speedup.png", svg=folder / "speedup.svg"),)


def table_rows(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("|")]


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    pages = [
        render_profile(profiles.profile()),
        render_report(run.context()),
        render_comparison(run.variants(), run.search()),
        *(render_variant_notes(variant, None) for variant in run.variants()),
    ]
    for page in pages:
        for block in page.split("\n\n"):
            widths = {row.replace("\\|", "").count("|") for row in table_rows(block)}
            assert len(widths) <= 1, block


def test_notes_before_the_result_hold_the_prediction_alone(golden: Golden) -> None:
    golden("variant-notes-proposed.md", render_variant_notes(run.proposed(), None))


def test_notes_of_a_judged_variant_are_as_they_were(golden: Golden) -> None:
    golden("variant-notes-judged.md", render_variant_notes(run.variants()[0], run.DIFF, origin=RECORDED))


def test_notes_of_a_variant_that_came_to_nothing_say_how_far_it_came(golden: Golden) -> None:
    golden("variant-notes-compile-failed.md", render_variant_notes(run.variants()[2], None))


def test_the_comparison_is_as_it_was(golden: Golden) -> None:
    result = run.search().model_copy(update={"origin": RECORDED})
    text = render_comparison(run.variants(), result)

    golden("comparison.md", text)


def test_a_comparison_without_a_winner_is_a_result() -> None:
    page = render_comparison(run.variants()[1:], run.search(winner=None, numbers=(2, 3)))

    assert page.startswith("# Comparison: no variant beat the original\n")
    assert "| v2 |" in page
    assert "| v3 |" in page


def test_a_comparison_of_no_variants_renders() -> None:
    assert "| none |" in render_comparison((), run.search(winner=None, numbers=()))


def test_a_report_tells_of_a_mode_that_was_not_timed() -> None:
    (forward, *others) = profiles.mode_profiles()
    untimed = forward.model_copy(update={"share_of_ceiling": None, "headroom_us": None, "headrooms": ()})
    context = run.context(FinalOutcome.NO_IMPROVEMENT, profile=profiles.profile(modes=(untimed, *others)))

    assert "forward was not timed (near peak), backward at 63.0%" in render_report(context)
    assert "| forward | near peak | – | – |" in render_report(context)


@pytest.mark.parametrize("outcome", list(FinalOutcome))
def test_the_report_is_as_it_was(golden: Golden, outcome: FinalOutcome) -> None:
    with_plots = {"plots": plots()} if outcome is FinalOutcome.APPLIED else {"diff": "", "revert_commands": ()}

    golden(f"report-{outcome.value}.md", render_report(run.context(outcome, **with_plots)))


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (FinalOutcome.APPLIED, "# rms_norm: applied, 1.307× [1.301, 1.314] as fast in full on NVIDIA H200"),
        (FinalOutcome.NO_IMPROVEMENT, "# rms_norm: no improvement found"),
        (FinalOutcome.REVERTED, "# rms_norm: reverted; the tests failed on the winner and the original is back"),
        (FinalOutcome.NOT_CONFIRMED, "# rms_norm: not confirmed"),
    ],
)
def test_the_first_line_of_a_report_says_the_outcome(outcome: FinalOutcome, said: str) -> None:
    assert render_report(run.context(outcome)).splitlines()[0].startswith(said)


def test_a_report_says_what_its_intervals_rest_on_in_rounds_and_processes() -> None:
    page = render_report(run.context())

    assert "in 20 rounds a case and process. In a round the sides are timed in turn" in page
    assert "confirmed in three cold processes, everything else in one." in page and CONFIRMING_PROCESSES == 3
    assert "Noise floor of the goal metric" in page
    assert " block" not in page.split("## How sure")[1].split("## Correctness")[0]


def test_the_three_way_table_says_who_was_timed_together_and_who_was_not() -> None:
    rows = tuple(row.model_copy(update={"apart": row.provider == "liger"}) for row in run.provider_rows())
    page = render_report(run.context(rows=rows))

    assert "All of a row were timed together in one comparison" in page
    assert "\nliger was timed in a comparison of its own.\n" in page
    assert "\ntorch was timed" not in page


def test_words_of_the_guardrails_and_the_outcomes_are_explained_where_they_occur() -> None:
    first, *others = run.variants()
    assert first.verdict is not None
    unsure = first.verdict.model_copy(update={"outcome": Outcome.INCONCLUSIVE})
    verdict = run.accepted()
    without = run.context().result.model_copy(update={"confirmation": verdict.model_copy(update={"guardrails": ()})})

    words = (
        "A specialization is a kernel",
        "The level of host time drifts",
        "Inconclusive: the interval does not tell",
    )
    explained = render_report(run.context(variants=(first.model_copy(update={"verdict": unsure}), *others)))
    plain = render_report(run.context(result=without))
    assert ([word in explained for word in words], [word in plain for word in words]) == ([True] * 3, [False] * 3)


@pytest.mark.parametrize(
    "page",
    [
        render_profile(profiles.profile()),
        render_comparison(run.variants(), run.search()),
        render_report(run.context()),
    ],
    ids=["profile", "comparison", "report"],
)
def test_every_page_with_times_says_once_what_they_compare_to(page: str) -> None:
    assert page.count("Compare within a row: absolute times move") == 1


def test_the_diff_stays_whole_where_the_source_itself_has_a_fence() -> None:
    page = render_report(run.context())

    assert f"````diff\n{run.DIFF}````\n" in page


def test_plots_are_linked_relative_to_the_report() -> None:
    page = render_report(run.context(plots=plots()))

    assert "![Speed-up by case](plots/speedup.png)" in page
    assert "([SVG](plots/speedup.svg))" in page


def test_a_plot_names_the_samples_it_is_drawn_from() -> None:
    samples = tuple(Path("optimization/rms_norm/benchmarks") / name for name in ("v1_samples.csv", "v2_samples.csv"))
    page = render_report(run.context(plots=tuple(p.model_copy(update={"samples": samples}) for p in plots())))

    links = ", ".join(f"[benchmarks/{path.name}](benchmarks/{path.name})" for path in samples)
    assert f"Speed-up by case ([SVG](plots/speedup.svg); drawn from {links})" in page


@pytest.mark.parametrize("outcome", list(FinalOutcome))
def test_the_five_answers_stand_before_the_first_table(outcome: FinalOutcome) -> None:
    page = render_report(run.context(outcome))
    first_screen = page.partition("\n|")[0]

    for question in ("What changed", "How much it brings, where", "How sure", "What it costs", "How to undo it"):
        assert f"- **{question}.** " in first_screen


def test_the_tables_of_cases_stand_below_everything_that_a_decision_needs() -> None:
    page = render_report(run.context(plots=plots()))
    heads = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]

    assert heads == [
        *("In short", "What changed", "The profile in short", "Variants", "The other variants, and what they taught"),
        *("Plots", "How sure", "Correctness", "What it costs", "How to reproduce", "How to undo", "Recommendations"),
        *("Limits", "Case by case", "Against the baselines", "Tests and style"),
    ]


def test_a_winner_that_was_not_applied_is_shown_as_what_it_is() -> None:
    page = render_report(run.context(FinalOutcome.REVERTED))

    assert "Nothing: `src/warpsmith/kernels/rms_norm.py` is as it was.\n" in page
    assert (
        "v1, Launch settings as a table by shape and GPU, not applied to `src/warpsmith/kernels/rms_norm.py`:" in page
    )
    assert run.DIFF in page


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (FinalOutcome.NO_IMPROVEMENT, "# rms_norm: no improvement found, v2 inconclusive; the kernel stays as it was"),
        (FinalOutcome.NOT_CONFIRMED, "# rms_norm: not confirmed; measured afresh the win is inconclusive, and the"),
    ],
)
def test_the_first_line_says_where_it_could_not_be_told(outcome: FinalOutcome, said: str) -> None:
    first, second, third = run.variants()
    assert second.verdict is not None
    unsure = second.verdict.model_copy(update={"outcome": Outcome.INCONCLUSIVE})
    variants = (first, second.model_copy(update={"verdict": unsure}), third)
    context = run.context(outcome, variants=variants)
    if context.result.confirmation is not None:
        confirmation = context.result.confirmation.model_copy(update={"outcome": Outcome.INCONCLUSIVE})
        context = context.model_copy(
            update={"result": context.result.model_copy(update={"confirmation": confirmation})}
        )

    assert render_report(context).startswith(said)


def test_held_out_cases_are_marked_in_a_report() -> None:
    page = render_report(run.context())

    assert "| 6144×5120 bf16 (held-out) | 88.00 µs | 69.70 µs |" in page
    assert "| 2048×2048 bf16 | 14.20 µs | 11.90 µs |" in page
