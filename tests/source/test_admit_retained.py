"""What a candidate keeps from one call to the next: settings may be kept, results, workspaces and counts may not."""

from __future__ import annotations

import pytest
from source.drop_in import Added, body, top

from warpsmith.source.admit import admit

PICK = "def _pick(n):\n    return triton.next_power_of_2(n), 4 if n < 1024 else 8\n"
INSTEAD = "make it in the call; keep only settings, in a table or by functools.cache of a function of numbers"

REFUSED: dict[str, tuple[Added, str]] = {
    "results by shape": (
        Added("_C = {}", "if x.shape in _C:\n    return _C[x.shape]\n_C[x.shape] = y"),
        f"line 18: keeps _C[x.shape] between calls, which may be a tensor; {INSTEAD}",
    ),
    "results by pointer": (Added("_C = {}", "_C[x.data_ptr()] = y"), "keeps _C[x.data_ptr()] between calls"),
    "results by setdefault": (Added("_C = {}", "_C.setdefault(x.shape, y)"), "keeps _C.setdefault between calls"),
    "results by update": (Added("_C = {}", "_C.update({x.shape: y})"), "keeps _C.update between calls"),
    "results in a list": (Added("_C = [None]", "_C[0] = y"), "keeps _C[0] between calls, which may be a tensor"),
    "results in a tuple": (Added("_C = {}", "_C[0] = (1, (y, 2))"), "keeps _C[0] between calls, which may be a tensor"),
    "results by an alias": (Added("_C = {}", "c = _C\nc[0] = y"), "keeps c[0] between calls, which may be a tensor"),
    "results by a loop": (Added("_C = {}", "for c in [_C]:\n    c[0] = y"), "keeps c[0] between calls"),
    "results by a target of a loop": (Added("_C = {}", "for _C[0] in [y]:\n    pass"), "keeps _C[0] between calls"),
    "results by unpacking": (Added("_C = {}", "_C[0], _ = y, 1"), "keeps _C[0] between calls, which may be a tensor"),
    "results by a helper": (
        Added("_C = {}\n\n\ndef _put(c, v):\n    c[0] = v\n", "_put(_C, y)"),
        "line 8: keeps c[0] between calls, which may be a tensor",
    ),
    "results by a function that returns them": (
        Added("_C = {}\n\n\ndef _get(x):\n    return torch.empty_like(x)\n", "_C[0] = _get(x)"),
        "keeps _C[0] between calls, which may be a tensor",
    ),
    "calls, by a helper that is given the list": (
        Added("_C = []\n\n\ndef _more(c, new):\n    c += new\n", "_more(_C, [1])"),
        "line 8: counts in c, which outlives the call",
    ),
    "calls, by a helper that is given the key": (
        Added("_C = {}\n\n\ndef _put(c, k):\n    c[k] = 1\n", "_put(_C, len(_C))"),
        "line 8: keeps c[k] between calls",
    ),
    "calls, by a helper that sets an attribute": (
        Added("class _C:\n    n = 0\n\n\ndef _put(c, n):\n    c.n = int(n)\n", "_put(_C, _C.n + 1)"),
        "line 9: keeps c.n between calls",
    ),
    "calls, by a method of a class": (Added("_C = []", "list.append(_C, 1)"), "hands the method append on"),
    "calls, by a method that is read by name": (
        Added("_C = []", "getattr(_C, 'append')(1)"),
        "hands the method append on",
    ),
    "calls, by a method that a pattern reads": (
        Added("_C = []", "match _C:\n    case list(append=put):\n        put(1)"),
        "hands the method append on",
    ),
    "calls, by a method that map is given": (
        Added("_C = []", "any(map(_C.append, (1,)))"),
        "hands the method append on",
    ),
    "calls, by a lambda": (
        top("def _make():\n    c = []\n    return lambda: c.append(1) or len(c)\n\n\n_C = _make()"),
        "line 6: counts in c, which outlives the call",
    ),
    "calls, by an iterator in a closure": (
        top("def _make():\n    c = iter(range(9))\n\n    def f():\n        return next(c)\n\n    return f"),
        "line 5: keeps hold of the iterator iter(range(9)), which counts calls",
    ),
    "calls, by making an object anew": (
        Added(
            "class _Box:\n    def __init__(self, n=0):\n        self.n = n\n\n\n_C = _Box()", "_C.__init__(_C.n + 1)"
        ),
        "calls __init__ by itself, which may keep state in any object",
    ),
    "calls, by a method of one's own called copy": (
        Added(
            "class _Box:\n    n = 0\n\n    def copy(self):\n        return self\n\n\n_C = _Box()",
            "c = _C.copy()\nc.n = 1",
        ),
        "keeps c.n between calls",
    ),
    "results in a closure": (
        top("def _make():\n    c = {}\n\n    def f(x):\n        c[0] = x\n        return c[0]\n\n    return f"),
        "line 8: keeps c[0] between calls, which may be a tensor",
    ),
    "results in a function's attribute": (body("scale.last = y"), "line 15: keeps scale.last between calls"),
    "results in the input": (body("x.last = y"), "line 15: keeps x.last between calls, which may be a tensor"),
    "results by global": (Added("_last = None", "global _last\n_last = y"), "keeps _last between calls by global"),
    "results by nonlocal": (
        top("def _make():\n    last = None\n\n    def f(x):\n        nonlocal last\n        last = x\n"),
        "line 8: keeps last between calls by nonlocal",
    ),
    "results in a default": (top("def _f(x, c={}):\n    c[0] = x"), "line 4: has the default {}, which lives"),
    "results in an object": (
        top("class _C:\n    def put(self, x):\n        self.x = x"),
        "line 6: keeps self.x between calls, which may be a tensor",
    ),
    "results in a generator": (
        top("def _g():\n    last = None\n    while True:\n        last = yield last"),
        "line 7: suspends a function by yield",
    ),
    "results by a cached function": (
        top("import functools\n\n\n@functools.cache\ndef _f(x):\n    y = torch.empty_like(x)\n    return y, 1"),
        "line 8: _f is cached and may return a tensor; cache only settings",
    ),
    "results by a cached call": (
        top("import functools\n\n\n_f = functools.lru_cache(None)(lambda x: x)"),
        "line 7: uses functools.cache otherwise than as a decorator of a function",
    ),
    "results by a cache that is partial": (
        Added("from functools import partial, lru_cache\n_c = partial(lru_cache, None)"),
        "line 5: uses functools.cache otherwise than as a decorator",
    ),
    "a key that is equal to all others": (
        top("from dataclasses import dataclass\n\n\n@dataclass(eq=False)\nclass _K:\n    n: int"),
        "line 7: says by eq= when two objects are equal",
    ),
    "a tensor of the module": (
        top('_W = torch.empty(8, device="cuda")'),
        "line 4: _W may hold a tensor from import on",
    ),
    "a tensor in a table": (top("_W = {1: (0, torch.zeros(8))}"), "line 4: _W may hold a tensor from import on"),
    "a tensor of the module by a function": (
        top("def _make():\n    w = torch.empty(8)\n    return w\n\n\n_W = _make()"),
        "line 9: _W may hold a tensor from import on",
    ),
    "a tensor of a class": (top("class _C:\n    w = torch.empty(8)"), "line 5: w may hold a tensor from import on"),
    "a tensor of an object of the module": (
        top("class _C:\n    def __init__(self):\n        self.w = torch.empty(8)\n\n\n_O = _C()"),
        "line 9: _O may hold a tensor from import on",
    ),
    "a tensor put at import": (
        top("_W = {}\n_W[0] = torch.empty(8)"),
        "line 5: _W[0] may hold a tensor from import on",
    ),
    "a count": (Added("_N = [0]", "_N[0] += 1"), "counts in _N, which outlives the call; a variant does the same"),
    "a count by assignment": (Added("_N = [0]", "_N[0] = _N[0] + 1"), "does more with _N[0] than a memo needs"),
    "a count by a name between": (
        Added("_N = {}", "n = _N.get(0, 0)\n_N[0] = n + 1"),
        "does more with _N[0] than a memo needs",
    ),
    "a count by append": (Added("_N = []", "_N.append(1)"), "counts in _N, which outlives the call"),
    "a count by an iterator": (Added("_N = iter(range(9))", "next(_N)"), "_N holds an iterator, which counts calls"),
    "a count by itertools": (
        top("import itertools\n_N = itertools.count()"),
        "_N holds an iterator, which counts calls",
    ),
    "a count by a generator": (top("_N = (i for i in range(9))"), "_N holds an iterator, which counts calls"),
    "a count by an iterator in a list": (top("_N = [iter(range(9))]"), "_N holds an iterator, which counts calls"),
    "a count by a cached iterator": (
        top("import functools\n\n\n@functools.cache\ndef _f():\n    n = iter(range(9))\n    return n"),
        "line 8: _f is cached and makes an iterator, which counts calls",
    ),
    "a count by taking away": (Added("_N = [1, 2]", "_N.pop()"), "counts in _N, which outlives the call"),
    "a count by deleting": (Added("_N = [1, 2]", "del _N[0]"), "counts in _N, which outlives the call"),
    "a count by adding to an alias": (Added("_N = []", "n = _N\nn += [1]"), "counts in n, which outlives the call"),
    "workspaces on demand": (
        top("from collections import defaultdict\n_W = defaultdict(lambda: torch.empty(8))"),
        "line 5: _W makes what is missing from it",
    ),
    "a count by a cache": (
        Added("import functools\n\n\n@functools.cache\ndef _f():\n    return 1\n", "_f.cache_info().hits"),
        "uses cache_info",
    ),
    "a mark on an object of the module": (
        Added("class _C:\n    pass\n\n\n_O = _C()", "_O.warm = True"),
        "keeps _O.warm between calls",
    ),
}

