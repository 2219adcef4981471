"""warpsmith.yaml: what it may say, and its defaults. Must not know what any stage does with it."""

from __future__ import annotations

import difflib
import reprlib
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, ValidationError, field_validator

from warpsmith.contracts.base import Contract
from warpsmith.contracts.errors import UsageError
from warpsmith.verdict.compiled import CompiledLimits
from warpsmith.verdict.thresholds import Thresholds

FILE_NAME = "warpsmith.yaml"

#: Keys whose values are limits by name -> what the limits are.
_LIMITS: dict[str, type[Contract]] = {"guardrails": Thresholds, "compiled": CompiledLimits}


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
        compiled: limits of `check --base` that differ from the defaults, by their names in `CompiledLimits`.
        approval: `any` takes a yes from wherever `warpsmith approve` is run, `tty` only from a terminal.
    """

    targets: tuple[str, ...] = Field(default=("benchmark/benchmark_*.py",), min_length=1)
    test_command: Command = ("python", "-m", "pytest", "-q", "-x")
    style_command: Command | None = None
    guardrails: dict[str, float] = Field(default_factory=dict)
    compiled: dict[str, float] = Field(default_factory=dict)
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
    def compiled_limits(self) -> CompiledLimits:
        """The same of compiled code."""
        return CompiledLimits.model_validate(self.compiled)

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
    for section, limits in _LIMITS.items():
        if isinstance(given := raw.get(section), dict):
            _refuse_unknown(path, f"{section}.", given, limits.model_fields)
    try:
        config = ProjectConfig.model_validate(raw)
    except ValidationError as error:
        raise _wrong_value(path, "", error) from error
    for section, limits in _LIMITS.items():
        try:
            limits.model_validate(getattr(config, section))
        except ValidationError as error:
            raise _wrong_value(path, f"{section}.", error) from error
    return config


class _StrictLoader(yaml.SafeLoader):
    """Plain YAML in which every key is text and stands once: the last of two values would win without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        if isinstance(node, yaml.MappingNode):
            seen: dict[str, int] = {}
            for key_node, _ in node.value:
                key, line = self.construct_object(key_node, deep=True), key_node.start_mark.line + 1
                if not isinstance(key, str):
                    raise _BadKey(f"line {line}: expected a key that is text, found {_shown(key)}")
                if key in seen:
                    raise _BadKey(f"line {line}: the key '{key}' is there already, in line {seen[key]}")
                seen[key] = line
        return super().construct_mapping(node, deep=deep)


class _BadKey(Exception):
    """A key that is repeated or no text, with its line."""


def _parsed(path: Path, content: bytes) -> dict[Any, Any]:
    try:
        raw = yaml.load(content, Loader=_StrictLoader)
    except _BadKey as error:
        raise _wrong(path, f", {error}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise _wrong(path, f"{line}: not YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _wrong(path, f": not YAML: {error}") from error
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise _wrong(path, f": expected keys and values, found a {type(raw).__name__}")
    return raw


def _refuse_unknown(path: Path, prefix: str, given: Mapping[Any, Any], known: Iterable[str]) -> None:
    names = list(known)
    for key in given:
        if key not in names:
            nearest = difflib.get_close_matches(str(key), names, n=1, cutoff=0.0)[0]
            raise _wrong(path, f": unknown key '{prefix}{key}'; the nearest known key is '{prefix}{nearest}'")


def _wrong_value(path: Path, prefix: str, error: ValidationError) -> UsageError:
    found = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in found["loc"])
    return _wrong(path, f": {prefix}{key}: {found['msg']}; found {_shown(found['input'])}")


def _wrong(path: Path, what: str) -> UsageError:
    return UsageError(f"{path}{what}", next_command=f"edit {shlex.quote(str(path))}")


def _shown(value: Any) -> str:
    """A value as it is told, however large: a few lines of YAML can stand for gigabytes."""
    shown = reprlib.Repr()
    shown.maxlevel, shown.maxstring, shown.maxother = 2, 80, 80
    return shown.repr(value)
