"""Stands in for the module pynvml, with what a driver tells of its GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    pass


@dataclass
class Card:
    """One GPU. What is None, the driver refuses to tell."""

    uuid: str = "GPU-0"
    name: str = "NVIDIA H200"
    capability: tuple[int, int] = (9, 0)
    pids: tuple[int, ...] | None = ()
    memory: tuple[int, int] | None = (141 << 30, 1 << 30)
    clock_mhz: int | None = 345
    reasons: int | None = 0x1
    persistence: int | None = 1
    limit_mw: int | None = 700_000
    default_limit_mw: int | None = 700_000


def told(value: Any) -> Any:
    if value is None:
        raise NVMLError("Not Supported")
    return value


@dataclass
class Nvml:
    cards: tuple[Card, ...] = ()
    missing: str | None = None
    version: str | bytes | None = "580.159.03"
    cuda: int | None = 13000
    NVMLError: type[Exception] = NVMLError
    NVML_CLOCK_SM: int = 1

    def nvmlInit(self) -> None:
        if self.missing:
            raise NVMLError(self.missing)

    def nvmlShutdown(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:
        return self.cards[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Card:
        return told(next((card for card in self.cards if card.uuid == uuid), None))

    def nvmlDeviceGetCudaComputeCapability(self, card: Card) -> tuple[int, int]:
        return card.capability

    def nvmlDeviceGetUUID(self, card: Card) -> str:
        return card.uuid

    def nvmlDeviceGetName(self, card: Card) -> str:
        return card.name

    def nvmlDeviceGetComputeRunningProcesses(self, card: Card) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid) for pid in told(card.pids)]

    def nvmlSystemGetDriverVersion(self) -> str | bytes:
        return told(self.version)

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return told(self.cuda)

    def nvmlDeviceGetMemoryInfo(self, card: Card) -> SimpleNamespace:
        total, used = told(card.memory)
        return SimpleNamespace(total=total, used=used)

    def nvmlDeviceGetClockInfo(self, card: Card, clock: int) -> int:
        assert clock == self.NVML_CLOCK_SM
        return told(card.clock_mhz)

    def nvmlDeviceGetMaxClockInfo(self, card: Card, clock: int) -> int:
        assert clock == self.NVML_CLOCK_SM
        return 1980

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, card: Card) -> int:
        return told(card.reasons)

    def nvmlDeviceGetPersistenceMode(self, card: Card) -> int:
        return told(card.persistence)

    def nvmlDeviceGetEnforcedPowerLimit(self, card: Card) -> int:
        return told(card.limit_mw)

    def nvmlDeviceGetPowerManagementDefaultLimit(self, card: Card) -> int:
        return told(card.default_limit_mw)
