"""Which operators of torch a candidate may call that the original does without: none that does the kernel's work.

Owns the list of what is allowed. It names what is harmless: a list of what is not would miss the next operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch._library.custom_ops

from warpsmith.contracts.measurement import CheckFailure
from warpsmith.measure.correctness.bout import Bout

#: Memory, and tensors that say how the same memory is read.
_ALLOCATION = """
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like new_zeros ones ones_like
    new_ones full full_like new_full scalar_tensor arange _efficientzerotensor resize_ resize_as_ set_
"""
_VIEWS = """
    view _unsafe_view view_as reshape _reshape_alias as_strided expand expand_as permute transpose transpose_ t t_ mT
    squeeze squeeze_ unsqueeze unsqueeze_ select slice narrow split split_with_sizes chunk unbind unfold diagonal detach
    detach_ alias view_as_real view_as_complex real imag lift lift_fresh flatten unflatten movedim swapaxes
"""
#: The same values elsewhere, in another dtype or layout, side by side, or with a margin.
_COPIES = "clone copy copy_ _to_copy contiguous to cat stack constant_pad_nd _foreach_copy_ _copy_from"
_FILLS = "fill fill_ zero zero_ _foreach_zero_"
#: About a tensor, or one number of it on its way to the host.
_METADATA = """
    is_nonzero item _local_scalar_dense equal is_same_size size stride numel sym_size sym_stride sym_numel
    sym_storage_offset is_pinned _pin_memory pin_memory record_stream _has_same_storage_numel
"""
#: Partial results that programs left in a workspace, put together.
_REDUCTIONS = "sum amax amin"
#: What scales or casts such sums, and a weight plus one. Powers, roots, exponentials and comparisons are a kernel's.
_GLUE = "add add_ sub sub_ rsub mul mul_ div div_ neg neg_"

ALLOWED = frozenset(
    f"aten::{name}"
    for names in (_ALLOCATION, _VIEWS, _COPIES, _FILLS, _METADATA, _REDUCTIONS, _GLUE)
    for name in names.split()
)


def library_calls(bout: Bout) -> Iterator[CheckFailure]:
    """No operator that computes, beyond those that the original calls. A plain function is held to nothing."""
    if bout.candidate.source_path is None:
        return
    for name in sorted(bout.found.operations - bout.known.operations - ALLOWED):
        if not _is_its_own(name, bout.candidate.source_path):
            message = f"calls {name}, a library's kernel that the original does not use"
            yield CheckFailure(check="library calls", message=message)


def _is_its_own(name: str, path: str) -> bool:
    """Whether the operator is a custom one that the source registers. What it calls in turn was seen as well."""
    definition: Any = torch._library.custom_ops.OPDEFS.get(name)
    function = getattr(definition, "_init_fn", None)
    return function is not None and function.__code__.co_filename == path
