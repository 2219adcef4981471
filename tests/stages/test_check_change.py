"""A change beside its base, with no GPU: a real one in a repository of its own, then what is asked and refused."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from simulated_bench import LARGE, SMALL
from simulated_gpu import CASES, SimulatedGpu
from simulated_run import KERNEL, SOURCE, make_repository

from warpsmith.contracts.compiled_change import CompiledChange, Fact
from warpsmith.contracts.errors import PreflightError, Unavailable, UsageError
from warpsmith.device.known_gpus import known_gpu
from warpsmith.measure.worker.protocol import AnyQuestion, CompileOffline, WorkerError, WorkerFailure
from warpsmith.project.config import load_config
from warpsmith.stages.check_change import compare
from warpsmith.stages.check_request import ChangeAsked

H100 = known_gpu("hopper").name
WIDE = """\
import torch
import triton
import triton.language as tl

from wide.settings import OPTIONS


@triton.jit
def doubled_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, x / tl.sum(x * x))


def doubled(x):
    y = torch.empty_like(x)
    doubled_kernel[(1000,)](x, y, BLOCK=4096, **OPTIONS)
    return y
"""
TARGET = """\
from warpsmith import Case, Cost, DType, Mode, Target
import torch

target = Target(
    name="wide",
    source="python/wide/doubling.py",
    module="wide.doubling",
    make_inputs=lambda case, device, generator: {"x": torch.randn(4096, device=device, generator=generator)},
    call=lambda module, inputs: module.doubled(inputs["x"]),
    reference=lambda inputs: inputs["x"],
    cost=lambda case, mode: Cost(bytes_moved=1, flops=1),
    cases=(Case(axes={"N": 4096}, dtype=DType.FLOAT32),),
    modes=(Mode.FORWARD,),
)
"""


def git(root: Path, *words: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@b.c")
    return subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True, text=True).stdout


def committed(root: Path) -> None:
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "base")


def test_spills_that_come_from_a_module_beside_the_source_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "benchmark/benchmark_wide.py": TARGET,
        "python/wide/__init__.py": "",
        "python/wide/doubling.py": WIDE,
        "python/wide/settings.py": "from wide.generated import OPTIONS\n",
        ".gitignore": "generated.py\n__pycache__\n",
        "python/wide/generated.py": "OPTIONS = {'num_warps': 4}\n",
        "warpsmith.yaml": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "python"))  # as where it is installed to be edited
    committed(tmp_path)
    (tmp_path / "python/wide/settings.py").write_text("OPTIONS = {'num_warps': 4, 'maxnreg': 24}\n")

    result = compare(tmp_path, load_config(tmp_path), "wide", ChangeAsked("auto"), lambda text: None)

    assert result.base.why == "HEAD, which is on main; files differ from it"
    assert result.file_sha256 == result.base.source_sha256
    ((pair,), regressions) = result.on[0].pairs, result.on[0].regressions
    assert pair.base is not None and pair.change is not None
    assert (pair.base.spill_bytes, pair.change.registers) == (0, 24)
    assert pair.change.spill_bytes > 100
    assert [(each.fact, each.change) for each in regressions] == [(Fact.SPILLS, pair.change.spill_bytes)]
    assert not result.passed
    assert git(tmp_path, "status", "--short").split() == ["M", "python/wide/settings.py"]


SPILLING, FAILING = "# spilling\n", "# failing\n"


def text_of(question: CompileOffline) -> str:
    return Path(question.source.path).read_text()


@dataclass
class Compiler(SimulatedGpu):
    """What it compiles depends on marks in a source; `fails` is the failure of a call of a marked one."""

    fails: Callable[[CompileOffline], WorkerFailure | None] = lambda question: None

    def ask(self, question: AnyQuestion) -> Any:
        marked = question if isinstance(question, CompileOffline) and FAILING in text_of(question) else None
        if marked and (failure := self.fails(marked)):
            raise WorkerError(failure)
        return super().ask(question)

    def _compiled(self, question: Any, settings: dict[str, int]) -> Any:
        found = super()._compiled(question, settings)
        if SPILLING not in text_of(question):
            return found
        spilling = [each.compiled.model_copy(update={"spills": 3}) for each in found.launches]
        launches = zip(found.launches, spilling, strict=True)
        return found.model_copy(
            update={"launches": tuple(each.model_copy(update={"compiled": facts}) for each, facts in launches)}
        )


@dataclass
class Change:
    """Changes of the kernel of one small repository, compiled by nobody."""

    root: Path
    #: each worker that was opened: its root, and what it was asked
    opened: list[Compiler] = field(default_factory=list)
    fails: Callable[[CompileOffline], WorkerFailure | None] = lambda question: None
    target_failure: str | None = None

    def __call__(self, base: str, **asked: Any) -> CompiledChange:
        return compare(self.root, load_config(self.root), KERNEL, ChangeAsked(base, **asked), lambda text: None)

    def mark(self, *marks: str, at: str = SOURCE) -> Path:
        """The kernel's file, or a copy of it, with these lines at its end."""
        path = self.root / at
        path.write_text((self.root / SOURCE).read_text() + "".join(marks))
        return path

    def answers(self, status: str, *cases: str) -> None:
        """A source that is marked as failing has this failure at these cases, or at all."""

        def fails(question: CompileOffline) -> WorkerFailure | None:
            failed = not cases or question.case.name in cases
            return WorkerFailure.model_validate({"status": status, "message": "so it is"}) if failed else None

        self.fails = fails


