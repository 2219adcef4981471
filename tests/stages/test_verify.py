"""A run is recomputed from its raw answers, and whatever on disk says otherwise is named."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from simulated_gpu import ENVIRONMENT
from simulated_run import KERNEL, TARGET_FILE, Run, make_repository
from tampering import Record, double_the_original, edit, edit_answer, records, rewrite, told, verified

from warpsmith.contracts.base import Contract
from warpsmith.contracts.errors import PreflightError, Unavailable, UsageError
from warpsmith.contracts.result import FinalOutcome, SearchResult
from warpsmith.measure.worker.identity import PROTOCOL_VERSION, identity_of
from warpsmith.measure.worker.protocol import AnyQuestion, WorkerFailure
from warpsmith.project.recordings import RecordedRun
from warpsmith.report import figures
from warpsmith.stages.optimizer import optimize
from warpsmith.stages.profiler import profile
from warpsmith.stages.recording import recording_of
from warpsmith.stages.samples import damage_of, samples_of
from warpsmith.workspace.documents import read_document, write_bytes
from warpsmith.workspace.runs import archive
from warpsmith.workspace.store import content_sha256

#: What the three stages write beside the files of variants.
WRITTEN = (
    *("profile.json", "profile.md", "benchmarks/v0_baseline.csv", "sweep.csv", "comparison.json", "comparison.md"),
    *("report.json", "report.md", "report.html", "benchmarks/v0_samples.csv", "benchmarks/confirmation_samples.csv"),
)


@pytest.fixture(scope="module", autouse=True)
def undrawn() -> Iterator[None]:
    """Figures take most of the time, and none of them is compared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "_write", lambda figure, path, **options: write_bytes(path, b"a figure"))
        yield


