"""profile.md, against golden files, and what it must say whatever its wording."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from itertools import pairwise

import measured_fixtures as measured
import profile_fixtures as profiles
import pytest

from warpsmith.cli.profile_page import DETAILS
from warpsmith.contracts.case import Mode
from warpsmith.contracts.device import Origin, OriginKind
from warpsmith.contracts.profile import Bottleneck, OfflineCompilation, Profile, Recommendation
from warpsmith.device.known_gpus import known_gpu
from warpsmith.report.pages import render_profile
from warpsmith.report.profile_view import ABOVE_CEILING, READ_ALONE, SETTINGS_MEANS

Golden = Callable[[str, str], None]
RECORDED = Origin(kind=OriginKind.RECORDED, gpu=measured.GPU, date="2026-11-29")
EVERY_KIND = {
    "measured": profiles.profile,
    "recorded": lambda: profiles.profile(origin=RECORDED),
    "durations": profiles.durations_profile,
    "predicted": profiles.predicted_profile,
    "old": profiles.old_profile,
}

every_kind = pytest.mark.parametrize("made", EVERY_KIND.values(), ids=EVERY_KIND)


def first_screen(profile: Profile) -> str:
    return render_profile(profile).split("\n## ")[0]


def section(page: str, heading: str) -> str:
    return page.split(f"\n{heading}\n")[1].split("\n## ")[0]


def table_rows(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("|")]


def test_the_page_is_as_it_was(golden: Golden) -> None:
    golden("profile.md", render_profile(profiles.profile()))


def test_the_page_without_counters_is_as_it_was(golden: Golden) -> None:
    golden("profile-durations.md", render_profile(profiles.durations_profile()))


def test_the_page_with_no_gpu_is_as_it_was(golden: Golden) -> None:
    golden("profile-predicted.md", render_profile(profiles.predicted_profile()))


@every_kind
def test_the_first_screen_is_about_forty_lines_of_a_terminal(made: Callable[[], Profile]) -> None:
    lines = [wrapped for line in first_screen(made()).splitlines() for wrapped in textwrap.wrap(line, 120) or [""]]

    assert len(lines) <= 40


def test_the_first_screen_has_bottleneck_evidence_what_to_do_and_what_it_brings() -> None:
    told = first_screen(profiles.profile())

    for said in (
        "measured on NVIDIA H200, 2026-11-29",
        "| forward | **near peak** | ncu counters | 96.1% | 1.44 µs | little is left to win: stop here |",
        "| full (goal) | **latency bound** | compiled code | 71.2% | 37.70 µs | most at 32768×2048 bf16: 76.28 µs",
        f"**Do first: settings** ({SETTINGS_MEANS}), lines 164, 170. Predicted: 1.10× to 1.45× in full.",
        "`src/warpsmith/kernels/rms_norm.py:164`: one program an SM loops over the rows.",
        "In backward 1.07× to 1.31×, 7.00 to 24.50 µs a call; most is saved at 32768×2048 bf16: up to 1.44×.",
        "`warpsmith approve rms_norm`",
    ):
        assert said in told


def test_conclusions_are_whole_and_name_their_mode_once() -> None:
    modes = profiles.mode_profiles()
    long = "backward waits for memory " + "and waits " * 60 + "at last."
    changed = (modes[0], modes[1].model_copy(update={"conclusion": long}), modes[2])
    told = first_screen(profiles.profile(modes=changed))

    assert f"\n- **backward** {long.removeprefix('backward ')}\n" in told
    assert f"\n- **forward**: {modes[0].conclusion}\n" in told


def test_only_the_best_three_opportunities_stand_on_the_first_screen() -> None:
    (first, *others) = profiles.opportunities()
    four = (first, *others, first.model_copy(update={"basis": "the fourth"}))
    profile = profiles.profile(opportunities=four)

    assert first_screen(profile).count("a call") - first_screen(profiles.profile(opportunities=())).count("a call") == 3
    assert "the fourth" in section(render_profile(profile), "## Opportunities")


def test_what_the_audit_found_and_nothing_prices_is_still_listed() -> None:
    told = section(render_profile(profiles.profile()), "## Opportunities")

    assert "Not priced:\n\n- line 99: a comment" in told
    assert "- line 164" not in told and "| 1 | 164 |" in told


def test_most_is_left_where_weight_times_headroom_is_largest() -> None:
    (forward, backward, full) = profiles.mode_profiles()
    heavy = tuple(h.model_copy(update={"weight": 9.0 if h.case == "8192x4096-bf16" else 1.0}) for h in full.headrooms)
    profile = profiles.profile(modes=(forward, backward, full.model_copy(update={"headrooms": heavy})))
    page = render_profile(profile)

    assert "| most at 8192×4096 bf16: 46.86 µs a call |" in page
    assert "| full | 8192×4096 bf16 | 9 | copy |" in page
    assert "weight" not in section(render_profile(profiles.profile()), "## Headroom by case")


def test_counted_bytes_stand_beside_the_least() -> None:
    told = section(render_profile(profiles.profile()), "## Headroom by case")

    assert "| 192.0 MiB | 248.0 MiB, 1.29× |" in told
    assert "counted" not in section(render_profile(_uncounted()), "## Headroom by case").lower()


def _uncounted() -> Profile:
    modes = tuple(
        mode.model_copy(
            update={"headrooms": tuple(h.model_copy(update={"counted_bytes": None}) for h in mode.headrooms)}
        )
        for mode in profiles.mode_profiles()
    )
    return profiles.profile(modes=modes)


@pytest.mark.parametrize("gain", [None, 1.0])
def test_where_nothing_promises_anything_the_page_says_to_stop(gain: float | None) -> None:
    (first, _) = profiles.recommendations()
    found = () if gain is None else (first.model_copy(update={"predicted_low": gain, "predicted_high": gain}),)
    peak = tuple(m.model_copy(update={"bottleneck": Bottleneck.NEAR_PEAK}) for m in profiles.mode_profiles())
    told = render_profile(profiles.profile(recommendations=found, observations=(), modes=peak))

    assert "**Nothing is recommended**: stop here." in told
    assert "Do first" not in told
    assert "## Observations" not in told


def test_a_row_that_promises_nothing_is_kept_to_make_sure() -> None:
    (settings, _) = profiles.recommendations()
    nothing = (settings.model_copy(update={"predicted_low": 1.0, "predicted_high": 1.004}),)
    peak = tuple(m.model_copy(update={"bottleneck": Bottleneck.NEAR_PEAK}) for m in profiles.mode_profiles())

    told = section(render_profile(profiles.profile(recommendations=nothing, modes=peak)), "## Recommendations")
    assert "| 1 | settings, to make sure | " in told and " | nothing predicted | 164, 170 |" in told
    assert f"Settings: {SETTINGS_MEANS}." in told
    open_told = section(render_profile(profiles.profile(recommendations=nothing)), "## Recommendations")
    assert "| 1 | settings | " in open_told and " | nothing predicted | 164, 170 |" in open_told


def test_a_share_above_all_is_explained_once_where_it_first_stands() -> None:
    def explained(page: str) -> list[int]:
        return [place for place, part in enumerate(page.split("\n## ")) if ABOVE_CEILING in part]

    (forward, *others) = profiles.mode_profiles()
    above = (forward.model_copy(update={"share_of_ceiling": 1.02}), *others)
    headings = [part.splitlines()[0] for part in render_profile(profiles.profile()).split("\n## ")]
    assert [headings[place] for place in explained(render_profile(profiles.profile()))] == ["Headroom by case"]
    assert explained(render_profile(profiles.profile(modes=above))) == [0]
    assert explained(render_profile(profiles.predicted_profile())) == []


def test_where_something_is_left_but_no_strategy_promises_it_the_page_does_not_say_to_stop() -> None:
    told = render_profile(profiles.profile(recommendations=()))

    assert "**No strategy applies**" in told
    assert "Nothing is recommended" not in told


@every_kind
def test_the_terminals_view_ends_where_it_cuts(made: Callable[[], Profile]) -> None:
    before, cut, after = render_profile(made()).partition(DETAILS)

    assert cut and "## Headroom by case" in before and "## Compiled code" in after


@every_kind
def test_no_page_shows_a_value_that_is_not_there(made: Callable[[], Profile]) -> None:
    page = render_profile(made())

    assert re.findall(r"(?m)^.+\b(?:None|undefined|nan)\b.*$", page) == []
    assert "\n\n\n" not in page


@every_kind
def test_no_heading_stands_over_nothing(made: Callable[[], Profile]) -> None:
    lines = [line for line in render_profile(made()).splitlines() if line]

    for line, after in pairwise([*lines, "# end"]):
        if line.startswith("#") and after.startswith("#"):
            assert level(after) > level(line), line


def level(heading: str) -> int:
    return len(heading) - len(heading.lstrip("#"))


@every_kind
def test_every_row_has_as_many_cells_as_its_head(made: Callable[[], Profile]) -> None:
    for block in render_profile(made()).split("\n\n"):
        widths = {row.replace("\\|", "").count("|") for row in table_rows(block)}
        assert len(widths) <= 1, block


def test_a_predicted_page_says_first_that_nothing_was_run_and_for_which_gpu() -> None:
    page = render_profile(profiles.predicted_profile())

    assert page.startswith("# Profile of rms_norm for NVIDIA H200, predicted\n\n**Nothing was run.**")
    assert "Ceilings: the data sheet's peaks, which no kernel reaches." in first_screen(profiles.predicted_profile())
    assert "| backward | **latency bound** | compiled code | 5.24 to 83.89 µs |" in page
    assert "What it brings is not predicted, as nothing was timed." in page
    assert "`warpsmith run rms_norm`" in page
    assert "approve" not in page


def test_a_predicted_page_of_what_did_not_compile_says_so_first_and_claims_no_compiled_code() -> None:
    offline = OfflineCompilation(
        gpu=known_gpu("h200"),
        triton="3.7.1",
        origin=Origin(kind=OriginKind.PREDICTED, gpu=measured.GPU),
        launches={},
        unavailable="8192x4096-bf16 forward: the call launches no jit function.",
    )
    page = first_screen(profiles.predicted_profile(launches={}, offline=offline))

    assert "**Nothing was run, and nothing compiled.** `src/warpsmith/kernels/rms_norm.py` was read alone; " in page
    assert "not compiled: 8192x4096-bf16 forward: the call launches no jit function. NVIDIA H200" in page
    assert "compiled by triton" not in page and "compiled code" not in page
    assert page.count(READ_ALONE) == 4
    assert "compiled by triton" in first_screen(profiles.predicted_profile())


def test_the_least_time_of_a_single_case_is_no_range_of_cases() -> None:
    profile = profiles.predicted_profile()
    one = tuple(m.model_copy(update={"headrooms": m.headrooms[:1]}) for m in profile.modes)

    assert "fastest tuning case" in first_screen(profile)
    assert "\nLeast time is the least bytes" in first_screen(profile.model_copy(update={"modes": one}))


def test_a_predicted_page_leaves_out_what_only_a_run_tells() -> None:
    page = render_profile(profiles.predicted_profile())

    for heading in ("## Hardware counters", "## Kernel durations", "### Host time a call", "### forward: memory bound"):
        assert heading not in page
    assert "–" not in page and "| time |" not in page and "of the ceiling |" not in page
    assert "\n## Baselines\n\nNone: nothing was timed" in page
    assert "| memory bandwidth | 4800 GB/s | the data sheet's peaks |" in page
    assert "driver" not in section(page, "## Device") and "`none`" not in page


def test_a_predicted_page_tells_a_gain_where_one_is_predicted() -> None:
    page = render_profile(profiles.predicted_profile(recommendations=profiles.recommendations()))

    assert "Predicted: 1.10× to 1.45× in full." in page
    assert "| order | strategy | why | predicted | lines |" in page


def test_a_predicted_page_without_headrooms_or_launches_is_whole() -> None:
    bare = tuple(m.model_copy(update={"headrooms": (), "evidence": ()}) for m in profiles.predicted_profile().modes)
    page = render_profile(profiles.predicted_profile(modes=bare, launches={}, recommendations=()))

    assert "| mode | predicted bottleneck | read off | what that would mean |" in page
    assert "## Evidence" not in page
    assert "Nothing was compiled." in page
    assert "roofline.png" not in page


def test_an_old_profile_says_what_was_not_recorded() -> None:
    page = render_profile(profiles.old_profile())

    assert "Width of each access to global memory, async copies and matrix instructions: not recorded." in page
    assert section(page, "## Headroom by case").strip().startswith("Not recorded")
    assert "what they may bring is not recorded:\n\n- line 164" in page
    assert "roofline.png" not in page
    assert "| 35.54 µs | waiting, with neither memory nor arithmetic busy; more work in flight would help |" in page


def test_the_roofline_is_linked_where_there_is_one_to_draw() -> None:
    no_ceilings = measured.device().model_copy(update={"copy_ceilings": ()})

    assert "](plots/roofline.png)" in render_profile(profiles.profile())
    assert "roofline.png" not in render_profile(profiles.profile(device=no_ceilings))


def test_a_recorded_profile_names_its_origin_at_every_measured_table() -> None:
    page = render_profile(profiles.profile(origin=RECORDED))

    told = "recorded on NVIDIA H200, 2026-11-29"
    assert f"Figures are **{told}**" in page
    assert f"Origin: {told}." in page
    assert "measured on NVIDIA" not in page


def test_ceilings_kept_from_an_earlier_run_carry_their_own_date() -> None:
    kept = measured.device().model_copy(update={"ceilings_measured_at": "2026-11-20T09:00:00Z"})
    page = render_profile(profiles.profile(device=kept))

    assert "| 3120 GB/s (copy_ 1024 threads) | measured on NVIDIA H200, 2026-11-20 |" in page
    assert "ceiling, measured on NVIDIA H200, 2026-11-20." in page


def test_a_pass_whose_host_time_passes_its_device_time_is_called_launch_bound() -> None:
    page = render_profile(profiles.profile(no_launch_overhead={Mode.FULL: "died: the worker died"}))

    assert "\n- Launch-bound: a forward call takes the host 14.10 µs and the GPU 6.10 µs" in page
    assert "\n- Not launch-bound: a backward call takes the host 11.90 µs and the GPU 14.20 µs." in page
    assert "\n- No host time of full: died: the worker died." in page


def test_a_case_that_fits_l2_has_its_warm_time_beside_the_cold_one() -> None:
    (small, large) = [line for line in table_rows(render_profile(profiles.profile())) if "µs [" in line][:2]

    assert small.count("<br>warm 3.66 µs [3.65, 3.67]") == 1 and small.count("<br>warm") == 4
    assert "warm" not in large


def test_missing_counters_come_with_reason_and_remedy() -> None:
    page = render_profile(profiles.durations_profile())

    assert "No counters at 8192×4096 bf16 forward, 8192×4096 bf16 backward: ERR_NVGPUCTRPERM" in page
    assert page.count("Remedy: Ask the administrator") == 1


def test_kernel_durations_tell_where_the_time_of_a_call_goes() -> None:
    told = section(render_profile(profiles.durations_profile()), "## Kernel durations")

    assert (
        "| 8192×4096 bf16 | backward | `vectorized_elementwise_kernel<FillFunctor<float>>` | 2.10 µs | 2.1% |" in told
    )
    assert "| 8192×4096 bf16 | backward | `_rms_norm_backward_kernel` | 88.60 µs | 89.0% |" in told
    assert "No durations at 8192×4096 bf16 full: died: the worker died" in told
    assert "## Kernel durations" not in render_profile(profiles.profile())


def test_a_profile_for_which_ncu_was_not_asked_says_so() -> None:
    assert "ncu was not asked." in render_profile(profiles.profile(counters=()))


def test_a_profile_names_the_statistic_of_host_time_and_what_it_compares_to() -> None:
    page = render_profile(profiles.profile())

    assert "the lower quartile of the calls" in page
    assert "host time drifts from process to process: only figures of one comparison compare" in page


def test_the_versions_of_packages_whose_kernels_are_compared_stand_beside_the_others() -> None:
    profile = profiles.profile()
    environment = profile.device.environment.model_copy(update={"packages": {"liger-kernel": "0.8.5"}})
    device = profile.device.model_copy(update={"environment": environment})
    assert ", liger-kernel 0.8.5 | its own version queries |" in render_profile(profiles.profile(device=device))


def test_notes_of_the_gpu_stand_on_the_first_screen_and_with_the_device() -> None:
    page = render_profile(profiles.profile(device_notes=("H100 was asked for.", "2 GPUs are here.")))

    assert page.count("Note: H100 was asked for.") == 2 and page.count("Note: 2 GPUs are here.") == 2
    assert "Note: H100 was asked for." in page.split("\n## ")[0]


def test_every_class_has_words_for_what_is_left() -> None:
    for bottleneck in Bottleneck:
        modes = (profiles.old_profile().modes[1].model_copy(update={"bottleneck": bottleneck}),)
        assert f"**{bottleneck.value.replace('_', ' ')}**" in render_profile(profiles.profile(modes=modes))


def test_settings_that_no_knob_is_for_are_not_what_to_do_first() -> None:
    why = "forward has no knob that can be changed: autotune sets them (line 20)"
    settings = Recommendation(strategy="settings", why=why, predicted_low=1.0, predicted_high=1.0)

    timed = render_profile(profiles.profile(recommendations=(settings,)))
    untimed = render_profile(profiles.predicted_profile(recommendations=(settings,)))

    assert f"**No strategy applies**: {why}." in timed and "Do first" not in timed
    assert f"**Nothing to try was found** in the source: {why}." in untimed and "Do first" not in untimed


def test_knobs_of_which_nothing_is_predicted_are_told_to_be_swept_to_make_sure() -> None:
    settings = Recommendation(
        strategy="settings", why="6 knobs can be changed", predicted_low=1.0, predicted_high=1.004, lines=(20,)
    )

    told = render_profile(profiles.profile(recommendations=(settings,)))

    assert "**Nothing is predicted to bring much**: the settings can be swept to make sure" in told
    assert "No strategy applies" not in told
