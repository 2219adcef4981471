"""The Markdown pages, against golden files, and what each must say whatever its wording."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import report_fixtures as run

from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.result import FinalOutcome
from warpsmith.contracts.verdict import Outcome
from warpsmith.report.context import Plot
from warpsmith.report.pages import render_comparison, render_profile, render_report, render_variant_notes
from warpsmith.stages.confirmation import CONFIRMING_PROCESSES

Golden = Callable[[str, str], None]
RECORDED = Origin(kind=OriginKind.RECORDED, gpu=run.GPU, date="2026-11-29")


def plots() -> tuple[Plot, ...]:
    folder = Path("optimization/rms_norm/plots")
    return (Plot(title="Speed-up by case", png=folder / "speedup.png", svg=folder / "speedup.svg"),)


def table_rows(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("|")]


def test_the_profile_page_is_as_it_was(golden: Golden) -> None:
    golden("profile.md", render_profile(run.profile()))


def test_the_first_screen_of_a_profile_has_each_verdict_and_what_to_do_first() -> None:
    first_screen = render_profile(run.profile()).split("\n## ")[0]

    for said in ("forward | **near peak** | 95.3% | 1.62 µs", "full (the goal) | **latency bound** | 70.2% | 40.10 µs"):
        assert said in first_screen
    assert "**First: settings**, which may bring 1.10× to 1.45×" in first_screen


def test_a_profile_with_nothing_to_recommend_says_so() -> None:
    page = render_profile(run.profile(recommendations=(), observations=()))

    assert "**Nothing is recommended**" in page
    assert "## Observations" not in page


def test_a_recorded_profile_names_its_origin_at_every_measured_table() -> None:
    page = render_profile(run.profile(origin=RECORDED))

    told = "recorded on NVIDIA H200, 2026-11-29"
    assert f"Figures are **{told}**" in page
    assert f"Origin: {told}." in page
    assert "measured on NVIDIA" not in page


def test_a_pass_whose_host_time_passes_its_device_time_is_called_launch_bound() -> None:
    page = render_profile(run.profile(no_launch_overhead={Mode.FULL: "died: the worker died"}))

    assert "\n- Launch-bound: a forward call takes the host 14.10 µs and the GPU 6.10 µs" in page
    assert "\n- Not launch-bound: a backward call takes the host 11.90 µs and the GPU 14.20 µs." in page
    assert "\n- No host time of full: died: the worker died." in page


def test_a_case_that_fits_l2_has_its_warm_time_beside_the_cold_one() -> None:
    (small, large) = [line for line in table_rows(render_profile(run.profile())) if "µs [" in line][:2]

    assert small.count("<br>warm 3.66 µs [3.65, 3.67]") == 1 and small.count("<br>warm") == 4
    assert "warm" not in large


def test_missing_counters_come_with_reason_and_remedy() -> None:
    page = render_profile(run.profile(counters=run.counters()[1:]))

    assert "No counters at 8192×4096 bf16 backward: ERR_NVGPUCTRPERM" in page
    assert "Remedy: Ask the administrator" in page


def test_a_profile_for_which_ncu_was_not_asked_says_so() -> None:
    assert "ncu was not asked." in render_profile(run.profile(counters=()))


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    pages = [
        render_profile(run.profile()),
        render_report(run.context()),
        render_comparison(run.variants(), 1, "all tried"),
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
    text = render_comparison(run.variants(), 1, "every strategy that the profile recommends was tried", origin=RECORDED)

    golden("comparison.md", text)


def test_a_comparison_without_a_winner_is_a_result() -> None:
    page = render_comparison(run.variants()[1:], None, "all tried")

    assert page.startswith("# Comparison: no variant beat the original\n")
    assert "| v2 |" in page
    assert "| v3 |" in page


def test_a_comparison_of_no_variants_renders() -> None:
    assert "| none |" in render_comparison((), None, "time budget used")


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
    assert " block" not in page.split("## How sure")[1].split("## What it costs")[0]


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
    [render_profile(run.profile()), render_comparison(run.variants(), 1, "all tried"), render_report(run.context())],
    ids=["profile", "comparison", "report"],
)
def test_every_page_with_times_says_once_what_they_compare_to(page: str) -> None:
    assert page.count("Compare within a row: absolute times move") == 1


def test_a_profile_names_the_statistic_of_host_time_and_what_it_compares_to() -> None:
    page = render_profile(run.profile())

    assert "the lower quartile of the calls" in page
    assert "host time drifts from process to process: only figures of one comparison compare" in page


def test_the_diff_stays_whole_where_the_source_itself_has_a_fence() -> None:
    page = render_report(run.context())

    assert f"````diff\n{run.DIFF}````\n" in page


def test_plots_are_linked_relative_to_the_report() -> None:
    page = render_report(run.context(plots=plots()))

    assert "![Speed-up by case](plots/speedup.png)" in page
    assert "([SVG](plots/speedup.svg))" in page


def test_held_out_cases_are_marked_in_a_report() -> None:
    page = render_report(run.context())

    assert "| 6144×5120 bf16 (held-out) | 88.00 µs | 69.70 µs |" in page
    assert "| 2048×2048 bf16 | 14.20 µs | 11.90 µs |" in page


def test_the_versions_of_packages_whose_kernels_are_compared_stand_beside_the_others() -> None:
    profile = run.profile()
    environment = profile.device.environment.model_copy(update={"packages": {"liger-kernel": "0.8.5"}})
    device = profile.device.model_copy(update={"environment": environment})
    assert ", liger-kernel 0.8.5 | its own version queries |" in render_profile(run.profile(device=device))
