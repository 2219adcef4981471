"""The worker process: `python -m warpsmith.measure`, spoken to over its standard input and output."""

from collections.abc import Callable, Mapping
from typing import Any

from warpsmith.contracts.base import Contract
from warpsmith.measure.worker.serve import serve


def _handlers() -> Mapping[str, Callable[[Any], Contract]]:
    """Loads torch and triton, which takes seconds in which whoever asks may be gone."""
    from warpsmith.measure.handlers import handlers

    return handlers()


if __name__ == "__main__":
    serve(_handlers)
