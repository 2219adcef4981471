"""Skips tests marked `gpu` where there is no NVIDIA GPU. Imports torch only where such a test was collected.

A shell starts what it runs in the background with SIGINT ignored, nohup with SIGHUP ignored, and whatever is started
here would have them ignored too: tests interrupt it. What is imported by the time the tests begin is kept from the
garbage collector, which would look through it in each.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Test modules are imported by path, so what all of them share is found only if they are told where.
sys.path.insert(0, str(Path(__file__).resolve().parent))

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def import_path() -> Iterator[None]:
    """Loading a target puts its root on the path: what one test loads is found by no other."""
    before = list(sys.path)
    yield
    sys.path[:] = before


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    gpu_tests = [item for item in items if item.get_closest_marker("gpu")]
    if not gpu_tests:
        return
    import torch

    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs an NVIDIA GPU: torch.cuda.is_available() is False")
    for item in gpu_tests:
        item.add_marker(skip)


@pytest.fixture(autouse=True)
def kept_apart(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What tests measure is not kept for the user's runs, nor for other tests; and the pytest that runs a kernel's own
    tests does without the plugins of this environment, whose import takes longer than all else it does.
    """
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
