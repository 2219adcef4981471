"""Facts of a GPU that an earlier run measured, kept in the user's cache: a file a GPU, and what it is good for.

A file that is not there, damaged, or of something else is no facts, and a reason where there is one to tell. Must not
know what they are used for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from warpsmith.contracts.base import Document
from warpsmith.contracts.device import DeviceFacts, Environment
from warpsmith.contracts.errors import WarpsmithError
from warpsmith.workspace.documents import read_document, write_document

#: The folder to keep things in, before XDG_CACHE_HOME and ~/.cache.
CACHE = "WARPSMITH_CACHE"

#: Raise when ceilings are measured otherwise: what was kept before is then measured anew.
METHOD = 3


class KeptDevice(Document):
    """Facts as they were measured. `method` is the METHOD of then."""

    method: int
    facts: DeviceFacts


@dataclass(frozen=True)
class Kept:
    """What was found. Without `facts`, `reason` says why a file that is there is of no use; None, there is none."""

    facts: DeviceFacts | None = None
    reason: str | None = None


def kept_file(uuid: str, environment: Mapping[str, str] | None = None) -> Path | None:
    """Where the facts of that GPU are kept; None where the user has no place to keep anything."""
    variables = os.environ if environment is None else environment
    own, shared = variables.get(CACHE), variables.get("XDG_CACHE_HOME", "")
    if own:
        folder = Path(own)
    elif Path(shared).is_absolute():  # the XDG specification has any other ignored
        folder = Path(shared) / "warpsmith"
    else:
        try:
            folder = Path.home() / ".cache" / "warpsmith"
        except RuntimeError:
            return None
    return folder / "devices" / f"{re.sub('[^A-Za-z0-9-]', '_', uuid)}.json"


def read_kept(path: Path) -> Kept:
    """What the file has, whatever it was measured with."""
    if not path.is_file():
        return Kept()
    try:
        document = read_document(path, KeptDevice)
    except WarpsmithError as error:
        return Kept(reason=error.message)
    if document.method != METHOD:
        return Kept(reason=f"{path} has ceilings that another version of warpsmith measured")
    return Kept(document.facts)


def kept_for(path: Path, today: Environment) -> Kept:
    """What the file has, if it was measured on just this GPU with just this software."""
    found = read_kept(path)
    if found.facts is None or found.facts.environment == today:
        return found
    changes = today.changes_since(found.facts.environment.model_dump(mode="json"))
    return Kept(reason=f"{path} has ceilings of another set-up: {', '.join(changes) or 'another GPU'}")


def keep(path: Path, facts: DeviceFacts) -> str | None:
    """Puts them there, in one step. Returns why it could not be done, if so."""
    try:
        write_document(path, KeptDevice(method=METHOD, facts=facts))
    except WarpsmithError as error:
        return error.message
    return None
