"""A session tells why stored answers are measured again."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from simulated_gpu import ENVIRONMENT
from simulated_run import Run

from warpsmith.contracts.request import Request
from warpsmith.device.gpus import Gpu
from warpsmith.measure.worker.protocol import Identify
from warpsmith.measure.worker.stored import OFFLINE_KINDS, UNBOUND_KINDS
from warpsmith.project.config import load_config
from warpsmith.stages import session
from warpsmith.stages.profiler import profile
from warpsmith.workspace.documents import read_document
from warpsmith.workspace.store import MeasurementStore

GPU = Gpu(index=0, uuid="GPU-0", name="H200", capability=(9, 0), other_processes=())


def test_a_driver_that_changed_while_a_run_was_cut_off_is_told_once(
    profiled: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiled.workspace.profile.unlink()
    newer, answer = ENVIRONMENT.model_copy(update={"driver": "590"}), profiled.gpu.ask
    monkeypatch.setattr(profiled.gpu, "ask", lambda asked: newer if isinstance(asked, Identify) else answer(asked))
    monkeypatch.setattr(session, "gpu_for", lambda device: GPU)
    monkeypatch.setattr(session, "gpu_lock", lambda uuid: nullcontext())
    monkeypatch.setattr(session, "_live_workers", lambda *_: profiled.gpu)
    root, request = profiled.root, read_document(profiled.workspace.request, Request)
    kinds = [record["kind"] for record in MeasurementStore(profiled.workspace.measurements).records()]
    of_a_gpu = [kind for kind in kinds if kind not in OFFLINE_KINDS | UNBOUND_KINDS]

    with session.open_session(root, load_config(root), profiled.workspace, request, profiled.told) as opened:
        profile(opened)

    again = [line for line in profiled.told.lines if line.startswith("measured again")]
    assert again == [f"measured again: driver 580, now 590 ({len(of_a_gpu)} answers)"]
