"""Results of the later stages, and the next step that follows from what is on disk."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Literal

from warpsmith.contracts.base import Contract, Document, Sha256
from warpsmith.contracts.device import Origin
from warpsmith.contracts.verdict import Interval, TargetResult, Verdict


class PredictionCheck(Contract):
    """A variant's predicted speed-up beside the one that the search measured."""

    number: int
    predicted_low: float
    predicted_high: float
    measured: float
    place: Literal["within", "above", "below"]


class PredictionSummary(Contract):
    """How good the predictions were. `measured_over_middle` is the geometric mean of measured over the middle of the
    range, None where nothing was measured: above 1, more came of the variants than was predicted."""

    checks: tuple[PredictionCheck, ...]
    measured_over_middle: float | None

    def count(self, place: Literal["within", "above", "below"]) -> int:
        return sum(check.place == place for check in self.checks)


class AblatedPart(Contract):
    """One part of what won the search: `gain` is how many times as fast it was with the part as without it, in the
    goal. None where that was not measured, and then `detail` says why."""

    name: str
    needed: bool
    gain: Interval | None = None
    detail: str | None = None


class SearchResult(Document):
    """optimization/<kernel>/comparison.json: how the search ended. `winner` None means no improvement was found.

    `target` says whether the best, the original where there is no winner, meets the target metric. `parts` are those of
    the best before what brought nothing was taken out of it; none where it had one part alone.
    """

    run_id: str
    winner: int | None
    winner_sha256: Sha256 | None
    stop_reason: str
    noise_floor: float | None
    variants: tuple[int, ...]
    origin: Origin
    predictions: PredictionSummary | None = None
    target: TargetResult | None = None
    parts: tuple[AblatedPart, ...] = ()


class FinalOutcome(str, Enum):
    APPLIED = "applied"
    NO_IMPROVEMENT = "no_improvement"
    REVERTED = "reverted"
    NOT_CONFIRMED = "not_confirmed"


class TestRun(Contract):
    """One run of the kernel's own tests. `counts` by outcome ("passed", "failed", "skipped").

    `reason` says why it is no pass, and is None exactly when it is one. `failed` are pytest's node ids, such as
    "tests/test_k.py::test_large[bf16]"; empty also where the output names none.
    """

    __test__: ClassVar[bool] = False  # pytest takes a class of this name for tests

    command: str
    passed: bool
    counts: dict[str, int]
    duration_s: float
    output_tail: str
    reason: str | None = None
    failed: tuple[str, ...] = ()


class FailedTest(Contract):
    """One of the kernel's own tests, by its node id: in how many of the runs on either side it failed."""

    node_id: str
    winner_failures: int
    winner_runs: int
    original_failures: int
    original_runs: int

    @property
    def told(self) -> str:
        return (
            f"{self.node_id} failed in {self.winner_failures} of {self.winner_runs} runs on the winner and in "
            f"{self.original_failures} of {self.original_runs} on the original"
        )


class FinalResult(Document):
    """optimization/<kernel>/report.json. `confirmation` is the winner measured afresh; only it is reported.

    `tests` are the run on the winner that decided, `failed_tests` what failed in any run, on either side.
    `taken_back_at` is when `warpsmith revert` brought the original back after all.
    """

    run_id: str
    outcome: FinalOutcome
    reason: str
    winner: int | None
    applied_sha256: Sha256 | None = None
    original_sha256: Sha256
    origin: Origin
    confirmation: Verdict | None = None
    tests: TestRun | None = None
    failed_tests: tuple[FailedTest, ...] = ()
    style: str | None = None
    taken_back_at: str | None = None


class TakenBack(Contract):
    """What `warpsmith revert` did: the original lies in `source`. `was_back` says that it lay there already."""

    kernel: str
    run_id: str
    source: str
    winner: int | None
    original_sha256: Sha256
    was_back: bool


class RunState(str, Enum):
    """Where a run stands. `waiting_*` need a person, `predicted` needs a GPU: it has a profile of nothing measured."""

    NEW = "new"
    PROFILE = "profile"
    PREDICTED = "predicted"
    WAITING_OPTIMIZE = "waiting_for_approval_to_optimize"
    OPTIMIZE = "optimize"
    WAITING_FINALIZE = "waiting_for_approval_to_finalize"
    FINALIZE = "finalize"
    DONE = "done"


class NextStep(Contract):
    """The one legal next command, why, and what to read before it. `for_a_person` marks a decision that is theirs.

    `read` are pages of the run, `reference` is the page of the skill about this step. `where` says what kind of machine
    the command needs, where another than this one.
    """

    kernel: str
    state: RunState
    command: str
    why: str
    read: tuple[str, ...]
    for_a_person: bool = False
    known_so_far: tuple[str, ...] = ()
    where: str | None = None
    reference: str | None = None

    @property
    def told(self) -> str:
        """The command for a person to read, with the machine that it needs."""
        return self.command if self.where is None else f"{self.where}: {self.command}"
