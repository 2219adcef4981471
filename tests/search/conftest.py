"""A bench on the simulated GPU, with the real kernel as the original."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

# Test modules are imported by path, so what they share is found only if they are told where.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "stages"))

from simulated_gpu import DEVICE, SimulatedGpu, described
from simulated_run import SOURCE, TARGET_FILE, make_repository

from warpsmith.contracts.measurement import SourceRef
from warpsmith.measure.worker.protocol import TargetRef
from warpsmith.search.bench import Bench


@pytest.fixture
def gpu(tmp_path: Path) -> SimulatedGpu:
    return SimulatedGpu(make_repository(tmp_path))


@pytest.fixture
def bench(gpu: SimulatedGpu) -> Bench:
    def keep(name: str, text: str) -> SourceRef:
        path = gpu.root / f"{name}_{len(list(gpu.root.iterdir()))}.py"
        path.write_text(text)
        return SourceRef(path=str(path), sha256=hashlib.sha256(text.encode()).hexdigest())

    return Bench(
        worker=gpu,
        target=TargetRef(path=str(gpu.root / TARGET_FILE), root=str(gpu.root), sha256="0" * 64),
        spec=described(gpu.root),
        device=DEVICE,
        original=keep("original", (gpu.root / SOURCE).read_text()),
        keep=keep,
        report=lambda text, done=None, total=None: None,
    )
