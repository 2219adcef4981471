"""Every kernel of the catalogue through admission and the gate, by the worker that a run has.

With no GPU the worker runs kernels by Triton's interpreter, at the first case alone: the gate makes some hundred calls
there, and the interpreter takes milliseconds for each program.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
from _pytest.mark.structures import ParameterSet
from cheats.catalogue import HERE, Entry, entries

from warpsmith.contracts.measurement import Correctness, SourceRef
from warpsmith.contracts.target import TargetSpec
from warpsmith.measure.worker.process import ProcessWorker
from warpsmith.measure.worker.protocol import Check, Describe, TargetRef, WorkerError, answer_of
from warpsmith.source.admit import admit


def interpreter_cannot_loop() -> bool:
    """Triton before 3.7 turns the bounds of a `range` into integers in a way that numpy from 2.4 on refuses."""
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    try:
        int(np.array([3]))
    except TypeError:
        return version < (3, 7)
    return False


def _ref(path: Path) -> SourceRef:
    return SourceRef(path=str(path), sha256=_sha256(path))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _parameters(catalogue: list[Entry]) -> list[ParameterSet]:
    """The kernels, each with what it needs."""
    parameters = []
    for entry in catalogue:
        marks = [pytest.mark.gpu] if entry.needs_gpu else []
        if entry.loops and interpreter_cannot_loop() and not torch.cuda.is_available():
            marks.append(pytest.mark.skip(reason="this triton's interpreter cannot loop with this numpy"))
        if entry.needs_interpreter and torch.cuda.is_available():
            marks.append(pytest.mark.skip(reason="shows what it is in Triton's interpreter alone"))
        parameters.append(pytest.param(entry, id=entry.name, marks=marks))
    return parameters


class Gate:
    """A worker process, and what stands against a kernel by the first case that it fails: (check, reason)."""

    def __init__(self, worker: ProcessWorker) -> None:
        self._worker = worker

    def reasons(self, entry: Entry) -> list[tuple[str, str]]:
        target = TargetRef(path=str(entry.target), root=str(HERE), sha256=_sha256(entry.target))
        spec = answer_of(self._worker, Describe(target=target), TargetSpec)
        for case in spec.cases if torch.cuda.is_available() else spec.cases[:1]:
            original, candidate = (_ref(path) for path in (entry.original, entry.path))
            question = Check(target=target, original=original, candidate=candidate, cases=(case,))
            try:
                found = answer_of(self._worker, question, Correctness)
            except WorkerError as error:
                return [("faults", str(error))]
            if not found.passed:
                return [(each.check, str(each)) for check in found.checks for each in check.failures]
        return []


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessWorker]:
    scratch = tmp_path_factory.mktemp("cheats")
    worker = ProcessWorker(scratch, scratch / "worker.log")
    yield worker
    worker.close()


@pytest.fixture
def gate(worker: ProcessWorker, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """The worker takes its environment from this process whenever it is started."""
    if not torch.cuda.is_available():
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    return Gate(worker)


@pytest.mark.parametrize("entry", [*entries("rejected"), *entries("accepted")], ids=lambda entry: entry.name)
def test_admission_refuses_what_it_is_said_to_and_nothing_else(entry: Entry) -> None:
    reasons = admit(*(path.read_text(encoding="utf-8") for path in (entry.original, entry.path)))

    if entry.refused_at_admission is None:
        assert reasons == ()
    else:
        assert any(re.search(entry.refused_at_admission.because, reason) for reason in reasons), reasons


@pytest.mark.parametrize("entry", _parameters([each for each in entries("rejected") if each.refused_by_the_gate]))
def test_the_gate_rejects_a_cheat_for_its_own_reason(gate: Gate, entry: Entry) -> None:
    refusal, reasons = entry.refused_by_the_gate, gate.reasons(entry)

    assert refusal is not None
    assert {check for check, _ in reasons} == {refusal.check}, reasons
    assert any(re.search(refusal.because, reason) for _, reason in reasons), reasons


@pytest.mark.parametrize("entry", _parameters(entries("accepted")))
def test_the_gate_accepts_an_unusual_kernel(gate: Gate, entry: Entry) -> None:
    assert gate.reasons(entry) == []


def test_the_catalogue_is_as_large_as_it_is_said_to_be() -> None:
    assert len(entries("rejected")) >= 32
    assert len(entries("accepted")) >= 30
