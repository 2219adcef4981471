"""warpsmith.yaml: what it may say, and its defaults. Must not know what any stage does with it."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, ValidationError, field_validator

from warpsmith.contracts.base import Contract
from warpsmith.contracts.errors import UsageError
from warpsmith.verdict.thresholds import Thresholds

FILE_NAME = "warpsmith.yaml"


def _words(command: Any) -> Any:
    """A command as YAML has it: a list of words, or one string as a shell would split it."""
    return tuple(shlex.split(command)) if isinstance(command, str) else command


Command = Annotated[tuple[str, ...], BeforeValidator(_words), Field(min_length=1)]


class ProjectConfig(Contract):
    """A repository's settings.

    Attributes:
        targets: globs of target files, relative to the root.
        test_command: runs the tests that a target names; a first word `python` is the Python that runs warpsmith.
        style_command: formats or lints one file, named by `{file}`, else by a last word that is added.
        guardrails: thresholds of a verdict that differ from the defaults, by their names in `Thresholds`.
        approval: `any` takes a yes from wherever `warpsmith approve` is run, `tty` only from a terminal.
    """

    targets: tuple[str, ...] = Field(default=("benchmark/benchmark_*.py",), min_length=1)
    test_command: Command = ("python", "-m", "pytest", "-q", "-x")
    style_command: Command | None = None
    guardrails: dict[str, float] = Field(default_factory=dict)
    approval: Literal["any", "tty"] = "any"

    @field_validator("targets")
    @classmethod
    def _globs_inside_the_repository(cls, globs: tuple[str, ...]) -> tuple[str, ...]:
        for glob in globs:
            path = PurePosixPath(glob)
            if not glob.strip() or path == PurePosixPath(".") or path.is_absolute() or ".." in path.parts:
                raise ValueError(f"expected a glob below the repository's root, found {glob!r}")
        return globs

    @property
    def thresholds(self) -> Thresholds:
        """The guardrails with their defaults. Raises ValidationError for one that `load_config` would refuse."""
        return Thresholds.model_validate(self.guardrails)

    @property
    def terminal_only(self) -> bool:
        return self.approval == "tty"


def load_config(root: Path) -> ProjectConfig:
    """The configuration of a repository; all defaults where it has no warpsmith.yaml.

    Raises UsageError naming the line of a syntax error, the key and nearest known key of an unknown one, or the
    key of a wrong value.
    """
    path = root / FILE_NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return ProjectConfig()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    raw = _parsed(path, content)
    _refuse_unknown(path, "", raw, ProjectConfig.model_fields)
    if isinstance(guardrails := raw.get("guardrails"), dict):
        _refuse_unknown(path, "guardrails.", guardrails, Thresholds.model_fields)
    try:
        config = ProjectConfig.model_validate(raw)
    except ValidationError as error:
        raise _wrong_value(path, "", error) from error
    try:
        Thresholds.model_validate(config.guardrails)
    except ValidationError as error:
        raise _wrong_value(path, "guardrails.", error) from error
    return config


def _parsed(path: Path, content: bytes) -> dict[Any, Any]:
    try:
        raw = yaml.safe_load(content)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise UsageError(f"{path}{line}: not YAML: {error.problem}", next_command=f"edit {path}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not YAML: {error}", next_command=f"edit {path}") from error
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise UsageError(f"{path}: expected keys and values, found a {type(raw).__name__}", next_command=f"edit {path}")
    return raw


def _refuse_unknown(path: Path, prefix: str, given: Mapping[Any, Any], known: Iterable[str]) -> None:
    names = list(known)
    for key in given:
        if key not in names:
            nearest = difflib.get_close_matches(str(key), names, n=1, cutoff=0.0)[0]
            raise UsageError(
                f"{path}: unknown key '{prefix}{key}'; the nearest known key is '{prefix}{nearest}'",
                next_command=f"edit {path}",
            )


def _wrong_value(path: Path, prefix: str, error: ValidationError) -> UsageError:
    found = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in found["loc"])
    return UsageError(f"{path}: {prefix}{key}: {found['msg']}; found {found['input']!r}", next_command=f"edit {path}")
