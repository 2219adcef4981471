"""What decides about a winner and must stay as it is while a run lasts."""

from __future__ import annotations

from warpsmith.contracts.base import Document, RepositoryPath, Sha256


class GuardedFiles(Document):
    """optimization/<kernel>/guarded.json: the files as they were when the kernel was profiled.

    `files` holds the target file, the tests that it names (`tests`, pytest's arguments), what configures them and
    warpsmith.yaml, by path from the repository's root; a file that was not there is not in it. `harness` is one digest
    of warpsmith's own modules and templates.
    """

    run_id: str
    source: RepositoryPath
    target_file: str
    tests: tuple[str, ...]
    files: dict[str, Sha256]
    harness: Sha256
