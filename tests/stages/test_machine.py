"""What only the machine of a run could tell is kept, so that whoever recomputes the run is told the same."""

from __future__ import annotations

import pytest
from simulated_run import Run
from tampering import told, verified

from warpsmith.contracts.profile import Profile
from warpsmith.device.gpus import Gpu, GpuList
from warpsmith.device.known_gpus import known_gpu
from warpsmith.stages import machine
from warpsmith.workspace.documents import read_document

OTHER = Gpu(index=1, uuid="GPU-1", name="NVIDIA A10", capability=(8, 6), other_processes=())
USED = Gpu(index=0, uuid="GPU-0", name="Simulated H200", capability=(9, 0), other_processes=())


def profiled_among(run: Run, monkeypatch: pytest.MonkeyPatch, *gpus: Gpu) -> Profile:
    with monkeypatch.context() as patch:
        patch.setattr(machine, "gpus", lambda: GpuList(gpus))
        run.profile()
    return read_document(run.workspace.profile, Profile)


def test_several_gpus_are_named_with_the_one_that_was_used(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = profiled_among(run, monkeypatch, USED, OTHER).device_notes
    assert len(notes) == 1
    assert "0: Simulated H200 (GPU-0)" in notes[0] and "1: NVIDIA A10 (GPU-1)" in notes[0]


def test_a_single_gpu_is_no_matter_of_choice(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert profiled_among(run, monkeypatch, USED).device_notes == ()


def test_another_gpu_than_was_asked_for_is_noted_and_compiled_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.ask_for(target_gpu="NVIDIA A10")
    found = profiled_among(run, monkeypatch, USED)
    assert "asked for NVIDIA A10" in found.device_notes[0]
    assert found.offline is not None and found.offline.gpu == known_gpu("A10")


def test_a_machine_with_other_gpus_verifies_what_was_noted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    profiled_among(run, monkeypatch, USED, OTHER)
    monkeypatch.setattr(machine, "gpus", lambda: GpuList((), "no driver"))
    assert told(verified(run)) == []
