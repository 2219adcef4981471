"""What of a target is profiled here: the cases that a diagnosis is read off, beside nobody. Loaded in workers only."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from liger.installed import KERNELS as LIGERS

from warpsmith.contracts.case import Role
from warpsmith.contracts.target import Target
from warpsmith.measure.worker.loading import load_target

#: Liger-Kernel asks at import whether these are there. No kernel hangs on the answer, and importing them takes seconds
#: in each process of a profile.
_UNNEEDED_BY_LIGER = ("peft", "transformers")


def narrowed(benchmark: Path, kernel: str) -> Target:
    """The target of that kernel at its tuning cases alone, without baseline providers."""
    whole = whole_target(benchmark, kernel)
    tuning = tuple(case for case in whole.cases if case.role is Role.TUNING)
    return replace(whole, cases=tuning, providers={})


def whole_target(benchmark: Path, kernel: str) -> Target:
    if kernel in LIGERS:
        for name in _UNNEEDED_BY_LIGER:
            sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # Python takes it as not installed
        from liger.targets import TARGETS

        return TARGETS[kernel]
    return load_target(str(benchmark / f"benchmark_{kernel}.py"))
