"""The page on continuous integration says what the program does: its workflow, its limits, its document."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from warpsmith.contracts.base import Contract
from warpsmith.contracts.compiled_change import BaseRef, CallGap, ComparedOn, CompiledChange, CompiledRegression
from warpsmith.project.config import load_config
from warpsmith.project.discover import list_targets
from warpsmith.verdict.compiled import CompiledLimits

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "continuous-integration.md").read_text(encoding="utf-8")


def test_the_workflow_names_our_kernels_pins_what_it_installs_and_keeps_the_exit_code() -> None:
    (text,) = re.findall(r"^<!-- workflow -->\n```yaml\n(.*?)^```", PAGE, re.M | re.S)
    workflow = yaml.safe_load(text)
    job = workflow["jobs"]["check"]
    installs = [step["run"] for step in job["steps"] if "pip install" in step.get("run", "")]
    (check,) = (step for step in job["steps"] if "warpsmith check" in step.get("run", ""))

    assert set(job["strategy"]["matrix"]["kernel"]) <= set(list_targets(ROOT, load_config(ROOT)))
    assert installs and all("-c constraints.txt" in each for each in installs)
    assert "| tee" in check["run"] and check["shell"] == "bash"  # GitHub adds pipefail to a shell that is named
    assert workflow["permissions"] == {"contents": "read"} and "secrets" not in text


def test_the_limits_on_the_page_are_the_defaults(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```yaml\n(compiled:.*?)^```", PAGE, re.M | re.S)
    (tmp_path / "warpsmith.yaml").write_text(text, encoding="utf-8")

    assert set(load_config(tmp_path).compiled) == set(CompiledLimits.model_fields)
    assert load_config(tmp_path).compiled_limits == CompiledLimits()


def test_fields_that_the_page_names_are_those_of_the_document() -> None:
    table = PAGE.partition("## For programs")[2].partition("\n## ")[0]
    documents: tuple[type[Contract], ...] = (CompiledChange, BaseRef, ComparedOn, CallGap, CompiledRegression)
    known = {field for document in documents for field in document.model_fields}
    named = set(re.findall(r"`(?:on\[\]\.)?([a-z_]+)(?:\[\])?`", table))

    assert named - known == {"auto"}
    assert {"passed", "base", "on", "pairs", "gaps", "regressions", "limits", "missing"} <= named
