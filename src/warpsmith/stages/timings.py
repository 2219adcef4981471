"""The timing questions that stages share: which contenders stand together, and apart where one cannot be captured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.measurement import Contender, SourceRef, Timing, TimingMethod
from warpsmith.contracts.target import TargetSpec
from warpsmith.search.bench import Bench

#: The original again, from a second file: what differs between the two is noise.
COPY = "original_copy"

#: Chosen: torch.compile compiles every shape anew, which takes longer than all else together.
COMPILED_PROVIDERS = frozenset({"torch_compile"})


def providers_at(spec: TargetSpec, case: Case) -> tuple[str, ...]:
    """The baseline providers that are measured at a case: those that compile only at tuning cases."""
    tuning = {c.name for c in spec.tuning_cases}
    return tuple(p for p in spec.providers if p not in COMPILED_PROVIDERS or case.name in tuning)


def with_providers(bench: Bench, sources: Sequence[Contender], case: Case, mode: Mode) -> tuple[Timing, ...]:
    """Sources and baseline providers in one comparison, or, where a provider cannot be captured, apart.

    Sources are timed by graph replay either way; a provider that cannot be is compared with the first source by
    the method that it allows, in a comparison of its own.
    """
    providers = [Contender(name=name) for name in providers_at(bench.spec, case)]
    together = bench.time([*sources, *providers], case, mode)
    if together.method is TimingMethod.GRAPH or not providers:
        return (together,)
    apart = [bench.time(sources, case, mode)]
    apart.extend(bench.time([sources[0], provider], case, mode) for provider in providers)
    return tuple(apart)


def contenders(**sources: SourceRef) -> list[Contender]:
    return [Contender(name=name, source=source) for name, source in sources.items()]


def pairs(cases: Iterable[Case], modes: Sequence[Mode]) -> list[tuple[Case, Mode]]:
    return [(case, mode) for case in cases for mode in modes]
