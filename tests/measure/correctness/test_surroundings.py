from __future__ import annotations

import _thread
import gc
import importlib.util
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import triton.runtime.jit
from triton.runtime.interpreter import InterpretedFunction

from warpsmith.measure.correctness import errors
from warpsmith.measure.correctness.surroundings import Surroundings
from warpsmith.measure.correctness.trial import Trial
from warpsmith.measure.worker import loading


def other(*_: Any, **__: Any) -> None: ...


@pytest.fixture
def before() -> Surroundings:
    return Surroundings.taken()


def told(surroundings: Surroundings) -> list[str]:
    return [change.message for change in surroundings.changes()]


REPLACED = [
    (torch.cuda, "synchronize", "torch.cuda.synchronize"),
    (torch, "allclose", "torch.allclose"),
    (torch._C, "_get_tracing_state", "torch._C._get_tracing_state"),
    (torch.cuda.Event, "elapsed_time", "torch.cuda.streams.Event.elapsed_time"),
    (torch.Tensor, "__eq__", "torch.Tensor.__eq__"),
    (torch.Tensor, "data_ptr", "torch.Tensor.data_ptr"),
    (torch.Tensor, "__iter__", "torch.Tensor.__iter__"),
    (torch.nn.functional, "layer_norm", "torch.nn.functional.layer_norm"),
    (torch.testing, "assert_close", "torch.testing.assert_close"),
    (triton.runtime.jit.JITFunction, "run", "triton.runtime.jit.JITFunction.run"),
    (time, "perf_counter_ns", "time.perf_counter_ns"),
    (errors, "allowed", "warpsmith.measure.correctness.errors.allowed"),
    (errors, "max", "warpsmith.measure.correctness.errors.max"),
    (Trial, "restore", "warpsmith.measure.correctness.trial.Trial.restore"),
    (Trial, "of", "warpsmith.measure.correctness.trial.Trial.of"),
]


@pytest.mark.parametrize(("owner", "name", "full"), REPLACED, ids=[full for *_, full in REPLACED])
def test_a_callable_that_is_replaced_is_told_by_its_full_name(
    before: Surroundings, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, full: str
) -> None:
    monkeypatch.setattr(owner, name, other, raising=False)
    # A patched clock or comparison would stop pytest as well: what was found is looked at afterwards.
    found = before.changes()
    monkeypatch.undo()
    assert f"replaces {full}" in [change.message for change in found]
    assert {change.origin for change in found} == {__file__}
    assert before.changes() == []


def test_deleting_rewriting_and_putting_a_module_in_the_place_of_another_are_told(
    before: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(torch.testing, "assert_close")
    monkeypatch.setattr(errors.element_at, "__code__", other.__code__)
    monkeypatch.setitem(sys.modules, "torch.cuda", ModuleType("torch.cuda"))
    assert {
        "deletes torch.testing.assert_close",
        "rewrites warpsmith.measure.correctness.errors.element_at",
        "replaces sys.modules.torch.cuda",
    } <= set(told(before))


def kept(read: Callable[[], Any], write: Callable[[Any], Any], value: Any) -> Any:
    return read, write, value


SWITCHES = {
    "torch's default dtype": kept(torch.get_default_dtype, torch.set_default_dtype, torch.float64),
    "torch's grad mode": kept(torch.is_grad_enabled, torch.set_grad_enabled, False),
    "torch's float32 matmul precision": kept(
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"
    ),
    "torch's deterministic algorithms": kept(
        torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, True
    ),
    "gc": kept(gc.isenabled, lambda on: gc.enable() if on else gc.disable(), False),
    "sys.setprofile": kept(sys.getprofile, sys.setprofile, other),
    "the handlers of signals": kept(
        lambda: signal.getsignal(signal.SIGUSR2), lambda value: signal.signal(signal.SIGUSR2, value), other
    ),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_that_is_left_is_told(name: str) -> None:
    read, write, value = SWITCHES[name]
    before, was = Surroundings.taken(), read()
    write(value)
    try:
        found = before.changes()
    finally:
        write(was)
    assert any(change.name == name and change.message.startswith(f"changes {name}") for change in found)
    assert before.changes() == []


@pytest.mark.parametrize("by", ["threading", "_thread"])
def test_a_thread_that_is_left_running_is_told_by_its_function(before: Surroundings, by: str) -> None:
    started, end, ended = (threading.Event() for _ in range(3))

    def lingers() -> None:
        started.set()
        end.wait(60)
        ended.set()

    if by == "threading":
        threading.Thread(target=lingers, daemon=True).start()
    else:
        _thread.start_new_thread(lingers, ())
    assert started.wait(60)
    found = before.changes()
    end.set()
    assert ended.wait(60)
    assert [(change.message, change.origin) for change in found] == [("leaves a thread running: lingers", __file__)]


def test_new_names_and_what_torch_and_triton_do_by_themselves_are_not_told() -> None:
    before = Surroundings.taken()
    torch.cuda.something_new = other  # type: ignore[attr-defined]
    compiled = torch.compile(lambda x: torch.softmax(x * 2, -1), backend="aot_eager")
    x = torch.randn(3, 4, requires_grad=True)
    compiled(x).sum().backward()
    torch.manual_seed(torch.initial_seed())
    kernel = InterpretedFunction(_adds_one)
    kernel[(1,)](x.detach(), 4)
    del torch.cuda.something_new  # type: ignore[attr-defined]
    assert told(before) == []


def _adds_one(x: Any, n: Any) -> None:
    import triton.language as tl

    tl.store(x, tl.load(x) + 1)


def test_what_changes_while_it_is_excused_counts_neither_now_nor_later(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Surroundings.taken()
    monkeypatch.setattr(torch, "allclose", other)
    with before.excusing():
        monkeypatch.setattr(torch, "equal", other)
    monkeypatch.setattr(torch, "equal", print)
    assert told(before) == ["replaces torch.allclose"]


def test_callables_of_a_users_file_are_watched_but_for_what_it_does_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "users.py"
    path.write_text("def work(): return 1\ndef swap():\n    global work\n    def work(): return 2\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location("users", path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(loading._modules, ("users", str(path)), module)
    before = Surroundings.taken([str(path)])
    module.swap()
    assert told(before) == []
    monkeypatch.setattr(module, "work", other)
    assert told(before) == ["replaces users.work"]


def test_it_takes_no_longer_than_it_may() -> None:
    """Processor time, the best of several: under 20 ms to take and compare on an idle machine, here with slack."""
    spent: list[float] = []
    for _ in range(5):
        begun = time.thread_time()
        Surroundings.taken().changes()
        spent.append(time.thread_time() - begun)
    assert min(spent) < 0.1


def test_random_numbers_do_not_count_here() -> None:
    before = Surroundings.taken()
    random.random()
    torch.rand(1)
    assert told(before) == []
