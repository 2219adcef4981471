"""The facts of the GPU of a run."""

from __future__ import annotations

from warpsmith.contracts.device import DeviceFacts
from warpsmith.measure.worker.protocol import Inspect
from warpsmith.stages.session import Session


def inspect(session: Session) -> DeviceFacts:
    """Facts and ceilings of the run's GPU. Raises WorkerError where they cannot be had."""
    return session.ask(Inspect(target=session.target), DeviceFacts)