@pytest.fixture
def change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Change:
    found = Change(make_repository(tmp_path / "repository"))

    @contextmanager
    def opened(root: Path) -> Iterator[Compiler]:
        of_base = root != found.root
        worker = Compiler(root, fails=found.fails, target_failure=found.target_failure if of_base else None)
        found.opened.append(worker)
        yield worker

    monkeypatch.setattr("warpsmith.stages.check_change.worker_without_gpu", opened)
    monkeypatch.setattr("warpsmith.stages.change_base.worker_without_gpu", opened)
    return found


CALLS = 2 * len(CASES)


def test_a_file_is_a_base_in_the_same_surroundings_and_a_copy_of_it_differs_in_nothing(change: Change) -> None:
    copy = change.mark(at="copy.py")
    before = sorted(change.root.rglob("*"))
    result = change(str(copy))

    assert (result.passed, result.file_sha256, result.base.source) == (True, result.base.source_sha256, str(copy))
    ((on,), (worker,)) = result.on, change.opened
    assert (on.gpu, on.gaps, on.regressions, len(on.pairs)) == (H100, (), (), CALLS)
    assert all(pair.base == pair.change for pair in on.pairs)
    assert len(worker.asked) == 2 * CALLS
    assert sorted(change.root.rglob("*")) == before


def test_only_what_was_asked_for_is_compiled_for_each_gpu_once(change: Change) -> None:
    asked = {"gpus": ("A100", "hopper", "A100"), "cases": (LARGE,), "seed": 7}
    result = change(str(change.mark(at="copy.py")), **asked)

    (worker,) = change.opened
    questions = [each for each in worker.asked if isinstance(each, CompileOffline)]
    assert [on.gpu for on in result.on] == [known_gpu("A100").name, H100]
    assert {(each.case.name, each.seed) for each in questions} == {(LARGE, 7)}
    assert len(questions) == 2 * 2 * 2


def test_a_limit_of_the_configuration_decides(change: Change) -> None:
    base = str(change.mark(at="copy.py"))
    change.mark(SPILLING)
    strict = change(base)
    (change.root / "warpsmith.yaml").write_text("compiled: {spill_bytes: 12}\n")
    lenient = change(base)

    assert not strict.passed
    spills = {(each.fact, each.base, each.change) for each in strict.on[0].regressions}
    assert spills == {(Fact.SPILLS, 0, 12)}
    assert len(strict.on[0].regressions) == CALLS
    assert (lenient.passed, lenient.on[0].regressions, lenient.limits["spill_bytes"]) == (True, (), 12)


def test_a_revision_is_compiled_as_it_was_and_is_named_by_its_commit(change: Change) -> None:
    change.mark(SPILLING)
    committed(change.root)
    (change.root / SOURCE).write_text((change.root / SOURCE).read_text().replace(SPILLING, ""))
    result = change("main")

    assert (result.base.name, result.base.commit) == ("main", git(change.root, "rev-parse", "HEAD").strip())
    assert {pair.base.spill_bytes for pair in result.on[0].pairs if pair.base} == {12}
    assert result.passed and result.notes == ()


