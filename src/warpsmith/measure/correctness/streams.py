"""Work that a caller does not wait for: on another stream than the current one.

Owns both ways to find it: which stream is current when something is launched, and what stands in the results as soon
as the current stream has come to them.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from warpsmith.contracts.measurement import CheckFailure
from warpsmith.measure.correctness.bout import Bout
from warpsmith.measure.correctness.launched import watched_launches
from warpsmith.measure.correctness.repeats import differences, limits_of
from warpsmith.measure.correctness.trial import Results, Trial
from warpsmith.measure.worker.implementation import Implementation

#: Chosen: about two milliseconds, in which a call has launched all that it launches.
_HOLD_CYCLES = 4_000_000


def streams(bout: Bout) -> Iterator[CheckFailure]:
    """Results are ready on the current stream, and nothing is launched on another where the original does not."""
    trial = bout.trial
    if trial.device.type != "cuda":
        return
    if (found := _elsewhere(bout.candidate, trial)) and not _elsewhere(bout.original, trial):
        message = f"launches on another stream than the current one, the original does not: {', '.join(sorted(found))}"
        yield CheckFailure(check="streams", message=message)
    known, limits = bout.known.results, limits_of(bout.errors)
    early = list(differences(_early(bout.candidate, trial), known, limits))
    if early and [*differences(_waited_for(bout.candidate, trial), known, limits)]:
        return  # they differ from call to call, however long one waits: the next check's matter
    for part, worst in early:
        message = f"its results are not ready on the current stream; most at {worst}"
        yield CheckFailure(check="streams", part=part, message=message, worst=worst)


def _early(side: Implementation, trial: Trial) -> Results:
    """Results as the current stream finds them after a call whose inputs arrive late on it.

    Until the stream has waited a while, inputs hold NaN: work that does not wait for it computes from those.
    """
    for tensor in (*trial.inputs.values(), *trial.output_gradients.values()):
        if isinstance(tensor, Tensor) and tensor.is_floating_point():
            storage = tensor.untyped_storage()  # whole, for elements of a view may share memory
            torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage).fill_(float("nan"))
    torch.cuda.synchronize(trial.device)
    torch.cuda._sleep(_HOLD_CYCLES)
    results = trial.run(side)
    early = {name: part if part is None else part.clone() for name, part in results.items()}
    torch.cuda.synchronize(trial.device)
    return early


def _waited_for(side: Implementation, trial: Trial) -> Results:
    """Results after a call for which everything waits, before and after."""
    trial.restore()
    torch.cuda.synchronize(trial.device)
    results = trial.run(side)
    torch.cuda.synchronize(trial.device)
    return results


def _elsewhere(side: Implementation, trial: Trial) -> set[str]:
    """The kernels and operators of a call that are launched while another stream is current than before it."""
    operations = _OperationsElsewhere(torch.cuda.current_stream(trial.device).cuda_stream)
    with watched_launches() as launches:
        trial.run(side, operations)
    return operations.found | {kernel.name for kernel in launches.elsewhere}


class _OperationsElsewhere(TorchDispatchMode):
    """Autograd takes it along to the threads of its own on which passes backward run."""

    supports_higher_order_operators = True

    def __init__(self, stream: int) -> None:
        super().__init__()
        self.found: set[str] = set()
        self._stream = stream

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.cuda.current_stream().cuda_stream != self._stream:
            self.found.add(func.name().partition(".")[0])
        return func(*args, **(kwargs or {}))
