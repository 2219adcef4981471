"""What an agent left behind: the workspace, the production file, and, where it was kept, what it ran and said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from warpsmith.contracts.approval import Approval, Approvals, Gate
from warpsmith.contracts.base import Contract
from warpsmith.contracts.profile import Profile
from warpsmith.contracts.request import Request
from warpsmith.contracts.result import FinalOutcome, FinalResult, RunState, SearchResult
from warpsmith.contracts.variant import Variant
from warpsmith.contracts.verdict import Verdict
from warpsmith.project.snapshot import file_sha256
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.layout import Workspace

Document = TypeVar("Document", bound=Contract)


class Task(Contract):
    """One entry of tasks.yaml. `goes_on`: a run was there, and has to be gone on with. `says`: words of the answer."""

    name: str
    prompt: str
    kernel: str
    prepare: tuple[str, ...]
    states: tuple[RunState, ...] = Field(min_length=1)
    outcomes: tuple[FinalOutcome, ...] = ()
    autonomous: bool = False
    may_approve: tuple[Gate, ...] = ()
    applied: bool = False
    goes_on: bool = False
    says: tuple[str, ...] = ()


@dataclass(frozen=True)
class Transcript:
    """JSON lines: {"ran": "a shell command"} and {"said": "a text for the person"}, in order."""

    ran: tuple[str, ...]
    said: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> Transcript:
        """Raises ValueError naming the line that is neither."""
        ran, said = [], []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            entry: Any = json.loads(line)
            match entry:
                case {"ran": str(command)}:
                    ran.append(command)
                case {"said": str(text)}:
                    said.append(text)
                case _:
                    raise ValueError(f'{path}, line {number}: expected {{"ran": …}} or {{"said": …}}, found {line}')
        return cls(tuple(ran), tuple(said))


@dataclass(frozen=True)
class Evidence:
    """A task and what was found. Documents are None where they are not there; a damaged one raises UsageError."""

    task: Task
    root: Path
    transcript: Transcript | None = None

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.root, self.task.kernel)

    @cached_property
    def request(self) -> Request | None:
        return self._read(self.workspace.request, Request)

    @cached_property
    def profile(self) -> Profile | None:
        return self._read(self.workspace.profile, Profile)

    @cached_property
    def search(self) -> SearchResult | None:
        return self._read(self.workspace.search_result, SearchResult)

    @cached_property
    def final(self) -> FinalResult | None:
        return self._read(self.workspace.final_result, FinalResult)

    @cached_property
    def approvals(self) -> tuple[Approval, ...]:
        found = self._read(self.workspace.approvals, Approvals)
        return () if found is None else found.approvals

    @property
    def production_sha256(self) -> str | None:
        path = None if self.profile is None else self.root / self.profile.source
        return file_sha256(path) if path is not None and path.is_file() else None

    def verdicts(self) -> Iterator[Verdict]:
        """Those of all variants, and the winner's confirmation."""
        for path in self.workspace.variant_records():
            if (verdict := read_document(path, Variant).verdict) is not None:
                yield verdict
        if self.final is not None and self.final.confirmation is not None:
            yield self.final.confirmation

    def _read(self, path: Path, document: type[Document]) -> Document | None:
        return read_document(path, document) if path.is_file() else None
