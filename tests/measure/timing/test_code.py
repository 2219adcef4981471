from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from triton.runtime.jit import JITFunction

from warpsmith.measure.timing import code
from warpsmith.measure.timing.code import MOST_SPARE_COPIES, LoadedCode


class Driver:
    """Loads each binary as a module of the next number, and keeps what was loaded and unloaded."""

    def __init__(self) -> None:
        self.loaded: dict[int, tuple[Any, ...]] = {}
        self.unloaded: list[int] = []
        self.log: list[str] = []
        self.active = SimpleNamespace(utils=SimpleNamespace(load_binary=self.load))
        library = {"libcuda.so.1": SimpleNamespace(cuModuleUnload=self.unload)}
        self.ctypes = SimpleNamespace(CDLL=library.__getitem__, c_void_p=lambda module: module)

    def load(self, *what: Any) -> tuple[int, int, int, int, int]:
        module = 100 + len(self.loaded)
        self.loaded[module] = what
        self.log.append("load")
        return module, module + 1000, 32, 0, 1024

    def unload(self, module: int) -> None:
        self.unloaded.append(module)
        self.log.append("unload")

    def names(self) -> list[str]:
        return [what[0] for what in self.loaded.values()]


@pytest.fixture
def driver(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """Triton, as far as it launches what it is handed and loads code, and the driver, as far as it unloads it."""
    found = Driver()
    monkeypatch.setattr(code, "driver", found)
    monkeypatch.setattr(code, "ctypes", found.ctypes)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: found.log.append("wait"))
    monkeypatch.setattr(JITFunction, "run", lambda jit, kernel, **options: kernel)
    yield found


def compiled(name: str, function: int | None = 1) -> Any:
    return SimpleNamespace(
        name=name, kernel=f"binary of {name}", metadata=SimpleNamespace(shared=64), module=1, function=function
    )


def launch(kernel: Any) -> Any:
    return JITFunction.run(SimpleNamespace(), kernel, grid=(1,))  # type: ignore[arg-type]


def watched(*kernels: Any) -> LoadedCode:
    loaded = LoadedCode()
    with loaded.watching():
        for kernel in kernels:
            assert launch(kernel) is kernel
    return loaded


def test_what_was_launched_is_loaded_anew_each_time(driver: Driver) -> None:
    kernel = compiled("k")
    loaded, draw = watched(kernel, kernel), random.Random(0)
    places = []
    for _ in range(5):
        loaded.reload(draw)
        places.append((kernel.module, kernel.function))
    assert len(set(places)) == 5
    assert all(function == module + 1000 for module, function in places)
    assert set(driver.loaded.values()) == {("k", "binary of k", 64, 0)}


def test_up_to_so_many_spare_copies_lie_between_one_kernel_and_the_next(driver: Driver) -> None:
    a, b = compiled("a"), compiled("b")
    loaded, draw, copies, spares = watched(a, b), random.Random(0), 0, set()
    for _ in range(60):
        loaded.reload(draw)
        names = driver.names()[copies:]
        copies += len(names)
        assert names in ([each] * names.count(each) + [other] * names.count(other) for each, other in ("ab", "ba"))
        # What is run is the last of its copies: the spare ones lie before it.
        for kernel in (a, b):
            assert kernel.module == max(module for module, what in driver.loaded.items() if what[0] == kernel.name)
            spares.add(names.count(kernel.name) - 1)
    assert spares == set(range(MOST_SPARE_COPIES + 1))


def test_no_kernel_is_always_loaded_first_and_the_order_follows_from_the_seed(driver: Driver) -> None:
    def loaded_by(seed: int) -> tuple[Counter[str], list[str]]:
        """Who came first how often, and all in their order."""
        loaded, draw, first = watched(compiled("a"), compiled("b")), random.Random(seed), Counter[str]()
        begun = len(driver.loaded)
        for _ in range(60):
            copies = len(driver.loaded)
            loaded.reload(draw)
            first[driver.names()[copies]] += 1
        return first, driver.names()[begun:]

    first, order = loaded_by(1)
    assert min(first["a"], first["b"]) > 15
    assert loaded_by(1) == (first, order) != loaded_by(2)


def test_copies_are_unloaded_once_the_next_are_there_and_what_triton_loaded_never_is(driver: Driver) -> None:
    loaded, draw, before = watched(compiled("a"), compiled("b")), random.Random(0), set[int]()
    for _ in range(20):
        known = set(driver.loaded)
        driver.unloaded.clear()
        driver.log.clear()
        loaded.reload(draw)
        assert sorted(driver.unloaded) == sorted(before)
        before = set(driver.loaded) - known
        waited = ["wait"] if driver.unloaded else []
        assert driver.log == ["load"] * len(before) + waited + ["unload"] * len(driver.unloaded)
    assert min(driver.loaded) > compiled("a").module


def test_in_the_end_kernels_run_what_triton_loaded_and_no_copy_is_left(driver: Driver) -> None:
    code_of, kernel = LoadedCode(), compiled("a")
    with code_of.watching():
        launch(kernel)
    for seed in range(3):
        code_of.reload(random.Random(seed))
    assert (kernel.module, kernel.function) != (1, 1)
    code_of.restore()
    assert (kernel.module, kernel.function) == (1, 1)
    assert sorted(driver.unloaded) == sorted(driver.loaded)


def test_what_was_launched_on_another_thread_is_noted_too(driver: Driver) -> None:
    kernel, loaded = compiled("backward"), LoadedCode()
    with loaded.watching():
        thread = threading.Thread(target=launch, args=(kernel,))
        thread.start()
        thread.join()
    loaded.reload(random.Random(0))
    assert kernel.function == kernel.module + 1000


def test_what_was_not_launched_while_watching_or_not_loaded_is_let_be(driver: Driver) -> None:
    before, after, never_loaded = compiled("before"), compiled("after"), compiled("never", function=None)
    loaded = LoadedCode()
    launch(before)
    with loaded.watching():
        launch(never_loaded)
        launch(None)
    launch(after)
    loaded.reload(random.Random(0))
    loaded.reload(random.Random(0))
    assert driver.log == []


def test_a_launch_that_fails_leaves_triton_as_it_was(driver: Driver) -> None:
    original = JITFunction.run
    with pytest.raises(ZeroDivisionError), LoadedCode().watching():
        raise ZeroDivisionError
    assert JITFunction.run is original
