"""`warpsmith verify`: what the shell sees of a run that agrees with its samples, and of one that does not."""

from __future__ import annotations

import json
import re

import pytest
from command_line import Command
from simulated_run import KERNEL, Run

from warpsmith.contracts.verification import Difference, Verification


@pytest.fixture
def profiled(begun: Run) -> Run:
    begun.profile()
    return begun


def test_a_run_that_agrees_is_done_and_says_how_much_was_recomputed(command: Command, profiled: Run) -> None:
    ended = command(profiled.root, "verify", KERNEL)
    assert ended.exit_code == 0
    assert re.match(
        rf"{KERNEL}: run \S+ agrees: [\d,]+ numbers and \d+ lines in 4 files follow from \d+ raw answers "
        r"\(measurements\.jsonl\) gone through again: profile",
        ended.told,
    )
    assert "profile of run" in ended.err
    assert command(profiled.root, "verify", KERNEL, "--quiet").err == ""


def test_what_differs_is_listed_and_the_run_rejected(command: Command, profiled: Run) -> None:
    page = profiled.workspace.profile_page
    first, _, rest = page.read_text(encoding="utf-8").partition("\n")
    page.write_text(f"# Another kernel\n{rest}", encoding="utf-8")
    ended = command(profiled.root, "verify", KERNEL)
    assert ended.exit_code == 5
    assert " differs in 1 place; " in ended.out
    assert f" profile.md: line 1 is '# Another kernel', the samples give {first!r} " in ended.told
    assert max(map(len, ended.out.splitlines())) <= 100

    as_json = command(profiled.root, "verify", KERNEL, "--json", "--quiet")
    assert as_json.exit_code == 5
    assert Verification.model_validate(json.loads(as_json.out)).differences == (
        Difference(document="profile.md", place="line 1", found="'# Another kernel'", expected=repr(first)),
    )


def test_an_earlier_run_is_named_by_how_its_id_begins(command: Command, profiled: Run) -> None:
    run_id = json.loads(profiled.workspace.request.read_bytes())["run_id"]
    ended = command(profiled.root, "verify", KERNEL, "--run", run_id[:8], "--json")
    assert json.loads(ended.out)["run_id"] == run_id
    assert command(profiled.root, "verify", KERNEL, "--run", "1999").exit_code == 2


def test_without_a_run_there_is_nothing_to_verify(command: Command, begun: Run) -> None:
    unfinished = command(begun.root, "verify", KERNEL)
    assert (unfinished.exit_code, f"next: warpsmith profile {KERNEL}" in unfinished.err) == (3, True)
    begun.workspace.request.unlink()
    none = command(begun.root, "verify", KERNEL)
    assert (none.exit_code, f"next: warpsmith run {KERNEL}" in none.err) == (2, True)
