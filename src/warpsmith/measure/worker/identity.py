"""The identity of a question: by what is asked, the same on every machine. Must not know the kinds of questions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

#: Raise when the meaning of a question or an answer changes: stored answers of another version are misses.
PROTOCOL_VERSION = 2


def identity_of(portable: Mapping[str, Any], protocol: int = PROTOCOL_VERSION) -> str:
    """The identity of a question as it is stored, by one version of the protocol."""
    content = {"protocol": protocol, "question": portable}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def without_paths(value: Any) -> Any:
    """The value without the paths in it: what has a hash beside its path is known by that."""
    if isinstance(value, dict):
        return {k: without_paths(v) for k, v in value.items() if not (k in ("path", "root") and "sha256" in value)}
    if isinstance(value, list):
        return [without_paths(item) for item in value]
    return value
