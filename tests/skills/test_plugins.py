"""The plugin manifests that bring the skill to Claude Code and Codex: fields, versions, and what they point to."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import warpsmith
from warpsmith.project.skills import SKILL

ROOT = Path(__file__).resolve().parents[2]
CLAUDE, MARKETPLACE, CODEX = (
    ".claude-plugin/plugin.json",
    ".claude-plugin/marketplace.json",
    ".codex-plugin/plugin.json",
)
#: Fields of a manifest as both agents document them -> their type.
MANIFEST = {"name": str, "version": str, "description": str, "author": dict, "license": str, "keywords": list}
INTERFACE = {
    **dict.fromkeys(("displayName", "shortDescription", "longDescription", "developerName", "category"), str),
    **{"capabilities": list, "defaultPrompt": list},
}
KEBAB_CASE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def manifest(name: str) -> dict[str, Any]:
    content = json.loads((ROOT / name).read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def types(content: dict[str, Any]) -> dict[str, type]:
    return {name: type(value) for name, value in content.items()}


def test_both_manifests_have_the_documented_fields_and_say_the_same() -> None:
    claude, codex = manifest(CLAUDE), manifest(CODEX)

    assert types(claude) == MANIFEST
    assert types(codex) == {**MANIFEST, "skills": str, "interface": dict}
    assert types(codex["interface"]) == INTERFACE
    assert {name: codex[name] for name in MANIFEST} == claude
    assert KEBAB_CASE.fullmatch(claude["name"])
    assert claude["license"] == "Apache-2.0"


def test_the_marketplace_lists_this_repository_as_its_one_plugin() -> None:
    marketplace, claude = manifest(MARKETPLACE), manifest(CLAUDE)
    (plugin,) = marketplace["plugins"]

    assert types(marketplace) == {"name": str, "owner": dict, "metadata": dict, "plugins": list}
    assert isinstance(marketplace["owner"]["name"], str) and KEBAB_CASE.fullmatch(marketplace["name"])
    assert {name: plugin[name] for name in ("name", "version", "description", "license")} == {
        name: claude[name] for name in ("name", "version", "description", "license")
    }
    assert plugin["source"].startswith("./") and (ROOT / plugin["source"] / CLAUDE).is_file()


@pytest.mark.parametrize("name", [CLAUDE, MARKETPLACE, CODEX])
def test_every_version_is_the_package_s(name: str) -> None:
    versions = re.findall(r'"version": "([^"]*)"', (ROOT / name).read_text(encoding="utf-8"))

    assert versions and set(versions) == {warpsmith.__version__}


def test_the_skill_lies_where_both_look_in_a_plugin() -> None:
    """Claude Code looks in skills/ of the plugin's folder, Codex where its manifest says."""
    assert (ROOT / manifest(CODEX)["skills"] / SKILL / "SKILL.md").is_file()
    assert (ROOT / "skills" / SKILL / "SKILL.md").is_file()


def test_a_manifest_s_folder_holds_nothing_else() -> None:
    assert {path.name for path in (ROOT / ".claude-plugin").iterdir()} == {"plugin.json", "marketplace.json"}
    assert {path.name for path in (ROOT / ".codex-plugin").iterdir()} == {"plugin.json"}
