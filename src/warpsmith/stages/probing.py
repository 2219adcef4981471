"""What each launch setting of the original changes of its machine code: compiled for one GPU, none of it run.

Owns which settings are tried, and when that is enough. Never ends a profile: what cannot be told is a note.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from warpsmith.contracts.audit import Knob, KnobKind, SourceAudit
from warpsmith.contracts.case import Case, Mode
from warpsmith.contracts.device import TargetGpu
from warpsmith.contracts.errors import PreflightError
from warpsmith.contracts.launch import CompiledSettings, LaunchRecord, SettingsProbe
from warpsmith.contracts.measurement import SourceRef
from warpsmith.diagnose.evidence import Launches
from warpsmith.diagnose.probes import settings_probe
from warpsmith.measure.worker.protocol import CompiledAnswer, CompileOffline, WorkerError
from warpsmith.measure.worker.stored import NotRecorded
from warpsmith.search.bench import Bench
from warpsmith.search.tuning.choices import knobs_to_search
from warpsmith.search.tuning.constraints import why_not
from warpsmith.search.tuning.values import BY_KIND, space_at
from warpsmith.source.rewrites import NotApplicable
from warpsmith.source.tunable import make_tunable
from warpsmith.stages.session import Session, text_of
from warpsmith.stages.timings import heaviest_tuning_case

#: In this order: stages may well change nothing, warps seldom. Blocks are left out, for every size gives other code.
PROBED = (KnobKind.NUM_STAGES, KnobKind.LOOP_STAGES, KnobKind.NUM_WARPS)

#: Chosen: a look at the compiler beside a profile. As many are compiled in 3 s of a row kernel, in 25 s of a matrix
#: product (triton 3.7.1, one core of a small virtual machine); a matrix product of the library has 22.
MOST_SETTINGS = 48
#: Chosen, against a source that the compiler chews on: several times what a row kernel's settings take, as what is
#: profiled must depend on the speed of a machine nowhere else.
LIMIT_S = 20.0


@dataclass(frozen=True)
class _Probed:
    """One knob at one case and mode. `source` takes its value from outside; `launches` are those that it sets."""

    knob: Knob
    case: Case
    mode: Mode
    source: SourceRef
    launches: Sequence[LaunchRecord]

    def __str__(self) -> str:
        return f"{self.knob.id} at {self.case.name} {self.mode.value}"


def probe_settings(
    session: Session, bench: Bench, audit: SourceAudit, launches: Launches, gpu: TargetGpu
) -> tuple[SettingsProbe, ...]:
    """Each tunable number of warps or stages, alone, at the heaviest tuning case of each pass that has such launches.

    What is beyond MOST_SETTINGS, or not begun LIMIT_S after the first answer, is left out and told.
    """
    found: list[SettingsProbe] = []
    todo = sorted(_to_probe(session, bench, audit, launches), key=lambda probed: PROBED.index(probed.knob.kind))
    settings, began_s = 0, None
    for index, probed in enumerate(todo):
        settings += len(BY_KIND[probed.knob.kind])
        if settings > MOST_SETTINGS or (began_s is not None and session.clock() - began_s > LIMIT_S):
            left = ", ".join(f"{each.knob.id} {each.mode.value}" for each in todo[index:])
            bench.report(f"not tried, to end in time: {left}")
            break
        bench.report(f"{probed} for {gpu.name}", index, len(todo))
        try:
            found.append(_probe(bench, probed, gpu))
        except WorkerError as error:
            bench.report(f"{probed}: {error.failure.in_a_line}")
        except NotRecorded:
            bench.report(f"{probed}: was not tried")
        began_s = session.clock() if began_s is None else began_s
    return tuple(found)


def _to_probe(session: Session, bench: Bench, audit: SourceAudit, launches: Launches) -> Iterator[_Probed]:
    case, sources = heaviest_tuning_case(bench.spec), dict[str, SourceRef | None]()
    for mode in bench.spec.passes:
        launched = launches.get(case.name, {}).get(mode, ())
        for function in dict.fromkeys(launch.jit_function for launch in launched):
            searched, _ = knobs_to_search(audit.knobs, function, frozenset())
            knobs = [knob for knob in searched if knob.kind in PROBED]
            if function not in sources:
                sources[function] = _tunable(session, bench, function, knobs)
            if (source := sources[function]) is None:
                continue
            own = [launch for launch in launched if launch.jit_function == function]
            for knob in knobs:
                yield _Probed(knob, case, mode, source, own)


def _tunable(session: Session, bench: Bench, function: str, knobs: Sequence[Knob]) -> SourceRef | None:
    """The original with these knobs to be set from outside. None where it has none, or cannot be rewritten."""
    if not knobs:
        return None
    try:
        return bench.keep(f"tunable_{function}", make_tunable(text_of(session.workspace.original), knobs))
    except (NotApplicable, PreflightError) as reason:
        bench.report(f"the settings of {function} cannot be tried: {reason}")
        return None


def _probe(bench: Bench, probed: _Probed, gpu: TargetGpu) -> SettingsProbe:
    """Raises WorkerError where nothing can be compiled, NotRecorded where nobody is there to compile it."""
    knob, refused = probed.knob, dict[int, str]()
    for value in BY_KIND[knob.kind]:
        if (reason := _hopeless(bench, probed, value)) is not None:
            refused[value] = reason
    values = [value for value in BY_KIND[knob.kind] if value not in refused]
    question = CompileOffline(
        target=bench.target,
        seed=bench.seed,
        source=probed.source,
        case=probed.case,
        mode=probed.mode,
        gpu=gpu,
        settings=tuple({knob.id: value} for value in values),
    )
    compiled = dict(zip(values, bench.ask(question, CompiledAnswer).compiled, strict=True))
    told = [
        compiled.get(value) or CompiledSettings(settings={knob.id: value}, failure=refused[value])
        for value in BY_KIND[knob.kind]
    ]
    return settings_probe(knob.id, probed.case.name, probed.mode, BY_KIND[knob.kind], told, knob.jit_function)


def _hopeless(bench: Bench, probed: _Probed, value: int) -> str | None:
    """Why a value is not worth compiling: no thread can hold its part. What the original has is."""
    space = space_at([probed.knob], probed.launches, bench.device)
    return why_not(space, {probed.knob.id: value}, probed.case, bench.device)
