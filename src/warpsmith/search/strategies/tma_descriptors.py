"""TMA descriptors: tiles are fetched by Hopper's tensor memory accelerator, by a descriptor in place of pointers.

Why: one thread asks for a whole tile, which lands in shared memory: no addresses and masks in registers.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.contracts.launch import AccessKind, LaunchRecord
from warpsmith.contracts.profile import Profile
from warpsmith.search.strategies.base import Card, Layer
from warpsmith.search.strategies.signs import by_function, feeds_products, open_launches

BRIEF = """\
- When: the GPU is of compute capability 9.0 or later, a kernel of an open pass feeds a matrix product from tiles by
  pointers, and the general variants are judged already: build on the best.
- Change: on the host, TensorDescriptor.from_tensor(x, [rows, columns]) from triton.tools.tensor_descriptor, handed to
  the kernel in place of pointer and strides; in the kernel, descriptor.load([row, column]) and .store. Or in the
  kernel alone, tl.make_tensor_descriptor, which needs triton.set_allocator on the host. Masks at the edges go: reads
  beyond the tensor give 0, so a max or a division over padded elements needs its own mask still.
- Then search again: num_stages, num_warps, block sizes. tl.range(..., warp_specialize=True) is a variant of its own.
- Conditions that the host code must check before it takes this way: base aligned to 16 bytes, all strides but the
  last multiples of 16 bytes, the last 1, blocks of powers of two whose rows have 16 bytes or more. Else the pointers
  of the original, whole: keep both kernels, and choose by what the host knows, torch.compile's tracing included (it
  cannot ask for an address: keep pointers there).
- Must stay: signature, strided and shifted inputs, other GPUs and back ends (pointers), graphs, host time a call (a
  descriptor is made at each call: the guardrail is 10% and 3 µs).
- Prove: bulk copies stand among the accesses of the compiled code; then time at cases with most headroom.
- Give up: accesses are 16 B wide already and no product is fed, or host time is more than the device gains."""
_FIRST = (9, 0)


def _products(profile: Profile) -> Iterator[str]:
    if profile.device.capability < _FIRST:
        return
    for (mode, function), launches in by_function(open_launches(profile)).items():
        by_pointers = [case for case, launch in launches if feeds_products(launch) and not _has_bulk_copies(launch)]
        if by_pointers:
            yield f"{mode.value}: {function} feeds matrix instructions by pointers at {by_pointers[0]}"


def _has_bulk_copies(launch: LaunchRecord) -> bool:
    accesses = launch.compiled.accesses or ()
    return any(each.kind is AccessKind.ASYNC_COPY and each.bytes_a_thread is None for each in accesses)


CARD = Card(
    name="tma_descriptors",
    title="Tiles by TMA descriptors",
    applies="on Hopper and later, a kernel of a pass below its ceiling feeds a matrix product from tiles by pointers",
    hypothesis="The accelerator fetches whole tiles into shared memory, which frees registers and the instructions for "
    "addresses and masks.",
    expected="not measured",
    risk="inputs that are not aligned need the original's pointers; a descriptor costs host time at every call",
    layer=Layer.ARCHITECTURE,
    brief=BRIEF,
    signs=lambda profile: tuple(_products(profile)),
)
