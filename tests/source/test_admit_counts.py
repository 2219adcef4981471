"""Counts of calls, and results of earlier ones, that are kept in other places than tables."""

from __future__ import annotations

import pytest
from source.drop_in import Added, body, top

from warpsmith.source.admit import admit

REFUSED: dict[str, tuple[Added, str]] = {
    "a count in an argument": (
        body("for i in range(9):\n    if getattr(x, 'n', 0) == i:\n        x.n = i + 1\n        break"),
        "line 17: keeps x.n between calls",
    ),
    "a count in what may be an argument": (body("w = x.contiguous()\nw.n = 1"), "line 16: keeps w.n between calls"),
    "a count in an object of a method's": (
        top("class _C:\n    n = 0\n\n    def go(self):\n        self.n = 1"),
        "line 8: keeps self.n between calls",
    ),
    "a count by a method that is given the table": (
        Added("_C = {}\n\n\nclass _K:\n    def put(self, c, k):\n        c[k] = 1\n", "_K().put(_C, len(_C))"),
        "line 9: keeps c[k] between calls",
    ),
    "a count by a decorator that gives another table": (
        Added(
            "_C = {}\n\n\ndef _swap(f):\n    return lambda c, k: f(_C, len(_C))\n\n\n@_swap\ndef _put(c, k):\n"
            "    c[k] = 1\n",
            "_put([], 1)",
        ),
        "line 13: keeps c[k] between calls",
    ),
    "a count by adding a call's result": (Added("_N = []", "n = _N\nn += list((1,))"), "counts in n, which outlives"),
    "a count by adding a shape": (Added("_N = []", "n = _N\nn += x.shape"), "counts in n, which outlives the call"),
    "a count by multiplying": (Added("_N = [1]", "n = _N\nn *= 2"), "counts in n, which outlives the call"),
    "a count by adding to an element": (
        Added("_N = {1: []}", "n = _N[1]\nn += x.shape"),
        "counts in n, which outlives",
    ),
    "a count by adding to an element by name": (
        Added("_L = []\n_T = (_L,)", "n = _T[0]\nn += x.shape"),
        "counts in n, which outlives",
    ),
    "a count by adding to what a function returns": (
        Added("_L = []\n\n\ndef _g():\n    return _L\n", "n = _g()\nn += x.shape"),
        "counts in n, which outlives",
    ),
    "a count by adding to an attribute": (
        Added("class _B:\n    n = []\n\n\n_O = _B()", "n = _O.n\nn += x.shape"),
        "counts in n, which outlives",
    ),
    "a count by adding to what a method returns": (
        Added(
            "class _B:\n    n = []\n\n    def g(self):\n        return self.n\n\n\n_O = _B()",
            "n = _O.g()\nn += x.shape",
        ),
        "counts in n, which outlives",
    ),
    "a count by modes of modules": (
        Added("_M = tuple(torch.nn.Module() for _ in range(9))", "for m in _M:\n    m.train(not m.training)"),
        "line 4: _M is a torch.nn.Module, which keeps state",
    ),
    "a count by a module's own iterator": (
        top("def _make():\n    p = torch.nn.Module().parameters()\n    return lambda: next(p)"),
        "line 5: keeps hold of the iterator torch.nn.Module().parameters()",
    ),
    "a count of passes backward": (
        top(
            "class _F(torch.autograd.Function):\n    @staticmethod\n    def backward(ctx, dy):\n"
            "        ctx.n = getattr(ctx, 'n', 0) + 1\n        return dy"
        ),
        "line 7: keeps ctx.n between calls",
    ),
    "gradients of an earlier pass": (
        top(
            "class _F(torch.autograd.Function):\n    @staticmethod\n    def backward(ctx, dy):\n"
            "        ctx.save_for_backward(dy)\n        return ctx.to_save"
        ),
        "line 8: reads to_save, which tells what was done before",
    ),
    "results in a lambda": (Added("_C = {}", "_C.setdefault(0, lambda: y)"), "keeps _C.setdefault between calls"),
    "results in a function": (
        Added("_C = {}", "def g():\n    return y\n_C.setdefault(0, g)"),
        "keeps _C.setdefault between calls",
    ),
    "results of a comparison": (Added("_C = {}", "_C.setdefault(0, y != 0)"), "keeps _C.setdefault between calls"),
    "the address of results": (Added("_C = {}", "_C.setdefault(0, y.data_ptr())"), "keeps _C.setdefault between calls"),
    "results in a key": (
        top(
            "from dataclasses import dataclass\n\n\n@dataclass(frozen=True)\nclass _K:\n    n: int\n\n\nclass _L(_K):\n"
            "    def __init__(self, n, y):\n        super().__init__(n)\n        self.y = y"
        ),
        "line 15: keeps self.y between calls, which may be a tensor",
    ),
    "a workspace by its address": (
        top("import functools\n\n\n@functools.cache\ndef _f(n):\n    y = torch.empty(n)\n    return y.data_ptr()"),
        "line 8: _f is cached and reads data_ptr, which a cache remembers of one call",
    ),
    "the phase of another call by a cache": (
        top("import functools\n\n\n@functools.cache\ndef _f():\n    return torch.is_grad_enabled()"),
        "line 8: _f is cached and reads torch.is_grad_enabled, which a cache remembers of one call",
    ),
}


@pytest.mark.parametrize(("added", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_an_earlier_call_leaves_behind_is_refused(added: Added, reason: str) -> None:
    assert [said for said in added.reasons if reason in said] != [], added.reasons


@pytest.mark.parametrize("added", [added for added, _ in REFUSED.values()], ids=REFUSED.keys())
def test_whatever_an_original_leaves_behind_it_may_go_on_leaving(added: Added) -> None:
    assert admit(added.candidate, added.candidate) == ()
