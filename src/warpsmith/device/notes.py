"""What a reader of figures must know of the GPU behind them. Pure: sentences from facts."""

from __future__ import annotations

from warpsmith.contracts.device import DeviceFacts, TargetGpu
from warpsmith.device.gpus import VISIBLE_DEVICES, GpuList


def device_notes(asked: TargetGpu | None, used: DeviceFacts, listed: GpuList | None) -> tuple[str, ...]:
    """That another GPU was asked for, that several are here, that some are hidden. Empty where none of it holds.

    `asked` is the GPU to compile for, None where none was named; `listed` are the GPUs that this process may use, None
    where that does not matter, as on replay.
    """
    found = (_another_asked_for(asked, used), _several_here(used, listed), _hidden(listed))
    return tuple(note for note in found if note is not None)


def _another_asked_for(asked: TargetGpu | None, used: DeviceFacts) -> str | None:
    if asked is None or asked.name == used.name:
        return None
    alike = "the same" if asked.capability == used.capability else "another"
    return (
        f"asked for {asked.name}, but times, ceilings and counters are those of {used.name}: {alike} compute "
        f"capability ({_dotted(asked.capability)} and {_dotted(used.capability)}), and another GPU"
    )


def _several_here(used: DeviceFacts, listed: GpuList | None) -> str | None:
    if listed is None or len(listed.gpus) < 2:
        return None
    here = ", ".join(f"{gpu.index}: {gpu.name} ({gpu.uuid})" for gpu in listed.gpus)
    if any(_same(gpu.uuid, used.uuid) for gpu in listed.gpus):
        return f"{len(listed.gpus)} GPUs are here ({here}); {used.uuid} is the one used"
    return f"{len(listed.gpus)} GPUs are here ({here}); none of them is used"


def _hidden(listed: GpuList | None) -> str | None:
    """Why not all GPUs of the machine are listed. That there is no driver is told elsewhere."""
    if listed is None or listed.reason is None or not listed.reason.startswith(VISIBLE_DEVICES):
        return None
    return listed.reason


def _same(listed_uuid: str, used_uuid: str) -> bool:
    """torch gives a UUID without its kind, which NVML puts before it: "GPU-" or, of an instance, "MIG-"."""
    kinds = ("GPU-", "MIG-")
    bare = [uuid[4:] if uuid.startswith(kinds) else uuid for uuid in (listed_uuid, used_uuid)]
    return bare[0] == bare[1]


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
