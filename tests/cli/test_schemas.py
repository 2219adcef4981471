"""The published schemas are those of what the commands print, and what they print is valid by them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import Command
from simulated_run import KERNEL, REPOSITORY, SOURCE, make_repository

from warpsmith.cli.schemas import DIALECT, PRINTED, schema, write
from warpsmith.contracts.approval import Approval, Gate
from warpsmith.contracts.result import FinalResult
from warpsmith.project.skills import shipped_skill
from warpsmith.stages.doctor.finding import Finding
from warpsmith.workspace.documents import read_document

EXAMPLE = REPOSITORY / "optimization" / KERNEL
RESULT = read_document(EXAMPLE / "report.json", FinalResult)
PUBLISHED = REPOSITORY / "docs" / "schemas"


def valid(name: str, text: str) -> Any:
    """What was printed, held against the published schema, by a validator of another house where there is one."""
    printed = json.loads(text)
    try:
        from jsonschema import Draft202012Validator
    except ImportError:
        PRINTED[name][1].validate_json(text)
    else:
        Draft202012Validator(json.loads((PUBLISHED / f"{name}.json").read_text(encoding="utf-8"))).validate(printed)
    return printed


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed example in a repository of its own."""
    root = make_repository(tmp_path_factory.mktemp("finished"))
    shutil.copytree(EXAMPLE, root / "optimization" / KERNEL, ignore=shutil.ignore_patterns("plots", "benchmarks"))
    shutil.copy(EXAMPLE / f"rms_norm_v{RESULT.winner}.py", root / SOURCE)
    return root


@pytest.mark.parametrize("name", PRINTED)
def test_the_published_schemas_are_current(name: str) -> None:
    """After a change of a contract: make schemas."""
    assert (PUBLISHED / f"{name}.json").read_text(encoding="utf-8") == schema(name)
    assert json.loads(schema(name))["$schema"] == DIALECT


def test_no_schema_is_published_that_no_command_prints(tmp_path: Path) -> None:
    (tmp_path / "conjure.json").write_text("{}")
    write(tmp_path)

    names = {f"{name}.json" for name in PRINTED}
    assert {path.name for path in PUBLISHED.iterdir()} == {path.name for path in tmp_path.iterdir()} == names


@pytest.mark.parametrize("name", ["next", "status", "list", "report", "profile", "optimize", "finalize", "run"])
def test_what_the_commands_print_of_a_finished_run_is_valid(finished: Path, command: Command, name: str) -> None:
    printed = valid(name, command(finished, name, *([] if name == "list" else [KERNEL]), "--json").out)

    assert any(word in json.dumps(printed) for word in (f'"kernel": "{KERNEL}"', RESULT.run_id))


def test_a_checkpoint_a_failure_and_a_doctor_are_valid_too(
    finished: Path, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("warpsmith.stages.doctor.examine", lambda _: [Finding(name="gpu", ok=False, found="none")])
    waiting = valid("run", command(finished, "next", KERNEL, "--json").out)
    failed = valid("failure", command(finished, "next", "nothing", "--json").out)
    doctor = valid("doctor", command(finished, "doctor", "--json").out)
    listed = valid("check-list", command(finished, "check", "--list", "--json").out)
    checked = valid("skills-check", command(finished, "skills", "check", str(shipped_skill()), "--json").out)
    installed = valid("skills-install", command(finished, "skills", "install", "--agent", "claude", "--json").out)

    assert waiting["state"] == "done" and failed["error"]["exit_code"] == 2
    assert doctor[0]["ok"] is False and listed and checked["skills"] and installed["installed"]


def test_what_is_not_so_printed_is_refused() -> None:
    approval = Approval(gate=Gate.OPTIMIZE, run_id="r", evidence_sha256="0" * 64, from_terminal=True, approved_at="now")

    assert valid("approve", approval.model_dump_json())["gate"] == "optimize"
    with pytest.raises(Exception, match="no hash"):
        valid("approve", approval.model_dump_json().replace("0" * 64, "no hash"))
    with pytest.raises(Exception, match="surprise"):
        valid("approve", approval.model_dump_json().replace('"from_terminal"', '"surprise"'))
