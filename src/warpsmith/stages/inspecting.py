"""The facts of the GPU of a run, with its ceilings measured once and then kept for the runs after it.

A run's own store has the answer in any case: what is verified, resumed or recorded needs no cache.
"""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from warpsmith.contracts.device import DeviceFacts
from warpsmith.device.kept import keep, kept_file, kept_for
from warpsmith.measure.worker.protocol import Inspect, answer_of
from warpsmith.project.demonstration import is_demonstration
from warpsmith.stages.session import GPU_SHARED, Session


def inspect(session: Session) -> DeviceFacts:
    """Facts and ceilings of the run's GPU. Raises WorkerError where they cannot be had.

    Asked of the worker where the run has the answer already, where it replays, and in a demonstration copy, in which a
    recording is made: that one holds nothing but what it measured. Else the user's cache is looked at first, and what
    has to be measured is kept there, unless others compute on the GPU. Trouble with the cache is a note.
    """
    question, worker, progress = Inspect(target=session.target), session.worker, session.progress
    if worker.live is None or worker.has_answer_to(question):
        return answer_of(worker, question, DeviceFacts)
    today = worker.environment()
    path = kept_file(today.gpu_uuid)
    if path is not None and not is_demonstration(session.root):
        kept = kept_for(path, today)
        if kept.facts is not None:
            progress.note(f"ceilings as measured at {kept.facts.measured_at} on this GPU, from {path}")
            facts = kept.facts.model_copy(
                update={"measured_at": _now(), "ceilings_measured_at": kept.facts.measured_at}
            )
            worker.supply(question, facts)
            return facts
        if kept.reason is not None:
            progress.note(f"ceilings are measured anew: {kept.reason}")
    facts = answer_of(worker, question, DeviceFacts)
    _keep(session, path, facts)
    return facts


def _keep(session: Session, path: Path | None, facts: DeviceFacts) -> None:
    """For the runs after this one. What was measured while others computed on the GPU holds for this run alone."""
    if path is None or any(event.get("event") == GPU_SHARED for event in session.workspace.events()):
        return
    if (trouble := keep(path, facts)) is not None:
        session.progress.note(f"the ceilings are not kept for other runs: {trouble}")


def _now() -> str:
    """UTC, as the worker writes it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