@pytest.fixture(scope="module")
def finished_tree(optimized_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, with a style command that gave the winner another layout."""
    root = tmp_path_factory.mktemp("finished") / "repository"
    shutil.copytree(optimized_tree, root)
    run = Run.of(root)
    run.configure("style_command: python add_lines.py")
    (root / "add_lines.py").write_text("import sys\nwith open(sys.argv[1], 'a') as file:\n    file.write('\\n\\n')\n")
    result = run.finalize()
    assert result.outcome is FinalOutcome.APPLIED
    assert result.applied_sha256 != read_document(run.workspace.search_result, SearchResult).winner_sha256
    return root


@pytest.fixture
def finished(finished_tree: Path, tmp_path: Path) -> Run:
    return Run.of(Path(shutil.copytree(finished_tree, tmp_path / "finished")))


def contents(root: Path) -> dict[Path, str]:
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in root.rglob("*") if path.is_file()}


def test_an_honest_run_agrees_with_its_samples_and_is_left_as_it_is(finished: Run) -> None:
    stored = len(records(finished))
    with finished.workspace.measurements.open("ab") as file:
        file.write(b'{"identity": "torn')
    before = contents(finished.root)
    found = verified(finished)
    assert told(found) == []
    assert found.stages == ("profile", "optimize", "finalize")
    assert (found.samples, found.answers) == ("measurements.jsonl", stored)
    assert 0 < found.asked <= stored
    of_variants = [
        *finished.workspace.directory.glob(f"{KERNEL}_v*"),
        *finished.workspace.directory.glob("*/v[1-9]*.csv"),
    ]
    assert found.documents == len(WRITTEN) + len(of_variants)
    assert found.numbers > 1000
    assert contents(finished.root) == before


def test_whatever_is_changed_afterwards_is_named_with_its_place(finished: Run) -> None:
    workspace, winner = finished.workspace, read_document(finished.workspace.search_result, SearchResult).winner
    assert winner is not None
    record = json.loads(workspace.variant_record(winner).read_bytes())
    goal = record["verdict"]["goal"]["value"]
    record["verdict"]["goal"]["value"] = 9.75
    workspace.variant_record(winner).write_text(json.dumps(record))
    rows = workspace.results_csv(winner).read_text().splitlines()
    cells = rows[2].split(",")
    cells[8] = "0.5"
    was = rows[2].split(",")[8]
    workspace.results_csv(winner).write_text("\n".join([*rows[:2], ",".join(cells), *rows[3:]]) + "\n")
    lines = workspace.report_page.read_text(encoding="utf-8").split("\n")
    workspace.report_page.write_text("\n".join(["Twice as fast.", *lines[1:]]), encoding="utf-8")
    source = workspace.variant(winner).read_text(encoding="utf-8").split("\n")
    workspace.variant(winner).write_text("\n".join([*source[:-1], "SPEED = 2", ""]), encoding="utf-8")
    edit(workspace.final_result, '"outcome": "applied"', '"outcome": "not_confirmed"')
    workspace.comparison.unlink()
    workspace.variant_notes(99).write_text("another")
    workspace.variant_record(99).write_bytes(workspace.variant_record(winner).read_bytes())
    workspace.results_csv(98).write_text("another")
    (workspace.directory / f"{KERNEL}_v0{winner}.json").write_text("another")
    (workspace.directory / f"{KERNEL}_v1.json.damaged").write_text("set aside")

    assert sorted(told(verified(finished))) == sorted(
        [
            f"{KERNEL}_v{winner}.json: verdict.goal.value is 9.75, the samples give {goal}",
            f"benchmarks/v{winner}_results.csv: row 2, column y_value_50 is '0.5', the samples give '{was}'",
            f"report.md: line 1 is 'Twice as fast.', the samples give {lines[0]!r}",
            f"{KERNEL}_v{winner}.py: line {len(source)} is 'SPEED = 2', the samples give not there",
            'report.json: outcome is "not_confirmed", the samples give "applied"',
            "comparison.md: is not there, and the samples give it",
            f"{KERNEL}_v99.json: is there, and the samples give no such file",
            "benchmarks/v98_results.csv: is there, and the samples give no such file",
            f"{KERNEL}_v0{winner}.json: is there, and the samples give no such file",
            f"{KERNEL}_v99_notes.md: is there, and the samples give no such file",
        ]
    )


def test_an_earlier_run_is_verified_where_it_lies(profiled: Run) -> None:
    archive(profiled.workspace)
    (past,) = profiled.workspace.past()
    found = verified(profiled, past)
    assert (told(found), found.run_id, found.stages) == ([], past.run_id, ("profile",))


def test_a_run_that_was_reverted_agrees_too(optimized: Run) -> None:
    optimized.write_tests("def test_the_kernel() -> None:\n    assert False\n")
    assert optimized.finalize().outcome is FinalOutcome.REVERTED
    assert told(verified(optimized)) == []


def test_pages_that_show_a_layout_which_is_there_no_more_are_left_out_and_that_is_said(finished: Run) -> None:
    finished.production.write_text("x = 1\n")
    found = verified(finished)
    assert told(found) == []
    assert any(left_out.startswith("report.md and report.html: ") for left_out in found.left_out)


def test_a_search_that_ran_out_of_time_ends_where_it_ended(profiled: Run) -> None:
    readings = itertools.chain([0.0, 0.0], itertools.repeat(1812.3))
    search = optimize(replace(profiled.session(), clock=lambda: next(readings)))
    assert search.stop_reason == "time budget used: 1812 s of 1800 s"
    assert len(search.variants) == 1
    found = verified(profiled)
    assert (told(found), found.stages) == ([], ("profile", "optimize"))


def test_a_profile_alone_is_verified_alone(profiled: Run) -> None:
    found = verified(profiled)
    assert (told(found), found.stages, found.documents) == ([], ("profile",), 4)


def test_a_sample_that_was_changed_shows_by_itself_and_in_the_figures(profiled: Run) -> None:
    edit_answer(profiled, double_the_original)
    found = told(verified(profiled))
    by_itself = next(line for line in found if "is not what was written: its own sha256" in line)
    assert by_itself.startswith("measurements.jsonl: answer ")
    assert any(
        re.match(r"profile\.json: baselines\[0\]\.\S+ is 0\.\d+, the samples give 0\.\d+", line) for line in found
    )
    assert any(line.startswith("benchmarks/v0_baseline.csv: row 1, column y_value_50 is") for line in found)


def test_a_changed_sample_with_a_hash_that_fits_still_gives_other_figures(profiled: Run) -> None:
    edit_answer(profiled, double_the_original, signed=True)
    found = told(verified(profiled))
    assert not any(line.startswith("measurements.jsonl") for line in found)
    assert any(line.startswith("profile.json: ") for line in found)


def test_a_sample_that_took_no_time_is_no_answer(profiled: Run) -> None:
    def no_time(record: Record) -> None:
        record["answer"]["blocks"][0]["samples_ms"][0] = 0.0

    edit_answer(profiled, no_time, signed=True)
    found = told(verified(profiled))
    assert any(line.endswith("its answer is none to 'time'") for line in found)
    assert any("the answers do not lead to where the run says" in line for line in found)


def test_a_changed_question_is_no_longer_the_one_that_was_answered(profiled: Run) -> None:
    def another_seed(record: Record) -> None:
        record["question"]["seed"] = 5

    edit_answer(profiled, another_seed, signed=True)
    (line,) = told(verified(profiled))
    assert line.endswith("its identity is not the hash of its question: the question was changed after it was asked")


def test_an_answer_of_another_gpu_than_the_profile_says_is_named(profiled: Run) -> None:
    def another_driver(record: Record) -> None:
        record["environment"]["driver"] = "1.2"

    edit_answer(profiled, another_driver, signed=True)
    (line,) = told(verified(profiled))
    assert line.endswith(f"was not measured on what the profile says: driver 1.2, there {ENVIRONMENT.driver}")


def test_an_answer_that_is_gone_is_named_with_the_stage_that_needs_it(profiled: Run) -> None:
    found = records(profiled)
    gone = next(record for record in found if record["kind"] == "memory")
    rewrite(profiled, [record for record in found if record is not gone])
    verification = verified(profiled)
    (line,) = told(verification)
    assert line.startswith(
        "measurements.jsonl: stage profile: the answers do not lead to where the run says: the recording has no answer "
        "to 'memory' (case="
    )
    assert verification.stages == ()


def test_a_snapshot_that_was_edited_is_named(profiled: Run) -> None:
    with profiled.workspace.original.open("a") as file:
        file.write("# edited\n")
    first, *_ = told(verified(profiled))
    assert first.startswith(f"original_{KERNEL}.py: its sha256 is ")


def test_answers_of_another_protocol_cannot_be_verified_by_this_version(profiled: Run) -> None:
    old = []
    for record in records(profiled):
        older = {key: value for key, value in record.items() if key not in ("protocol", "sha256")}
        old.append({**older, "identity": identity_of(record["question"], PROTOCOL_VERSION - 1)})
    rewrite(profiled, old)
    with pytest.raises(Unavailable, match=f"no answer to a question of protocol {PROTOCOL_VERSION}") as caught:
        verified(profiled)
    assert caught.value.next_command == f"warpsmith run {KERNEL} --fresh   (on a machine with a GPU)"


def test_a_run_whose_own_answers_are_gone_is_verified_with_the_recording_that_it_became(finished: Run) -> None:
    recorded = RecordedRun.of(finished.root / TARGET_FILE, KERNEL)
    recording, answers = recording_of(finished.workspace, finished.root / TARGET_FILE)
    recorded.write(recording, answers, finished.workspace.original.read_bytes())
    finished.workspace.measurements.unlink()
    found = verified(finished)
    assert (told(found), found.samples) == ([], f"benchmark/data/{KERNEL}/measurements.jsonl.gz")
    longer = answers + b"\n"
    recorded.answers.write_bytes(gzip.compress(longer))
    samples = samples_of(finished.workspace, recording.request, recorded)
    place = f"benchmark/data/{KERNEL}/measurements.jsonl.gz"
    assert [str(difference).partition(", recording.json")[0] for difference in damage_of(samples)] == [
        f"{place}: has sha256 {hashlib.sha256(longer).hexdigest()[:12]}",
        f"{place}: has {recording.answers + 1} answers",
    ]


def test_what_a_recording_says_beside_its_answers_is_held_against_the_run_that_became_it(finished: Run) -> None:
    recorded = RecordedRun.of(finished.root / TARGET_FILE, KERNEL)
    recording, answers = recording_of(finished.workspace, finished.root / TARGET_FILE)
    recorded.write(recording, answers, finished.workspace.original.read_bytes())
    finished.workspace.measurements.unlink()
    assert not any("created_at" in left_out for left_out in verified(finished).left_out)

    edit(recorded.document, f'"measured_at": "{recording.measured_at}', '"measured_at": "2001-01-01T00:00:00+00:00')
    edit(recorded.document, f'"driver": "{ENVIRONMENT.driver}"', '"driver": "1.2"')
    recorded.original.write_text("x = 1\n")
    edit(finished.workspace.request, '"device": "auto"', '"device": "7"')
    edit(finished.workspace.final_result, '"style": "', '"style": "of course, ')
    of = f"benchmark/data/{KERNEL}"
    found = told(verified(finished))
    assert [line for line in found if not line.startswith("report.")] == [
        f"{of}/recording.json: measured_at is 2001-01-01T00:00:00+00:00, the samples give {recording.measured_at}",
        f"{of}/recording.json: environment: is another than the answers were measured on: driver 1.2, "
        f"there {ENVIRONMENT.driver}",
        f"{of}/original_{KERNEL}.py: its sha256 is {hashlib.sha256(recorded.original.read_bytes()).hexdigest()}, "
        f"the samples give {recording.source_sha256}",
        'request.json: device is "7", the samples give "auto"',
    ]
    assert any(line.startswith('report.json: style is "of course, ') for line in found)


def test_a_recording_without_its_answers_is_told_with_what_brings_them_back(finished: Run) -> None:
    recorded = RecordedRun.of(finished.root / TARGET_FILE, KERNEL)
    recording, answers = recording_of(finished.workspace, finished.root / TARGET_FILE)
    recorded.write(recording, answers, finished.workspace.original.read_bytes())
    finished.workspace.measurements.unlink()
    recorded.answers.unlink()
    with pytest.raises(UsageError, match=r"measurements\.jsonl\.gz is not there, though recording\.json") as caught:
        verified(finished)
    assert caught.value.next_command == f"git checkout -- {recorded.answers}"


def test_a_damaged_report_is_blamed_and_not_the_answers(finished: Run) -> None:
    finished.workspace.final_result.write_text("{")
    with pytest.raises(UsageError, match=r"report\.json is damaged: expected a FinalResult"):
        verified(finished)


@dataclass
class NoCompiler:
    """A worker without a GPU that cannot compile either."""

    def ask_all(self, questions: Sequence[AnyQuestion]) -> list[Contract | WorkerFailure]:
        return [WorkerFailure(status="timeout", message="no answer within 600 s") for _ in questions]


def test_a_replay_is_verified_with_the_recording_and_its_own_copy_has_to_be_the_same(finished: Run) -> None:
    recorded = RecordedRun.of(finished.root / TARGET_FILE, KERNEL)
    recording, answers = recording_of(finished.workspace, finished.root / TARGET_FILE)
    recorded.write(recording, answers, finished.workspace.original.read_bytes())
    archive(finished.workspace)
    finished.production.write_bytes(recorded.original.read_bytes())
    finished.ask_for(recording=recording.reference)
    session = finished.session()
    session.worker = replace(session.worker, live=None, recording=recorded.store(recording), offline=NoCompiler())
    assert profile(session).offline is not None

    found = verified(finished)
    assert (told(found), found.samples) == ([], f"benchmark/data/{KERNEL}/measurements.jsonl.gz")

    measured_on = f'"measured_at": "{recording.measured_at[:10]}'
    edit(recorded.document, measured_on, '"measured_at": "2001-01-01')
    (other,) = told(verified(finished))
    date = f"{recording.environment.gpu_name}, {recording.measured_at[:10]}"
    assert other.startswith(f"benchmark/data/{KERNEL}/recording.json: is of answers {recording.answers_sha256[:12]} (")
    assert other.endswith(f"request.json says that {recording.answers_sha256[:12]} ({date}) were replayed")
    edit(recorded.document, '"measured_at": "2001-01-01', measured_on)

    kept = records(finished)
    memory, timing = (next(record for record in kept if record["kind"] == kind) for kind in ("memory", "time"))
    earlier = json.loads(json.dumps(timing))
    double_the_original(earlier)
    rewrite(finished, [earlier, *kept])
    (replaced,) = told(verified(finished))
    assert replaced.startswith("measurements.jsonl: time (case=")
    assert replaced.endswith("is not what the recording has")

    timing["recorded_at"] = "2030-01-01T00:00:00+00:00"
    timing["sha256"] = content_sha256(timing)
    rewrite(finished, [record for record in kept if record is not memory])
    missing, changed = sorted(told(verified(finished)))
    assert missing.startswith("measurements.jsonl: memory (case=")
    assert missing.endswith("is not there, though the run follows from it")
    assert changed.startswith("measurements.jsonl: time (case=")
    assert changed.endswith("is not what the recording has")


def test_where_there_is_nothing_to_verify_it_says_what_to_do(tmp_path: Path, profiled: Run) -> None:
    none = Run.of(make_repository(tmp_path / "none"))
    with pytest.raises(UsageError, match="nothing to verify") as no_run:
        verified(none)
    assert no_run.value.next_command == f"warpsmith run {KERNEL}"
    begun = Run.begin(make_repository(tmp_path / "begun"))
    with pytest.raises(PreflightError, match="has no profile") as no_profile:
        verified(begun)
    assert no_profile.value.next_command == f"warpsmith profile {KERNEL}"
    profiled.workspace.measurements.unlink()
    with pytest.raises(UsageError, match="its raw answers") as no_answers:
        verified(profiled)
    assert no_answers.value.next_command == f"warpsmith run {KERNEL} --fresh"
