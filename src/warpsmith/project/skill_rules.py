"""Reads a skill's folder by the rules of the Agent Skills specification, where agents differ by the strictest of them.

Owns the rules and what is said of a breach. Must not know which skill it reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from warpsmith.contracts.skill import SkillProblem

PAGE = "SKILL.md"
KEYS = ("name", "description", "license", "metadata")
#: The specification's own limits.
MAX_NAME, MAX_DESCRIPTION, MAX_LINES = 64, 1024, 500

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_DESCRIPTION = "description: "
#: A file of the skill as its page names it: the target of a link, or a path below one of the customary folders.
_LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
_PATH = re.compile(r"(?<![\w./-])(?:references|scripts|assets)/[\w./-]*\w")


def problems(folder: Path) -> tuple[SkillProblem, ...]:
    """Everything that some agent would refuse or not find, in the order of reading. Raises OSError."""
    page = folder / PAGE
    if not page.is_file():
        return (_about(".", f"no {PAGE} here; a skill is a folder with that page"),)
    links = [path for path in sorted(folder.rglob("*")) if path.is_symlink()]
    found = [_about(_within(folder, path), "a link, which some agents skip; copy the file") for path in links]
    try:
        text = page.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        return (_about(PAGE, f"not UTF-8: {error}"), *found)
    told = [*_front_matter_problems(text, folder.resolve().name), *_length_problems(text)]
    return (*(_about(PAGE, each) for each in told), *_reference_problems(folder, text), *found)


def _front_matter_problems(text: str, folder: str) -> Iterator[str]:
    lines = text.splitlines()
    if lines[:1] != ["---"] or "---" not in lines[1:]:
        yield "must begin with a block between two lines of ---"
        return
    block = lines[1 : lines.index("---", 1)]
    for line in block:
        key, separator, value = line.partition(": ")
        if separator and ":" in _QUOTED.sub("", value):
            yield f"{key.strip()}: a colon outside quotes"
            return
    try:
        parsed = yaml.safe_load("\n".join(block))
    except yaml.YAMLError as error:
        yield f"the block between the lines of --- is no YAML: {str(error).splitlines()[0]}"
        return
    if not isinstance(parsed, dict):
        yield "the block between the lines of --- must hold `key: value` lines"
        return
    if unknown := sorted(str(key) for key in set(parsed) - set(KEYS)):
        yield f"{', '.join(unknown)}: only {', '.join(KEYS)} are allowed"
    yield from _name_problems(parsed.get("name"), folder)
    yield from _description_problems(parsed.get("description"), block)
    yield from _other_problems(parsed)


def _name_problems(name: Any, folder: str) -> Iterator[str]:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        yield f"name: 1 to {MAX_NAME} of a-z, 0-9 and single hyphens; found {name!r}"
    elif name != folder:
        yield f"name: {name!r}, but the folder is called {folder!r}"


def _description_problems(description: Any, block: list[str]) -> Iterator[str]:
    if not isinstance(description, str) or not description.strip() or len(description) > MAX_DESCRIPTION:
        yield f"description: 1 to {MAX_DESCRIPTION:,} characters"
    elif set("<>") & set(description):
        yield "description: no angle brackets, which some agents take for markup"
    elif not any(line.startswith(_DESCRIPTION) and _QUOTED.fullmatch(line[len(_DESCRIPTION) :]) for line in block):
        yield "description: one line in double quotes"


def _other_problems(parsed: dict[Any, Any]) -> Iterator[str]:
    if not isinstance(parsed.get("license", ""), str):
        yield "license: a string"
    metadata = parsed.get("metadata", {})
    if not isinstance(metadata, dict) or not all(isinstance(each, str) for pair in metadata.items() for each in pair):
        yield "metadata: strings only; put numbers in quotes"


def _length_problems(text: str) -> Iterator[str]:
    if (lines := len(text.splitlines())) > MAX_LINES:
        yield f"{lines} lines; at most {MAX_LINES}, the rest belongs into references"


def _reference_problems(folder: Path, text: str) -> Iterator[SkillProblem]:
    """What the page names has to be there, and what is there has to be named: an agent opens nothing else."""
    named = {link for link in _LINK.findall(text) if not re.match(r"[a-z][a-z0-9+.-]*:", link)} | set(
        _PATH.findall(text)
    )
    for name in sorted(named):
        if name.startswith(("/", "~")) or ".." in Path(name).parts:
            yield _about(PAGE, f"{name}: paths are relative to the skill's folder and stay in it")
        elif not (folder / name).exists():
            yield _about(PAGE, f"{name} is not there")
    for path in sorted(folder.rglob("*")):
        name = _within(folder, path)
        if path.is_dir() or name == PAGE or any(part.startswith(".") for part in Path(name).parts):
            continue
        if len(Path(name).parts) > 2:
            yield _about(name, "more than one level deep, where some agents do not look")
        elif name not in named:
            yield _about(name, f"{PAGE} does not name it, so that nobody reads it")


def _within(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()


def _about(file: str, problem: str) -> SkillProblem:
    return SkillProblem(file=file, problem=problem)
