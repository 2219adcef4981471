"""Where templates are found, and that a gap in what they are handed is an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import UndefinedError

from warpsmith.contracts.errors import WarpsmithError
from warpsmith.report.templates import render, templates_folder


def make(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "profile.md.j2").write_text("")
    return folder


def test_a_checkout_has_its_templates_at_the_root(tmp_path: Path) -> None:
    templates = make(tmp_path / "templates")

    assert templates_folder(tmp_path / "src" / "warpsmith") == templates


def test_an_installed_package_has_its_templates_inside(tmp_path: Path) -> None:
    make(tmp_path / "templates")
    templates = make(tmp_path / "site-packages" / "warpsmith" / "templates")

    assert templates_folder(tmp_path / "site-packages" / "warpsmith") == templates


def test_a_folder_of_the_same_name_that_is_not_ours_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "lib" / "templates").mkdir(parents=True)

    with pytest.raises(WarpsmithError, match=r"expected profile\.md\.j2 in one of"):
        templates_folder(tmp_path / "lib" / "warpsmith")


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="is undefined"):
        render("comparison.md.j2", {})
