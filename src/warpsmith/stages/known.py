"""What is known of a run so far, in a few short lines for whoever goes on with it. Reads only.

However much a run has tried, an agent can keep these lines in mind: the pages hold the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.contracts.profile import Profile
from warpsmith.contracts.result import FinalResult, RunState
from warpsmith.contracts.variant import Variant
from warpsmith.stages.in_place import handed_over, taken_back_told
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace

#: Chosen: together with the rest of a next step under 2,000 tokens.
MOST_VARIANTS, MOST_CHARACTERS = 12, 200

#: States in which the profile is what is known; later the variants are.
_BY_THE_PROFILE = (RunState.PREDICTED, RunState.WAITING_OPTIMIZE, RunState.OPTIMIZE)


def known_so_far(workspace: Workspace, state: RunState) -> tuple[str, ...]:
    """The profile while variants are to come, each variant (the last ones, where there are many), the end.

    Raises UsageError where a document is damaged.
    """
    lines = list(_of_the_profile(workspace)) if state in _BY_THE_PROFILE else []
    lines += [*_of_the_variants(workspace), *_of_the_end(workspace)]
    return tuple(line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 1]}…" for line in lines)


def _of_the_profile(workspace: Workspace) -> Iterator[str]:
    profile = read_document(workspace.profile, Profile)
    for mode in profile.modes:
        share = "" if mode.share_of_ceiling is None else f" at {mode.share_of_ceiling:.0%} of its ceiling"
        yield f"profile, {mode.mode.value}: {mode.bottleneck.value}{share} ({profile.origin})"
    if profile.recommendations:
        yield f"profile recommends: {', '.join(each.strategy for each in profile.recommendations)}"


def _of_the_variants(workspace: Workspace) -> Iterator[str]:
    records = workspace.variant_records()
    if (left_out := len(records) - MOST_VARIANTS) > 0:
        yield f"{left_out} variants before these; each has its notes in {workspace.relative(workspace.directory)}"
    for path in records[-MOST_VARIANTS:]:
        variant = read_document(path, Variant)
        result = variant.status.value
        if variant.verdict is not None:
            result = f"{variant.verdict.outcome.value}, {variant.verdict.goal_in_short} ({variant.origin})"
        yield f"v{variant.number} {variant.strategy}: {result}"


def _of_the_end(workspace: Workspace) -> Iterator[str]:
    if not workspace.final_result.is_file():
        return
    final = read_document(workspace.final_result, FinalResult)
    yield f"{final.outcome.value}: {final.reason}"
    if final.taken_back_at is not None:
        yield taken_back_told(final)
    if (given := handed_over(workspace)) is not None:
        yield given.told
