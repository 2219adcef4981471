"""Partial sums: sums over rows by atomics, or by a partial sum a program and a second step, whichever is cheaper here.

Why: atomics to few addresses queue up; partial sums are written, read again, and need another launch.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.contracts.audit import OpportunityKind, PatternKind
from warpsmith.contracts.profile import Profile
from warpsmith.search.strategies.base import Card
from warpsmith.search.strategies.signs import open_launches

BRIEF = """\
- When: "Source" shows atomics in a kernel of an open pass; or programs that loop over rows leave partial sums, and
  "Kernel durations" a sum, a cast or a fill that take more than a few percent of the call.
- From atomics to partial sums: many programs add to each address, or the result must be the same bits each time. Let
  a fixed number of programs loop over rows, add in registers in float32, store one partial row each into
  torch.empty((programs, n)), and reduce along programs in a second kernel or by torch's sum; without atomics no
  tensor needs to be zeroed.
- From partial sums to atomics: rows are wide and programs few, so that the second step is a good part of the call.
  Zero one float32 buffer, add each program's sum once at its end (tl.atomic_add, sem="relaxed"), cast last. Results
  then differ in the last bits from call to call: only where the original's do already, or behind
  torch.are_deterministic_algorithms_enabled().
- Between both: groups. G buffers with a program's index modulo G, or a second step that also casts, so that sum and
  cast are one launch. A buffer of partial sums is in float32, never in bf16.
- Must stay: accumulation in float32, results within the error budget, repeats within rounding, graphs, torch.compile.
- Prove: the launches of a call and their shares in the durations; time where programs are most and fewest.
- Give up: the sums are a small part of the call both ways: let settings search the number of programs."""


def _sums(profile: Profile) -> Iterator[str]:
    launches = [launch for found in open_launches(profile).values() for launch in found]
    launched = {launch.jit_function for launch in launches}
    for function in profile.audit.jit_functions:
        if function.atomics and function.name in launched:
            yield f"line {function.line}: {function.name} has {function.atomics} atomics"
    hosts = {launch.host_function for launch in launches}
    for pattern in profile.audit.patterns:
        if pattern.kind is PatternKind.INTERMEDIATE and pattern.function in launched | hosts:
            yield f"line {', '.join(map(str, pattern.lines))}: {pattern.what}"


CARD = Card(
    name="partial_sums",
    title="Atomics against partial sums",
    applies="a kernel of a pass below its ceiling adds to shared sums by atomics, or writes partial sums for a second "
    "step",
    hypothesis="Where many programs add to few addresses, sums of their own spare the queue; where programs are few, "
    "atomics spare the second launch.",
    expected="the time of the step that goes, or of the queue (not measured)",
    risk="atomics add in any order, so that the last bits change from call to call; partial sums take memory",
    takes_up=(OpportunityKind.ONE_PROGRAM_PER_SM,),
    brief=BRIEF,
    signs=lambda profile: tuple(_sums(profile)),
)
