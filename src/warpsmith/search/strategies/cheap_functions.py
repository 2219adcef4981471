"""Cheap functions: rsqrt for a root that divides, exp2 for exp, a reciprocal for divisions in a loop.

Why: what Triton 3.7.1 compiles for sm_90 is one instruction for rsqrt and ten for a root and a division, two for exp2
of a scaled argument and five for exp, one for a product and eight for a quotient.
"""

from __future__ import annotations

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.search.strategies.base import Card
from warpsmith.search.strategies.rewriting import Rewriting
from warpsmith.source.rewrites import use_cheap_functions

CHEAP_FUNCTIONS = Rewriting(
    card=Card(
        name="cheap_functions",
        title="Roots, exponentials and divisions in fewer instructions",
        applies="a launched kernel below its ceiling divides by a square root, takes exp, or divides a float32 block "
        "in a loop by what does not change in it",
        hypothesis="Reciprocal roots, exponentials to base 2 and reciprocals made before the loop do the same in fewer "
        "instructions.",
        expected="at most 10% of the kernel's time (chosen) where arithmetic or latency holds it back, nothing where "
        "memory does; short runs decide",
        risk="the last bit changes, and exp2 gives 0 where exp is subnormal; the correctness gate would show it",
        takes_up=(OpportunityKind.COSTLY_FUNCTION,),
    ),
    rewrite=use_cheap_functions,
    nothing="no launched kernel has a root to divide by, an exp, or a division by what does not change in its loop",
)