ADMITTED: dict[str, Added] = {
    "settings by shape": Added(
        f"{PICK}\n\n_C = {{}}", "n = x.shape[-1]\nif n not in _C:\n    _C[n] = _pick(n)\nblock, warps = _C[n]"
    ),
    "settings by a cached function": top(f"import functools\n\n\n@functools.lru_cache(maxsize=None)\n{PICK}"),
    "a cached look-up of the GPU": top(
        "import functools\n\n\n@functools.cache\ndef _sms(index):\n"
        "    properties = torch.cuda.get_device_properties(index)\n    return properties.multi_processor_count"
    ),
    "a cached choice in steps": top(
        "import functools\nfrom typing import NamedTuple\n\n\nclass _S(NamedTuple):\n    block: int\n"
        "    warps: int = 4\n\n\n"
        "@functools.cache\ndef _s(n, dtype):\n    block = 1\n    while block < n:\n        block = block * 2\n"
        "    warps = 4\n    if block > 1024 and dtype == torch.float32:\n        warps += 4\n"
        "    return _S(block, warps=warps)"
    ),
    "a table by GPU": Added(
        "_T = {(9, 0, 132): {2: [(1, 4096, {'num_warps': 4})]}}\n\n\ndef _find(table, n):\n"
        "    for low, high, settings in table.get((9, 0, 132), {}).get(2, []):\n        if low <= n <= high:\n"
        "            return settings\n    return {}\n",
        "options = dict(_find(_T, x.numel()))\noptions['num_stages'] = 2\noptions.update(num_warps=8)",
    ),
    "a table made at import": top(f"{PICK}\n\n_T = {{n: _pick(n) for n in (128, 256)}}\n_T[512] = (512, 8)"),
    "a loop over pairs": Added(
        "_T = dict(zip((1, 2), (3, 4)))\n_L = tuple(n * 2 for n in (1, 2))",
        "parts = [1]\nparts += [2]\nn = 1\nn += 2\nfor a, b in zip(parts, parts):\n    n += a * b\nparts.sort()",
    ),
    "lists of one call": body("parts = []\nfor i in range(2):\n    parts.append(torch.empty_like(x))\nparts[0] = x"),
    "items of a tensor of one call": body("y[0] = 0\nz = torch.zeros_like(x) if x is None else None\nz[1:2] = y[1:2]"),
    "keywords": top("def _f(x, **options):\n    options['x'] = x\n    return options"),
    "a context": top(
        "class _F(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        ctx.x = x\n"
        "        ctx.save_for_backward(x)\n        return x"
    ),
    "an object while it is made": top("class _C:\n    def __init__(self, x):\n        self.x = x"),
    "a context that a helper is given": top(
        "def _keep(ctx, x):\n    ctx.x, ctx.n = x, 1\n\n\nclass _F(torch.autograd.Function):\n    @staticmethod\n"
        "    def forward(ctx, x):\n        _keep(ctx, x)\n        return x"
    ),
    "numbers and tensors that are added to": Added(
        "_W = {17: 1}",
        "w = _W.get(x.shape[1], 4)\nw *= 2\nb = _W[17]\nb *= x.numel()\nn, *_ = x.shape\nn += w\n"
        "z = x.float()\nz += y\nz *= w\nparts = [1]\nparts += list(x.shape)\nfor part in parts:\n    part *= 2",
    ),
    "an object that inherits from one of its own": top(
        "class _A:\n    pass\n\n\nclass _B(_A):\n    def __init__(self, n):\n        self.n = n"
    ),
    "a module": top(
        "class _M(torch.nn.Module):\n    def __init__(self, n):\n        super().__init__()\n        self.n = n\n\n"
        "    def forward(self, x):\n        return x if self.training else [p for p in self.parameters()]"
    ),
    "immutable defaults": top("def _f(x, n=(1, 2), dtype=torch.float32, eps=float('inf')):\n    return x"),
}


@pytest.mark.parametrize(("added", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_kept_between_calls_is_refused(added: Added, reason: str) -> None:
    assert [said for said in added.reasons if reason in said] != [], added.reasons


@pytest.mark.parametrize("added", ADMITTED.values(), ids=ADMITTED.keys())
def test_settings_and_what_one_call_makes_are_admitted(added: Added) -> None:
    assert added.reasons == ()


@pytest.mark.parametrize("added", [added for added, _ in REFUSED.values()], ids=REFUSED.keys())
def test_whatever_an_original_keeps_it_may_go_on_keeping(added: Added) -> None:
    assert admit(added.candidate, added.candidate) == ()


def test_a_source_made_to_take_for_ever_is_refused_in_time() -> None:
    doubling = "\n".join(f"    a{n + 1} = a{n} + a{n}" for n in range(64))
    added = top(f"def _f(x):\n    a0 = 1\n{doubling}\n    _C[0] = a64\n\n\n_C = {{}}")
    assert [said for said in added.reasons if "keeps _C[0] between calls" in said] != []
