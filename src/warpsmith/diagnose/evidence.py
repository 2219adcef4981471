"""Owns what a diagnosis is made from: the records of one profiling run, and how they are looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from warpsmith.contracts.audit import SourceAudit
from warpsmith.contracts.case import Mode
from warpsmith.contracts.counters import Counters, Durations
from warpsmith.contracts.device import DeviceFacts
from warpsmith.contracts.launch import LaunchRecord, SettingsProbe
from warpsmith.contracts.measurement import HostTime, Memory, Timing
from warpsmith.contracts.target import TargetSpec

#: case name -> mode -> the original's launches
Launches = dict[str, dict[Mode, tuple[LaunchRecord, ...]]]


@dataclass(frozen=True)
class Evidence:
    """Everything that was observed of the original and its baselines.

    `warm_timings` are `timings` again with L2 warm, where that was measured. `no_host_time` says why a pass has none.
    `notes` qualify what was compiled: "<jit function>: <what>", as `CompiledSettings.notes`.
    Without any timing nothing was run: launches are then what the compiler makes of the original for `device`.
    """

    spec: TargetSpec
    device: DeviceFacts
    audit: SourceAudit
    launches: Launches
    timings: tuple[Timing, ...]
    memories: tuple[Memory, ...] = ()
    counters: tuple[Counters, ...] = ()
    warm_timings: tuple[Timing, ...] = ()
    host_times: tuple[HostTime, ...] = ()
    no_host_time: Mapping[Mode, str] = field(default_factory=dict)
    durations: tuple[Durations, ...] = ()
    probes: tuple[SettingsProbe, ...] = ()
    device_notes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_measured(self) -> bool:
        return bool(self.timings)

    def launches_at(self, case: str, mode: Mode) -> tuple[LaunchRecord, ...]:
        """The launches of a case; those of `full`, where not recorded themselves, are both passes'."""
        by_mode = self.launches.get(case, {})
        if mode is Mode.FULL and Mode.FULL not in by_mode:
            return by_mode.get(Mode.FORWARD, ()) + by_mode.get(Mode.BACKWARD, ())
        return by_mode.get(mode, ())

    @property
    def jit_functions(self) -> frozenset[str]:
        """Names of the jit functions of the source, and of those of other files that a call launches."""
        launched = {
            record.jit_function for case in self.launches.values() for found in case.values() for record in found
        }
        return frozenset(launched | {function.name for function in self.audit.jit_functions})

    def functions_of(self, mode: Mode) -> frozenset[str]:
        """Names of the jit functions launched in a mode, of the host functions that launch them, and of the methods
        that an autograd function has for it. Empty where no launch is known."""
        records = [record for case in self.launches for record in self.launches_at(case, mode)]
        names = {name for r in records for name in (r.jit_function, r.host_function)}
        return frozenset(names | {each.value for each in mode.passes}) if names else frozenset()

    def counted(self, mode: Mode) -> tuple[Counters, ...]:
        """The counters of a mode that have rows."""
        return tuple(c for c in self.counters if c.mode is mode and c.rows)

    def profiled(self, mode: Mode) -> tuple[Durations, ...]:
        """The kernel durations of a mode that are known."""
        return tuple(d for d in self.durations if d.mode is mode and d.kernels)
