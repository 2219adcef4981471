"""One file through the gate by itself: what is refused before anything runs, what is asked, and what is told of it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from simulated_bench import LARGE, SMALL
from simulated_gpu import CASES, DEVICE, SimulatedGpu, real_target
from simulated_run import KERNEL, SOURCE, TARGET_FILE, make_repository

from warpsmith.contracts.errors import PreflightError, Unavailable, UsageError
from warpsmith.contracts.examination import CheckResult, Fault, SourceFinding
from warpsmith.contracts.mutants import MutantCheck
from warpsmith.contracts.sanitizing import Sanitization, SanitizerError, SanitizerTool
from warpsmith.contracts.target import TargetSpec
from warpsmith.device.gpus import Gpu
from warpsmith.measure.worker.protocol import AnyQuestion, Check, Sanitize, WorkerError, WorkerFailure
from warpsmith.project.config import load_config
from warpsmith.stages.check import IS_THE_ORIGINAL, check
from warpsmith.stages.check_request import INTERPRETER, LARGEST_BYTES, Asked

MARK = "# candidate\n"
#: Where the candidate lies, as a person gave it.
CANDIDATE = "candidate.py"


def is_of_original(question: Check) -> bool:
    return question.candidate == question.original


@dataclass
class Gate:
    """Checks of files of one small repository, on a simulated GPU or without one."""

    root: Path
    gpu: SimulatedGpu
    told: list[str] = field(default_factory=list)
    #: how each worker was opened: (its GPU, whether it interprets)
    opened: list[tuple[str, bool]] = field(default_factory=list)

    def __call__(self, file: Path | None = None, **asked: Any) -> CheckResult:
        file = file or self.source(MARK)
        return check(self.root, load_config(self.root), KERNEL, Asked(file, **asked), self.told.append)

    def source(self, line: str, name: str = CANDIDATE) -> Path:
        """The kernel in a file outside the repository, with a line more."""
        path = self.root.parent / name
        path.write_text((self.root / SOURCE).read_text() + line)
        return path

    @property
    def checked(self) -> list[str]:
        of_candidates = [each for each in self.gpu.asked if isinstance(each, Check) and not is_of_original(each)]
        return [case.name for asked in of_candidates for case in asked.cases]


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    root = make_repository(tmp_path / "repository")
    found = Gate(root, SimulatedGpu(root))

    @contextmanager
    def opened(root: Path, gpu_uuid: str, *, interprets: bool = False) -> Iterator[SimulatedGpu]:
        found.opened.append((gpu_uuid, interprets))
        yield found.gpu

    gpu = Gpu(index=0, uuid=DEVICE.uuid, name=DEVICE.name, capability=DEVICE.capability, other_processes=())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("warpsmith.stages.check.worker_outside_runs", opened)
    monkeypatch.setattr("warpsmith.stages.check.gpu_for", lambda device: gpu)
    return found


@pytest.fixture
def no_gpu(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(device: str) -> Gpu:
        raise Unavailable(f"no GPU {device!r} here", next_command="warpsmith doctor")

    monkeypatch.setattr("warpsmith.stages.check.gpu_for", missing)


def failing(status: str, message: str, *cases: str) -> Callable[[AnyQuestion], None]:
    """What the worker does instead of checking these cases, or any."""

    def fail(question: AnyQuestion) -> None:
        if isinstance(question, Check) and (not cases or question.cases[0].name in cases):
            raise WorkerError(WorkerFailure.model_validate({"status": status, "message": message}))

    return fail


#: float32 cases of the interpreter: the last moves too much for it.
FEW_BYTES, FEWER_BYTES, MANY_BYTES = "4x40-fp32", "1x40-fp32", "8192x4096-fp32"


def in_float32(spec: TargetSpec, *names: str) -> TargetSpec:
    (wide,) = [case for case in real_target().cases if case.name == MANY_BYTES]
    rows = {FEW_BYTES: 4, FEWER_BYTES: 1}
    narrow = {name: wide.model_copy(update={"axes": {"M": rows[name], "N": 40}}) for name in rows}
    cases = tuple({MANY_BYTES: wide, **narrow}[name] for name in names)
    assert tuple(case.name for case in cases) == names
    costs = {case.name: {mode: real_target().cost(case, mode) for mode in spec.modes} for case in cases}
    return spec.model_copy(update={"cases": (*spec.cases, *cases), "costs": {**spec.costs, **costs}})


def test_a_right_source_passes_at_every_case_and_the_repository_is_as_it_was(gate: Gate) -> None:
    before = sorted(gate.root.rglob("*"))
    result = gate()

    assert (result.passed, result.on, result.cases, result.notes) == (True, DEVICE.name, CASES_IN_ORDER, ())
    assert gate.checked == list(CASES_IN_ORDER)
    assert gate.told[:2] == ["each case is given 600 s at most", f"{CASES_IN_ORDER[0]} (1 of {len(CASES)})"]
    assert gate.opened == [(DEVICE.uuid, False)]
    assert sorted(gate.root.rglob("*")) == before


CASES_IN_ORDER = tuple(case.name for case in real_target().cases if case.name in CASES)


def test_only_the_cases_and_the_seed_that_were_asked_for_are_used(gate: Gate) -> None:
    result = gate(cases=(LARGE, SMALL), seed=7)

    assert gate.checked == [SMALL, LARGE]
    assert {question.seed for question in gate.gpu.asked} == {7}
    assert (result.seed, result.cases) == (7, (SMALL, LARGE))


def test_a_wrong_result_names_its_case_and_the_command_that_shows_it_again(gate: Gate) -> None:
    gate.gpu.wrong_result = lambda work: "dx is off" if work.case.name == LARGE else None
    result = gate(seed=3)

    assert not result.passed
    assert [check.case.name for check in result.examination.failed] == [LARGE]
    assert len(result.examination.checks) == len(CASES)
    file = gate.root.parent / CANDIDATE
    assert result.examination.command == f"warpsmith check {KERNEL} {file} --case {LARGE} --seed 3"


def test_a_source_that_is_not_admitted_is_not_run_and_its_lines_are_shown(gate: Gate) -> None:
    result = gate(gate.source("import os\n"))

    lines = (gate.root / SOURCE).read_text().count("\n") + 1
    (finding,) = result.examination.findings
    assert (finding.line, finding.text, finding.of_original) == (lines, "import os", False)
    assert finding.message.startswith("imports os; allowed are ")
    assert (result.passed, result.on, result.cases, gate.checked) == (False, None, (), [])


def test_a_line_that_is_gone_is_shown_as_the_original_has_it(gate: Gate) -> None:
    path = gate.source("")
    entry = "def rms_norm_forward("
    path.write_text(path.read_text().replace(entry, "def _rms_norm_forward("))
    found = gate(path).examination.findings

    assert [each for each in found if each.of_original] == [
        SourceFinding(
            message="rms_norm_forward is gone (line of the original)",
            line=1 + (gate.root / SOURCE).read_text().split("\n").index(entry),
            text=entry,
            of_original=True,
        )
    ]


def test_what_is_no_python_is_refused_with_its_line(gate: Gate) -> None:
    path = gate.source("")
    path.write_text("def f(:\n    pass\n")
    (finding,) = gate(path).examination.findings

    assert (finding.line, finding.text) == (1, "def f(:")
    assert finding.message.startswith("the source is not valid Python")


def test_a_worker_that_dies_costs_one_case_and_the_others_have_their_turn(gate: Gate) -> None:
    gate.gpu.watch = failing("died", "the worker ended with status -11\nSegmentation fault", SMALL)
    result = gate(cases=(SMALL, LARGE))

    fault = Fault(status="died", message="the worker ended with status -11\nSegmentation fault", case=SMALL)
    assert result.examination.faults == (fault,)
    assert [check.case.name for check in result.examination.checks] == [LARGE]
    assert (result.passed, result.left_out) == (False, {})
    assert f" --case {SMALL} " in (result.examination.command or "")


@pytest.mark.parametrize("status", ["timeout", "import_failed"])
def test_what_would_meet_every_case_ends_the_check_at_the_first(gate: Gate, status: str) -> None:
    path = gate.source(MARK)
    gate.gpu.watch = failing(status, f"{path}: no")
    result = gate(path, cases=(SMALL, LARGE))

    assert [fault.case for fault in result.examination.faults] == [SMALL]
    assert result.cases == (SMALL,)
    assert result.left_out == {LARGE: f"no turn after: {status}: {path}: no"}


@pytest.mark.parametrize(
    ("status", "message"),
    [("bad_target", "the reference gives no output"), ("import_failed", "package warpsmith.kernels: no")],
)
def test_what_is_wrong_with_the_target_is_no_rejection(gate: Gate, status: str, message: str) -> None:
    gate.gpu.watch = failing(status, message)

    with pytest.raises(PreflightError, match=message):
        gate()


def mutant(name: str, **of: bool) -> MutantCheck:
    return MutantCheck.model_validate({"case": SMALL, "part": "output", "mutant": name, "refused": False, **of})


def test_a_pass_beside_a_reference_that_is_another_formula_is_none(gate: Gate) -> None:
    gate.gpu.original_rms = 0.5

    with pytest.raises(PreflightError, match=f"the reference disagrees with the original at {SMALL}, dx") as refused:
        gate(cases=(SMALL,))
    assert refused.value.next_command == f"edit {TARGET_FILE}"


def test_a_rejection_beside_a_reference_that_is_another_formula_is_none(gate: Gate) -> None:
    gate.gpu.original_rms = 0.5
    gate.gpu.wrong_result = lambda work: "dx is off"

    with pytest.raises(PreflightError, match="the reference disagrees with the original"):
        gate()


def test_a_pass_at_a_target_that_lets_wrong_results_pass_is_none(gate: Gate) -> None:
    gate.gpu.mutants = (mutant("zeros", refused=True), mutant("transposed"))

    with pytest.raises(PreflightError, match=f"at {SMALL}, output: transposed, passes"):
        gate(cases=(SMALL,))


def test_the_target_is_put_to_the_test_only_where_a_source_passed(gate: Gate) -> None:
    gate(cases=(SMALL, LARGE), seed=5)
    (question,) = (each for each in gate.gpu.asked if isinstance(each, Check) and is_of_original(each))
    assert ([case.name for case in question.cases], question.seed) == ([SMALL, LARGE], 5)

    gate.gpu.asked.clear()
    gate.gpu.wrong_result = lambda work: "dx is off"
    gate()
    assert not any(is_of_original(each) for each in gate.gpu.asked if isinstance(each, Check))


def test_the_original_itself_is_named_as_such(gate: Gate) -> None:
    result = gate(gate.root / SOURCE)

    assert (result.passed, result.notes) == (True, (IS_THE_ORIGINAL,))


def test_a_misspelt_case_is_told_with_the_nearest(gate: Gate) -> None:
    with pytest.raises(UsageError, match=f"--case 2048x2048-fb16: .*did you mean {SMALL}"):
        gate(cases=("2048x2048-fb16",))


def test_a_file_that_is_none_is_told_before_a_worker_is_started(gate: Gate) -> None:
    gate.source(MARK)
    folder, binary = gate.root, gate.root.parent / "binary.py"
    binary.write_bytes(b"\xff\xfe\x00")
    pipe, dangling, large = (gate.root.parent / name for name in ("pipe.py", "dangling.py", "large.py"))
    os.mkfifo(pipe)
    dangling.symlink_to("nowhere.py")
    with large.open("wb") as file:
        file.truncate(LARGEST_BYTES + 1)

    for path, said in (
        (pipe, "is no regular file"),
        (Path("/dev/zero"), "is no regular file"),
        (dangling, "is a link to nowhere.py, which is not there"),
        (large, "has 10000001 bytes, more than a source of 10000000 at most"),
        (gate.root.parent / "candidat.py", f"no such file; .* has {CANDIDATE}"),
        (folder, "is a folder"),
        (binary, "expected utf-8, found the byte 0xff"),
    ):
        with pytest.raises(UsageError, match=said):
            gate(path)
    assert gate.opened == []


def test_without_a_gpu_admission_still_refuses(gate: Gate, no_gpu: None) -> None:
    assert len(gate(gate.source("import os\n")).examination.findings) == 1


def test_without_a_gpu_what_is_admitted_is_unavailable_and_the_way_on_depends_on_the_cases(
    gate: Gate, no_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Unavailable, match="no GPU 'auto' here; the file is admitted") as halves_only:
        gate()
    described = gate.gpu._describe
    monkeypatch.setattr(gate.gpu, "_describe", lambda question: in_float32(described(question), MANY_BYTES))
    with pytest.raises(Unavailable) as wide:
        gate()
    monkeypatch.setattr(gate.gpu, "_describe", lambda question: in_float32(described(question), FEW_BYTES))
    with pytest.raises(Unavailable) as narrow:
        gate()

    file = gate.root.parent / CANDIDATE
    command = f"warpsmith check {KERNEL} {file}"
    assert halves_only.value.next_command == f"{command}   (on a machine with a GPU)"
    assert wide.value.next_command == f"{command} --case {MANY_BYTES} --seed 0 --device {INTERPRETER}"
    assert narrow.value.next_command == f"{command} --seed 0 --device {INTERPRETER}"


def test_the_interpreter_is_given_the_smallest_first_and_large_cases_by_name_alone(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    described, names = gate.gpu._describe, (MANY_BYTES, FEW_BYTES, FEWER_BYTES)
    monkeypatch.setattr(gate.gpu, "_describe", lambda question: in_float32(described(question), *names))
    gate.gpu.original_rms = 1e-6
    result = gate(device=INTERPRETER)
    assert gate.checked == [FEWER_BYTES, FEW_BYTES] == list(result.cases)
    assert re.fullmatch(r"it moves \d+\.\d MB, .* --case 8192x4096-fp32 examines it .*", result.left_out[MANY_BYTES])

    result = gate(device=INTERPRETER, cases=(MANY_BYTES,))
    assert list(result.cases) == [MANY_BYTES] and result.left_out == {}


def test_the_interpreter_is_asked_about_float32_alone_and_a_pass_there_is_none_on_a_gpu(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = gate.gpu._describe
    monkeypatch.setattr(gate.gpu, "_describe", lambda question: in_float32(described(question), FEW_BYTES))
    gate.gpu.original_rms = 1e-6
    result = gate(device=INTERPRETER)

    assert gate.checked == [FEW_BYTES] == list(result.cases)
    assert set(result.left_out) == set(CASES)
    assert "relied on in float32 alone, not in float16" in result.left_out["8192x4096-fp16"]
    assert gate.opened == [("", True)]
    assert (result.passed, result.on) == (True, "a CPU, in Triton's interpreter")
    assert "a pass in Triton's interpreter is no pass on a GPU" in result.notes[0]
    assert result.examination.command is not None and result.examination.command.endswith("--device interpreter")


@pytest.mark.parametrize("status", ["bad_target", "timeout"])
def test_what_the_interpreter_cannot_run_is_no_rejection(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    described = gate.gpu._describe
    monkeypatch.setattr(gate.gpu, "_describe", lambda question: in_float32(described(question), FEW_BYTES))
    gate.gpu.watch = failing(status, "the original itself fails")

    with pytest.raises(Unavailable, match="no way to examine this kernel"):
        gate(device=INTERPRETER)


def test_the_interpreter_is_not_asked_about_half_precision(gate: Gate) -> None:
    with pytest.raises(Unavailable, match=f"none of those asked for is: {SMALL}"):
        gate(device=INTERPRETER, cases=(SMALL,))


def test_a_pass_in_the_interpreter_where_no_kernel_ran_is_none(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    described = gate.gpu._describe
    monkeypatch.setattr(gate.gpu, "_describe", lambda question: in_float32(described(question), FEW_BYTES))
    gate.gpu.original_rms = 1e-6
    gate.gpu.skipped = {"own kernels": "the original launches no kernel of its own here"}
    with pytest.raises(Unavailable, match="launches no kernel on CPU tensors") as none:
        gate(device=INTERPRETER)
    assert "the file is not examined" in none.value.message
    assert none.value.next_command is not None and none.value.next_command.endswith("(on a machine with a GPU)")
    assert gate().passed, "on a GPU a kernel may be left out, and the report says that nothing was asked of it"

    gate.gpu.wrong_result = lambda work: "y is off"
    assert not gate(device=INTERPRETER).passed


def sanitized(gate: Gate) -> list[tuple[SanitizerTool, tuple[str, ...]]]:
    return [(each.tool, tuple(c.name for c in each.cases)) for each in gate.gpu.asked if isinstance(each, Sanitize)]


def test_compute_sanitizer_looks_at_what_passed_where_that_is_asked_for(gate: Gate) -> None:
    assert gate().passed and sanitized(gate) == []
    result = gate(cases=(SMALL,), sanitizes=True)
    assert result.passed and sanitized(gate) == [(tool, (SMALL,)) for tool in SanitizerTool]
    gate(sanitizes=True)
    assert {len(cases) for _, cases in sanitized(gate)[2:]} == {4}


def test_what_it_finds_is_a_rejection_and_the_command_asks_it_again(gate: Gate) -> None:
    error = SanitizerError(kind="Race reported between Write and Read", case=SMALL)

    def races(text: str, tool: SanitizerTool) -> Sanitization | None:
        found = MARK in text and tool is SanitizerTool.RACECHECK
        return Sanitization(tool=tool, errors=1, first=error) if found else None

    gate.gpu.sanitizer_says = races
    result = gate(cases=(SMALL,), sanitizes=True)
    assert not result.passed
    assert result.examination.first_failure is not None
    assert result.examination.first_failure[1].check == "racecheck"
    assert (result.examination.command or "").endswith(f"--case {SMALL} --seed 0 --sanitize")


def test_what_was_rejected_is_not_looked_at_again(gate: Gate) -> None:
    gate.gpu.watch = failing("died", "the worker ended")
    assert not gate(sanitizes=True).passed
    assert sanitized(gate) == []