def test_a_kernel_that_the_base_does_not_have_is_compiled_and_nothing_is_held_against_it(change: Change) -> None:
    source = (change.root / SOURCE).read_text()
    (change.root / SOURCE).unlink()
    committed(change.root)
    (change.root / SOURCE).write_text(source + SPILLING)
    change.target_failure = "no such source"
    result = change("HEAD")

    assert result.base.missing is not None and f"has no {SOURCE}" in result.base.missing
    assert (result.passed, len(result.on[0].pairs)) == (True, CALLS)


def test_a_new_kernel_that_fails_at_a_case_is_no_pass(change: Change) -> None:
    source = (change.root / SOURCE).read_text()
    (change.root / SOURCE).unlink()
    committed(change.root)
    (change.root / SOURCE).write_text(source + FAILING)
    change.target_failure = "no such source"
    change.answers("timeout", SMALL)
    result = change("HEAD")

    assert not result.passed
    assert {(each.fact, each.case) for each in result.on[0].regressions} == {(Fact.COMPILES, SMALL)}


def test_each_side_is_called_by_its_own_target_file_and_that_is_told(change: Change) -> None:
    committed(change.root)
    target = change.root / "benchmark" / f"benchmark_{KERNEL}.py"
    target.write_text(target.read_text() + "# another\n")
    result = change("HEAD")

    now, base = (worker.asked[0].target for worker in change.opened)
    assert result.notes == ("the target file has changed too: each side is called by its own",)
    assert now.sha256 != base.sha256
    assert not Path(base.path).is_relative_to(change.root)


def test_what_the_base_compiles_and_the_change_does_not_is_a_regression(change: Change) -> None:
    base = str(change.mark(at="copy.py"))
    change.mark(FAILING)
    change.answers("died", LARGE)
    result = change(base)

    assert {(each.fact, each.case) for each in result.on[0].regressions} == {(Fact.COMPILES, LARGE)}
    assert {(gap.base, gap.change) for gap in result.on[0].gaps} == {(None, "died: so it is")}
    assert len(result.on[0].pairs) == CALLS - 2


def test_what_the_base_did_not_compile_is_told_and_no_regression(change: Change) -> None:
    change.answers("died", LARGE)
    result = change(str(change.mark(FAILING, at="copy.py")))

    assert {(gap.base, gap.change) for gap in result.on[0].gaps} == {("died: so it is", None)}
    assert result.passed


def test_a_source_that_cannot_be_imported_is_asked_once(change: Change) -> None:
    base = str(change.mark(at="copy.py"))
    change.mark(FAILING)
    asked: list[CompileOffline] = []

    def fails(question: CompileOffline) -> WorkerFailure:
        asked.append(question)
        return WorkerFailure(status="import_failed", message="so it is")

    change.fails = fails
    result = change(base)

    assert len(asked) == 1
    assert {gap.change for gap in result.on[0].gaps} == {"import_failed: so it is"}
    assert len(result.on[0].regressions) == CALLS


def test_a_base_of_which_nothing_compiles_is_no_pass_but_an_error(change: Change) -> None:
    change.answers("died")
    with pytest.raises(PreflightError, match=r"nothing of the base compiles for .*: died: so it is"):
        change(str(change.mark(FAILING, at="copy.py")))


def test_a_gpu_that_triton_does_not_compile_for_is_unavailable(change: Change) -> None:
    change.mark(FAILING)
    change.answers("compile_failed")
    with pytest.raises(Unavailable, match="so it is"):
        change(str(change.mark(at="copy.py")))


@pytest.mark.parametrize(
    ("base", "asked", "said"),
    [
        ("nothing", {}, "--base nothing: neither a file nor a revision"),
        ("src", {}, "--base src: expected a source file or a revision"),
        ("HEAD", {"gpus": ("H20000",)}, "no GPU 'H20000' is known"),
        ("HEAD", {"cases": ("1x1-bf16",)}, "--case 1x1-bf16"),
        ("HEAD", {"file": Path("nowhere.py")}, "nowhere.py: no such file"),
    ],
)
def test_what_is_not_there_is_a_usage_error(
    change: Change, monkeypatch: pytest.MonkeyPatch, base: str, asked: dict[str, Any], said: str
) -> None:
    committed(change.root)
    monkeypatch.chdir(change.root)
    with pytest.raises(UsageError) as caught:
        change(base, **asked)
    assert said in caught.value.message
