from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from triton.runtime.jit import JITFunction

from warpsmith.measure.timing import code
from warpsmith.measure.timing.code import LoadedCode


class Driver:
    """Loads each binary at the next place."""

    def __init__(self) -> None:
        self.loaded: list[tuple[Any, ...]] = []
        self.active = SimpleNamespace(utils=SimpleNamespace(load_binary=self.load))

    def load(self, *what: Any) -> tuple[int, int, int, int, int]:
        self.loaded.append(what)
        return 100 + len(self.loaded), 200 + len(self.loaded), 32, 0, 1024


@pytest.fixture
def driver(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """Triton, as far as it launches what it is handed and loads code."""
    found = Driver()
    monkeypatch.setattr(code, "driver", found)
    monkeypatch.setattr(JITFunction, "run", lambda jit, kernel, **options: kernel)
    yield found


def compiled(name: str, function: int | None = 1) -> Any:
    return SimpleNamespace(
        name=name, kernel=f"binary of {name}", metadata=SimpleNamespace(shared=64), module=1, function=function
    )


def launch(kernel: Any) -> Any:
    return JITFunction.run(SimpleNamespace(), kernel, grid=(1,))  # type: ignore[arg-type]


def test_what_was_launched_is_loaded_anew_each_time(driver: Driver) -> None:
    kernel, loaded = compiled("k"), LoadedCode()
    with loaded.watching():
        assert launch(kernel) is kernel
        launch(kernel)
    loaded.reload()
    assert (kernel.module, kernel.function) == (101, 201)
    loaded.reload()
    assert (kernel.module, kernel.function) == (102, 202)
    assert driver.loaded == [("k", "binary of k", 64, 0)] * 2


def test_what_was_launched_on_another_thread_is_noted_too(driver: Driver) -> None:
    kernel, loaded = compiled("backward"), LoadedCode()
    with loaded.watching():
        thread = threading.Thread(target=launch, args=(kernel,))
        thread.start()
        thread.join()
    loaded.reload()
    assert kernel.function == 201


def test_what_was_not_launched_while_watching_or_not_loaded_is_let_be(driver: Driver) -> None:
    before, after, never_loaded = compiled("before"), compiled("after"), compiled("never", function=None)
    loaded = LoadedCode()
    launch(before)
    with loaded.watching():
        launch(never_loaded)
        launch(None)
    launch(after)
    loaded.reload()
    assert driver.loaded == []


def test_a_launch_that_fails_leaves_triton_as_it_was(driver: Driver) -> None:
    original = JITFunction.run
    with pytest.raises(ZeroDivisionError), LoadedCode().watching():
        raise ZeroDivisionError
    assert JITFunction.run is original
