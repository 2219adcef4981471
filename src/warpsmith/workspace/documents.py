"""Files that are written whole and read strictly: JSON documents of a contract, and pages of text.

Must not know what a document means; a file that is not what it should be is an error, never half an answer.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from warpsmith.contracts.base import Contract
from warpsmith.contracts.errors import UsageError
from warpsmith.workspace.atomic import replace_bytes

Model = TypeVar("Model", bound=Contract)

_SHOWN_PROBLEMS = 3
_SHOWN_CHARACTERS = 200


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8, line endings as they are in `text`, in one step. Raises Unavailable where it cannot."""
    replace_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Writes bytes in one step. Raises Unavailable where it cannot."""
    replace_bytes(path, content)


def write_document(path: Path, model: Contract) -> None:
    """Writes a contract as indented JSON, in one step. Raises Unavailable where it cannot."""
    write_text(path, model.model_dump_json(indent=2) + "\n")


def read_document(path: Path, document_type: type[Model]) -> Model:
    """Reads back what `write_document` wrote.

    Raises UsageError where the file is missing, damaged, of another form or written by a newer warpsmith.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise UsageError(f"{path} is not there; expected a {document_type.__name__}") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    _refuse_newer(path, content, document_type)
    try:
        return document_type.model_validate_json(content)
    except ValidationError as error:
        raise _damaged(path, document_type, _problems(error)) from error


def _refuse_newer(path: Path, content: bytes, document_type: type[Contract]) -> None:
    try:
        raw: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        found = "an empty file" if not content.strip() else f"text that is not JSON ({error})"
        raise _damaged(path, document_type, found) from error
    if not isinstance(raw, dict):
        raise _damaged(path, document_type, f"a JSON {type(raw).__name__}")
    field = document_type.model_fields.get("schema_version")
    version = raw.get("schema_version")
    if field is not None and isinstance(version, int) and version > field.default:
        raise UsageError(
            f"{path} was written by a newer warpsmith: schema_version {version}, expected at most {field.default}",
            next_command="pip install --upgrade warpsmith",
        )


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    told = [
        f"{'.'.join(map(str, each['loc'])) or 'the whole'}: {each['msg']}"[:_SHOWN_CHARACTERS]
        for each in found[:_SHOWN_PROBLEMS]
    ]
    more = len(found) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")


def _damaged(path: Path, document_type: type[Contract], found: str) -> UsageError:
    return UsageError(
        f"{path} is damaged: expected a {document_type.__name__} as JSON, found {found}",
        next_command=f"mv {shlex.quote(str(path))} {shlex.quote(f'{path}.damaged')}",
    )
