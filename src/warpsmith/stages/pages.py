"""The pages that people read, and the documents that they were made from. A lost page is made again.

Must not know who asks for a page, nor decide by one.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from warpsmith.contracts.base import Document
from warpsmith.contracts.errors import UsageError
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalResult, SearchResult
from warpsmith.contracts.variant import Variant
from warpsmith.workspace.documents import read_document, write_text
from warpsmith.workspace.layout import PastRun, Workspace


def page_text(workspace: Workspace, page: Path) -> str:
    """What a page says. Raises as `ensure_page` does."""
    ensure_page(workspace, page)
    return page.read_text(encoding="utf-8", errors="replace")


def document_of(workspace: Workspace, page: Path) -> Document:
    """The document beside a page. Raises UsageError where it is missing or damaged."""
    if page == workspace.profile_page:
        return read_document(workspace.profile, Profile)
    if page == workspace.comparison:
        return read_document(workspace.search_result, SearchResult)
    return read_document(workspace.final_result, FinalResult)


def ensure_pages(workspace: Workspace) -> None:
    """Makes the pages again that a person judges by, where one is gone and its document is there."""
    for page, document in (
        (workspace.profile_page, workspace.profile),
        (workspace.comparison, workspace.search_result),
    ):
        if document.is_file():
            ensure_page(workspace, page)


def ensure_page(workspace: Workspace, page: Path) -> None:
    """Makes profile.md or comparison.md again from its document, byte for byte, where it is gone; with its plot.

    Raises UsageError where the document is missing or damaged, and for a report, which holds what no document does;
    Unavailable where the page cannot be written.
    """
    if page.is_file():
        return
    document = document_of(workspace, page)
    if isinstance(document, FinalResult) and isinstance(workspace, PastRun):
        raise UsageError(f"{workspace.relative(page)} is not there any more; --json tells the result of that run")
    if isinstance(document, FinalResult):
        result, kernel = workspace.final_result, workspace.kernel
        raise UsageError(
            f"{workspace.relative(page)} is not there, though the run is finished; `warpsmith report {kernel} --json` "
            "tells its result, and finalizing again writes the page",
            next_command=f"{_put_aside(result)} && warpsmith finalize {kernel}",
        )
    write_text(page, _rendered(workspace, document))
    if isinstance(document, Profile):
        from warpsmith.report.roofline import save_roofline  # as `_rendered`

        save_roofline(document, workspace.plots)


def expect_named_files(workspace: Workspace, search: SearchResult) -> None:
    """Raises UsageError where a file is gone that comparison.json names: the winner, or the record of a variant."""
    winner = () if search.winner is None else (workspace.variant(search.winner),)
    for path in (*winner, *map(workspace.variant_record, search.variants)):
        expect_file(workspace, path, workspace.search_result)


def expect_file(workspace: Workspace, path: Path, named_by: Path) -> None:
    """Raises UsageError where `path` is gone, with the way to have the stage that wrote it write it again."""
    if not path.is_file():
        raise UsageError(
            f"{workspace.relative(path)} is not there, though {workspace.relative(named_by)} names it; put it back, or "
            "have its stage gone through again, which measures only what was not measured",
            next_command=_put_aside(named_by),
        )


def _rendered(workspace: Workspace, document: Document) -> str:
    from warpsmith.report.pages import render_comparison, render_profile  # slow to load, and seldom needed

    if isinstance(document, Profile):
        return render_profile(document)
    assert isinstance(document, SearchResult)
    expect_named_files(workspace, document)
    variants = [read_document(workspace.variant_record(number), Variant) for number in document.variants]
    return render_comparison(variants, document, read_document(workspace.request, Request).aim)


def _put_aside(path: Path) -> str:
    return f"mv {shlex.quote(str(path))} {shlex.quote(f'{path}.aside')}"
