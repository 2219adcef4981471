"""Matrix products on 16-bit operands as they were loaded, not as float32.

Why: a product of two 16-bit values is exact in float32, and in TF32, so converting them first wins nothing; it costs
half the rate of the tensor cores, or all of them where the product asks for IEEE, and twice the shared memory.
"""

from __future__ import annotations

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.search.strategies.base import Card
from warpsmith.search.strategies.rewriting import Rewriting
from warpsmith.source.rewrites import multiply_as_loaded

DOT_PRECISION = Rewriting(
    card=Card(
        name="dot_precision",
        title="Matrix products of 16-bit operands as they were loaded",
        applies="both operands of a tl.dot are loaded, converted to float32, and used for nothing else",
        hypothesis="16-bit operands have exact products in the float32 sums, at twice the rate of TF32.",
        expected="at most half of the kernel's time, by the rates of TF32 and 16 bits in NVIDIA's data sheets; nothing "
        "for float32 inputs",
        risk="sums are taken in another order, and 8-bit inputs that the source does not name are summed less "
        "precisely; the correctness gate would show it. True float32 operands are never narrowed: that would be TF32",
        takes_up=(OpportunityKind.WIDENED_DOT,),
    ),
    rewrite=multiply_as_loaded,
    nothing="no launched kernel multiplies operands that are converted to float32 only for it",
)
