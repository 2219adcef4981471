"""A winner handed over to others: a branch with one commit, and perhaps a pull request."""

from __future__ import annotations

from pydantic import model_validator

from warpsmith.contracts.base import Contract, Document, Sha256


class PullRequest(Contract):
    """`url` where one was opened; else `reason` says why not, and `command` opens it."""

    url: str | None = None
    reason: str | None = None
    command: str | None = None

    @model_validator(mode="after")
    def _a_url_or_a_reason(self) -> PullRequest:
        if (self.url is None) == (self.reason is None):
            raise ValueError(f"url {self.url!r}, reason {self.reason!r}: expected one of them")
        return self


class HandOver(Document):
    """optimization/<kernel>/handover.json. `commit` stands on `branch`, with `parent` before it and the kernel changed.

    `left_behind` are files with changes that are not committed and so are not on the branch, from git's root.
    """

    run_id: str
    branch: str
    commit: str
    parent: str
    applied_sha256: Sha256
    left_behind: tuple[str, ...] = ()
    pull_request: PullRequest | None = None

    @property
    def told(self) -> str:
        """As "on branch warpsmith/rms_norm (0123456789ab), pull request https://..."."""
        url = self.pull_request.url if self.pull_request is not None else None
        return f"on branch {self.branch} ({self.commit[:12]})" + (f", pull request {url}" if url else "")
