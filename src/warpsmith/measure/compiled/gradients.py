"""Gradients on the calling thread, node by node, without autograd's engine. Must not know GPUs or targets."""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import get_gradient_edge

#: A node of autograd's graph: it takes the gradients of its outputs and returns those of its inputs.
_Node = Any


def gradients(
    outputs: Sequence[Tensor] | Tensor,
    inputs: Sequence[Tensor] | Tensor,
    grad_outputs: Sequence[Tensor | None] | None = None,
    **_: Any,
) -> tuple[Tensor | None, ...]:
    """What torch.autograd.grad returns, None for an input that the outputs do not depend on. The graph is kept.

    First order only; hooks on tensors are not run. A function of the user's is handed zeros for a gradient that does
    not exist, as by default.
    """
    ends = [get_gradient_edge(each) for each in _as_sequence(outputs)]
    wanted = [get_gradient_edge(each) for each in _as_sequence(inputs)]
    received: dict[_Node, dict[int, Tensor]] = {}
    starts = grad_outputs if grad_outputs is not None else [torch.ones_like(each) for each in _as_sequence(outputs)]
    for end, start in zip(ends, starts, strict=True):
        _accumulate(received, end.node, end.output_nr, start)
    order = list(_from_outputs_to_inputs([end.node for end in ends]))
    leading = _leading_to({edge.node for edge in wanted}, order)
    with torch.no_grad():
        for node in order:
            if node in received and any(following in leading for following, _ in node.next_functions):
                for (following, index), gradient in _run(node, received[node]):
                    _accumulate(received, following, index, gradient)
    return tuple(received.get(edge.node, {}).get(edge.output_nr) for edge in wanted)


def _as_sequence(given: Sequence[Tensor] | Tensor) -> Sequence[Tensor]:
    return (given,) if isinstance(given, Tensor) else given


def _accumulate(received: dict[_Node, dict[int, Tensor]], node: _Node, index: int, gradient: Tensor | None) -> None:
    """As the engine does, in the shape and dtype of what the gradient is of: a node may leave a broadcast in it."""
    if node is None or gradient is None:
        return
    of = node._input_metadata[index]
    if gradient.shape != of.shape:
        gradient = gradient.sum_to_size(tuple(of.shape))
    gradient = gradient.to(of.dtype)
    at = received.setdefault(node, {})
    at[index] = at[index] + gradient if index in at else gradient


def _from_outputs_to_inputs(roots: Sequence[_Node]) -> Iterator[_Node]:
    """Every node after all that hand it a gradient: the reverse of a depth-first post-order."""
    finished: dict[_Node, None] = {}
    for root in roots:
        stack = [(root, iter(root.next_functions))]
        seen = {*finished, root}
        while stack:
            node, rest = stack[-1]
            following = next((f for f, _ in rest if f is not None and f not in seen), None)
            if following is None:
                finished.setdefault(node)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(following.next_functions)))
    return reversed(finished)


def _leading_to(wanted: set[_Node], order: Sequence[_Node]) -> set[_Node]:
    """The wanted nodes and all that hand them a gradient: the engine runs no others."""
    leading: set[_Node] = set()
    for node in reversed(order):
        if node in wanted or any(following in leading for following, _ in node.next_functions):
            leading.add(node)
    return leading


def _run(node: _Node, received: dict[int, Tensor]) -> Iterator[tuple[tuple[_Node, int], Tensor | None]]:
    """The edges that leave the node, each with its gradient."""
    outputs = node._input_metadata  # of the backward node's inputs: the outputs of the forward pass
    if not isinstance(node, BackwardCFunction):
        found = _as_tuple(node(*(received.get(index) for index in range(len(outputs)))))
        return zip(node.next_functions, found, strict=True)
    given = [
        received[index] if index in received else torch.zeros(tuple(out.shape), dtype=out.dtype, device=out.device)
        for index, out in enumerate(outputs)
    ]
    found = _as_tuple(node.apply(*given))
    # It answers for every argument, also for those that are no tensors; edges are those of tensors.
    needed = [gradient for gradient, needs in zip(found, node.needs_input_grad, strict=False) if needs]
    return zip((edge for edge in node.next_functions if edge[0] is not None), needed, strict=True)


def _as_tuple(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)
