"""Results on standard output: JSON for programs, rendered Markdown for a terminal, plain text for a pipe."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from warpsmith.workspace.atomic import why


def print_json(content: BaseModel | dict[str, Any] | list[Any]) -> None:
    if isinstance(content, BaseModel):
        print(content.model_dump_json(indent=2))
    else:
        print(json.dumps(content, indent=2, default=str))


def os_error_told(error: OSError) -> str:
    """What the operating system refused, in a sentence. An error that libraries raise may name no file."""
    name = error.filename if isinstance(error.filename, str | Path) else ""
    return f"{name}: {why(error)}" if name else why(error)


def print_markdown(text: str) -> None:
    """Rendered on a terminal; as it is elsewhere."""
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))
