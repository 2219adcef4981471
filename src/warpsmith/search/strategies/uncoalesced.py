"""Uncoalesced accesses: neighbouring threads are given neighbouring addresses.

Why: memory moves in sectors of 32 bytes. Threads whose elements lie a stride apart each move a sector for one element.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.contracts.profile import Profile
from warpsmith.search.strategies.base import Card
from warpsmith.search.strategies.signs import opportunities_told

BRIEF = """\
- When: the audit names a stride that nothing keeps at 1, a case really passes one above 1 (its launches tell the
  arguments), and counters, where they ran, saw more bytes than the least. Code for a stride that is 1 is wide already.
- Change, in this order:
  1. The stride is 1 in every case: let host code make it so (a check, `.contiguous()` on a small operand) and take
     the parameter out. A copy of a large operand costs a read and a write: count them.
  2. Interleaved pairs or groups (x[2 i], x[2 i + 1]): load the whole run of 2 BLOCK neighbours once, then tl.reshape
     to (BLOCK, 2) and tl.split. In PTX (Triton 3.7.1, bf16, sm_90) 16 loads of 2 bytes become 2 of 16.
  3. A matrix walked down its columns: one tile of both axes, tl.arange of the contiguous one last, so that each warp
     reads runs of 32 bytes and more; reduce along the other axis, or tl.trans in registers before the store.
  4. Several outputs from one strided read: let the program take neighbouring columns, not neighbouring rows.
- Must stay: any strides that the original takes, by the old path where 1 is not certain; results bit for bit, but for
  the order of a reduction within the error budget.
- Prove: bytes a thread rise in the compiled code; excess traffic falls to the least bytes; then the time.
- Give up: L2 holds the sectors until their neighbours ask for them (excess near 1), or the copy costs what is won."""


def _wasted_sectors(profile: Profile) -> Iterator[str]:
    """More traffic than must be speaks for it only where the source has strides that may cause it."""
    if any(opportunities_told(profile, (OpportunityKind.UNCOALESCED,))):
        yield from opportunities_told(profile, (OpportunityKind.EXCESS_TRAFFIC,))


CARD = Card(
    name="uncoalesced",
    title="Neighbouring threads, neighbouring addresses",
    applies="a launched kernel below its ceiling steps by a stride that nothing in the host code keeps at 1",
    hypothesis="A sector that is used whole is moved once, not once for each element in it.",
    expected="10% to 80% of the kernel's headroom (chosen), only where a case really passes a stride above 1",
    risk="a copy that makes a tensor contiguous is a pass of its own; tiles of two axes take more registers",
    takes_up=(OpportunityKind.UNCOALESCED,),
    brief=BRIEF,
    signs=lambda profile: tuple(_wasted_sectors(profile)),
)
