from __future__ import annotations

import sys
from pathlib import Path

import pytest

from warpsmith.contracts.case import Case, DType
from warpsmith.contracts.measurement import SourceRef
from warpsmith.contracts.sanitizing import Sanitization, SanitizerTool
from warpsmith.measure.counters.sanitizer import command, explain_no_report, sanitize
from warpsmith.measure.counters.sanitizer_report import ALL_DONE
from warpsmith.measure.worker.protocol import Sanitize, TargetRef

QUESTION = Sanitize(
    target=TargetRef(path="benchmark_k.py", root=".", sha256="0" * 64),
    source=SourceRef(path="k.py", sha256="1" * 64),
    tool=SanitizerTool.MEMCHECK,
    cases=(Case(axes={"M": 8, "N": 16}, dtype=DType.BFLOAT16),),
)
SUMMARY = "========= ERROR SUMMARY: 0 errors"


def fake(folder: Path, body: str) -> str:
    """A program in the tool's place that tells a version and otherwise runs the body, Python, with `words` its
    arguments."""
    path = folder / "compute-sanitizer"
    path.write_text(
        f"#!{sys.executable}\nimport os, sys\nwords = sys.argv[1:]\n"
        f"if words == ['--version']:\n    sys.exit('NVIDIA (R) Compute Sanitizer' and print('Version 2025.3.1.0'))\n"
        f"{body}\n"
    )
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("tool", "options"),
    [(SanitizerTool.MEMCHECK, ["memcheck", "--padding", "512"]), (SanitizerTool.RACECHECK, ["racecheck"])],
)
def test_allocations_are_kept_apart_for_memcheck_alone(tool: SanitizerTool, options: list[str]) -> None:
    assert command("/bin/compute-sanitizer", tool, ["python"]) == [
        *("/bin/compute-sanitizer", "--tool", *options, "--target-processes", "application-only"),
        *("--report-api-errors", "no", "--show-backtrace", "no", "--print-limit", "20", "python"),
    ]


def test_the_answer_has_the_count_and_the_version_and_the_runner_has_the_question(tmp_path: Path) -> None:
    body = (
        f"import pathlib\npathlib.Path({str(tmp_path / 'seen')!r}).write_text(pathlib.Path(words[-2]).read_text())\n"
        f"if os.environ['PYTORCH_NO_CUDA_MEMORY_CACHING'] == '1': print({ALL_DONE!r}); print({SUMMARY!r})"
    )
    found = sanitize(QUESTION, program=fake(tmp_path, body))
    assert found == Sanitization(tool=SanitizerTool.MEMCHECK, errors=0, version="2025.3.1.0")
    assert found.clean
    assert Sanitize.model_validate_json((tmp_path / "seen").read_text()) == QUESTION


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (SUMMARY, "compute-sanitizer gave no report; its last words: ERROR SUMMARY: 0 errors"),
        (
            f"ImportError: no module\n{SUMMARY}",
            "the call failed under compute-sanitizer: ImportError: no module",
        ),
        (
            "RuntimeError: CUDA driver version is insufficient for CUDA runtime version",
            "compute-sanitizer finds no NVIDIA driver that it can work with",
        ),
        ("========= Error: Device not supported", "this compute-sanitizer does not support the GPU"),
        ("ptrace: Operation not permitted", "compute-sanitizer may not attach to the process"),
        (
            "========= Error: Target application terminated before first instrumented API call",
            "compute-sanitizer could not take hold of the process",
        ),
        ("", "compute-sanitizer gave no report; its last words: none"),
    ],
)
def test_a_refusal_is_told_with_a_remedy(tmp_path: Path, output: str, reason: str) -> None:
    found = sanitize(QUESTION, program=fake(tmp_path, f"print({output!r})"))
    assert (found.errors, found.unavailable, found.clean) == (None, reason, False)
    assert found.remedy == explain_no_report(output)[1]


def test_a_hang_ends_at_the_time_limit(tmp_path: Path) -> None:
    found = sanitize(QUESTION, program=fake(tmp_path, "import signal; signal.pause()"), time_limit_s=0.5)
    assert found.unavailable == "memcheck did not finish within 0.5 s"


def test_a_tool_that_cannot_be_run_is_told(tmp_path: Path) -> None:
    assert "cannot be run" in str(sanitize(QUESTION, program=str(tmp_path / "none")).unavailable)


def test_without_the_tool_the_reason_is_that_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsmith.measure.counters.sanitizer.find_sanitizer", lambda: None)
    found = sanitize(QUESTION)
    assert found.unavailable == "compute-sanitizer is not installed"
    assert "CUDA toolkit" in str(found.remedy)


def test_an_answer_counts_errors_or_says_why_not() -> None:
    with pytest.raises(ValueError, match="expected one or the other"):
        Sanitization(tool=SanitizerTool.MEMCHECK)
