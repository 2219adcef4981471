"""The whole pipeline on a source whose bytes are not plain UTF-8: variants and the applied file keep its encoding."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

import pytest
from simulated_run import Run, make_repository

from warpsmith.contracts.result import FinalOutcome


def with_a_mark(content: bytes) -> bytes:
    return codecs.BOM_UTF8 + content


def in_latin_1(content: bytes) -> bytes:
    text = content.decode().encode("ascii", errors="replace")
    return b"# -*- coding: latin-1 -*-\n# gr\xf6\xdfer\n" + text + b"\n_UNIT = '\xb5s'\n"


def with_crlf(content: bytes) -> bytes:
    return content.replace(b"\n", b"\r\n")


@pytest.mark.parametrize("change", [with_a_mark, in_latin_1, with_crlf], ids=["mark", "latin-1", "CRLF"])
def test_a_source_keeps_its_encoding_from_the_snapshot_to_the_applied_winner(
    tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    root = make_repository(tmp_path)
    run = Run.begin(root)
    original = change(run.production.read_bytes())
    run.production.write_bytes(original)

    run.profile()
    search = run.optimize()
    assert search.winner is not None
    assert run.workspace.original.read_bytes() == original
    sources = [run.workspace.variant(n) for n in search.variants if run.workspace.variant(n).is_file()]
    result = run.finalize()

    assert result.outcome is FinalOutcome.APPLIED
    assert run.production.read_bytes() == run.workspace.variant(search.winner).read_bytes() != original
    for path in (*sources, *(run.workspace.scratch.glob("*.py") if change is not with_crlf else ())):
        content = path.read_bytes()
        compile(content, str(path), "exec")
        if change is with_a_mark:
            assert content.startswith(codecs.BOM_UTF8) and content.count(codecs.BOM_UTF8) == 1
        elif change is in_latin_1:
            assert content.startswith(b"# -*- coding: latin-1 -*-\n# gr\xf6\xdfer\n") and b"'\xb5s'" in content
        else:
            assert b"\r\n" in content and b"\n" not in content.replace(b"\r\n", b"")
    assert "\ufeff" not in run.workspace.report_page.read_text(encoding="utf-8")
