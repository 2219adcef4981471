"""Finds and renders the templates. Owns how templates are set up; must not know what any page says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from warpsmith.contracts.errors import WarpsmithError
from warpsmith.report import quantities

#: The template whose presence tells our folder from another of the same name.
MARKER = "profile.md.j2"


def templates_folder(package: Path | None = None) -> Path:
    """warpsmith/templates of an installed wheel, or <root>/templates of a checkout (<root>/src/warpsmith).

    `package` is the folder of the warpsmith package, by default this one. Raises WarpsmithError where neither is.
    """
    package = package or Path(__file__).resolve().parents[1]
    candidates = [folder / "templates" for folder in (package, *package.parents[:2])]
    for candidate in candidates:
        if (candidate / MARKER).is_file():
            return candidate
    raise WarpsmithError(
        f"the page templates are missing: expected {MARKER} in one of {', '.join(map(str, candidates))}",
        next_command="pip install --force-reinstall warpsmith",
    )


def render(template: str, values: Mapping[str, object]) -> str:
    """The page of that template, ending with one newline. A name that `values` lacks raises UndefinedError."""
    text = _environment(template.endswith(".html.j2")).get_template(template).render(values)
    return text.strip("\n") + "\n"


@cache
def _environment(html: bool) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(templates_folder()),
        autoescape=html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        {
            "case": quantities.case_label,
            "cell": quantities.cell,
            "code": _code,
            "fenced": quantities.fenced,
            "gb_s": quantities.gb_s,
            "measured": quantities.measured,
            "microseconds": quantities.microseconds,
            "percent": quantities.percent,
            "predicted": quantities.predicted_range,
            "ratio": quantities.ratio,
            "ratio_interval": quantities.ratio_interval,
            "size": quantities.size,
            "time": quantities.time,
            "time_interval": quantities.time_interval,
            "words": quantities.words,
        }
    )
    return environment


def _code(text: str) -> Markup:
    """Text for a web page, escaped, with what stands between backticks as code and between ** as strong."""
    told = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    return Markup(re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", told))
