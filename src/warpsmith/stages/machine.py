"""What only the machine of a run could tell of itself, kept in the ledger: no answer says it to a later command.

The GPUs that could have been used, and the software of a profile in which nothing was run.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from warpsmith import __version__
from warpsmith.contracts.device import TargetGpu
from warpsmith.device.gpus import Gpu, GpuList, gpus
from warpsmith.device.state import Driver
from warpsmith.stages.doctor.software import installed
from warpsmith.stages.session import GPU_SHARED, Session

#: From here on triton takes its ptxas-blackwell (triton/backends/nvidia/compiler.py, get_ptxas).
_BLACKWELL = (10, 0)

#: Events of the ledger.
GPUS_LISTED, PREDICTED_WITH = "gpus_listed", "predicted_with"

#: Events that a recomputation of the run has to know too, with the fields that are counted on.
TOLD_BY_THE_MACHINE: dict[str, dict[str, Any]] = {GPU_SHARED: {"pids": []}, GPUS_LISTED: {}, PREDICTED_WITH: {}}


def listed_gpus(session: Session) -> GpuList | None:
    """The GPUs that the run could have used; None where it replays what was recorded elsewhere."""
    if session.worker.live is None:
        kept = _last(session, GPUS_LISTED)
        return None if kept is None else GpuList(tuple(map(_gpu, kept.get("gpus", []))), kept.get("reason"))
    found = gpus()
    session.workspace.log(GPUS_LISTED, gpus=[_told(gpu) for gpu in found.gpus], reason=found.reason)
    return found


@dataclass(frozen=True)
class Software:
    """The versions that a prediction depends on. `ptxas` is None where it is not known."""

    torch: str
    triton: str
    ptxas: str | None
    harness: str


def software(session: Session, gpu: TargetGpu) -> Software:
    """That of the machine where the prediction for the GPU was made."""
    names = [each.name for each in fields(Software)]
    kept = None if session.worker.live is not None else _last(session, PREDICTED_WITH)
    if kept is not None:
        return Software(**{name: kept.get(name, "unknown") for name in names})
    found = Software(
        torch=importlib.metadata.version("torch"),
        triton=session.worker.triton(),
        ptxas=_ptxas_for(gpu),
        harness=__version__,
    )
    session.workspace.log(PREDICTED_WITH, **asdict(found))
    return found


def _ptxas_for(gpu: TargetGpu) -> str | None:
    """The version of triton's own compiler for it: since Blackwell there are two. None where none runs."""
    found = installed(Driver()).compilers
    newer = found.get("ptxas-blackwell") if gpu.capability >= _BLACKWELL else None
    ptxas = newer or found.get("ptxas")
    return None if ptxas is None else ".".join(map(str, ptxas.version))


def _last(session: Session, event: str) -> Mapping[str, Any] | None:
    return next((each for each in reversed(session.workspace.events()) if each.get("event") == event), None)


def _told(gpu: Gpu) -> dict[str, Any]:
    return {"index": gpu.index, "uuid": gpu.uuid, "name": gpu.name, "capability": list(gpu.capability)}


def _gpu(told: Mapping[str, Any]) -> Gpu:
    major, minor = told["capability"]
    return Gpu(told["index"], told["uuid"], told["name"], (major, minor), other_processes=None)
