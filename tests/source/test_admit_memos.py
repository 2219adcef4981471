"""Tables that functions fill: a memo of settings is admitted in any form, and what tells of earlier calls is not."""

from __future__ import annotations

import pytest
from source.drop_in import Added

from warpsmith.source.admit import admit

PICK = "def _pick(n):\n    return triton.next_power_of_2(n), 4 if n < 1024 else 8\n\n\n"
TABLE = f"{PICK}_C = {{}}"


def settings(lines: str, call: str = "block, warps = _settings(x.shape[-1])") -> Added:
    """A table and a function `_settings(n)` that is called with the width."""
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    return Added(f"{TABLE}\n\n\ndef _settings(n):\n{body}", call)


ADMITTED: dict[str, Added] = {
    "asked by in": Added(TABLE, "n = x.shape[-1]\nif n not in _C:\n    _C[n] = _pick(n)\nblock, warps = _C[n]"),
    "asked by a key of several parts": Added(
        TABLE.replace("_C =", "_C: dict[tuple, tuple] ="),
        "rows, n = x.shape\nkey = (n, x.dtype, x.device)\nif key not in _C:\n    _C[key] = _pick(n)\n"
        "block, warps = _C[key]",
    ),
    "facts that follow from a shape": Added(
        "_C = {}", "if x.shape not in _C:\n    _C[x.shape] = 4 if x.numel() < 1024 else x.size(-1)\nwarps = _C[x.shape]"
    ),
    "facts that follow from the GPU": Added(
        "_C = {}",
        "gpu = torch.cuda.get_device_capability(x.device)\nkey = (x.shape[-1], gpu)\nif key not in _C:\n"
        "    block = triton.next_power_of_2(x.shape[-1])\n    if gpu[0] >= 9:\n        block = block * 2\n"
        "    _C[key] = block\nblock = _C[key]",
    ),
    "asked by get": settings("s = _C.get(n)\nif s is None:\n    s = _pick(n)\n    _C[n] = s\nreturn s"),
    "asked by get, in two places at once": settings("s = _C.get(n)\nif s is None:\n    s = _C[n] = _pick(n)\nreturn s"),
    "asked by get in the if": settings("if (s := _C.get(n)) is None:\n    s = _C[n] = _pick(n)\nreturn s"),
    "returned where it is there": settings(
        "if n in _C:\n    return _C[n]\nblock = 1\nwhile block < n:\n    block *= 2\n_C[n] = (block, 4)\n"
        "return (block, 4)"
    ),
    "returned where get finds it": settings(
        "s = _C.get(n)\nif s is not None:\n    return s\ns = _pick(n)\n_C[n] = s\nreturn s"
    ),
    "read where it is there": Added(
        TABLE,
        "n = x.shape[-1]\nif n in _C:\n    block, warps = _C[n]\nelse:\n    block, warps = _pick(n)\n"
        "    _C[n] = (block, warps)\n_scale_kernel[(1,)](x, y, n, BLOCK=block, num_warps=warps)",
    ),
    "read again in any case": Added(
        TABLE,
        "n = x.shape[-1]\nblock = 1\nif n not in _C:\n    block, warps = _pick(n)\n    _C[n] = block, warps\n"
        "block, warps = _C[n]\n_scale_kernel[(1,)](x, y, n, BLOCK=block, num_warps=warps)",
    ),
    "filled before": Added(
        TABLE.replace("{}", "{4096: (4096, 8)}"),
        "n = x.numel()\nif n not in _C:\n    _C[n] = _pick(n)\nblock, _ = _C[n]",
    ),
    "filled by setdefault": Added(TABLE, "block, warps = _C.setdefault(x.numel(), _pick(x.numel()))"),
}

ASKED = "if x.shape not in _C:\n    _C[x.shape] = 1\n"
#: What tells of earlier calls, and what of it is told.
REFUSED: dict[str, tuple[Added, str]] = {
    "its length": (Added("_C = {}", "i = len(_C)\n_C[x.shape, i] = 1"), "len(_C)"),
    "its length as a key": (Added("_C = {}", "_C[len(_C)] = 1"), "len(_C)"),
    "whether it is empty": (Added("_C = {}", ASKED + "if not _C:\n    y = x"), "not _C"),
    "a walk over it": (Added("_C = {}", ASKED + "for k in _C:\n    y = x"), "_C"),
    "its keys": (Added("_C = {}", ASKED + "y = x if len(_C.keys()) > 9 else y"), "_C.keys()"),
    "a view of it": (Added("_C = {}\n_V = _C.items()", ASKED + "len(_V)"), "_C.items()"),
    "an alias": (Added("_C = {}", ASKED + "c = _C\nlen(c)"), "_C"),
    "an alias of the module": (Added("_C = {}\n_A = _C", "_A[x.shape] = 1\nlen(_C)"), "_A[x.shape]"),
    "an alias as a default": (Added("_C = {}\n\n\ndef _f(c=_C):\n    return len(c)\n", ASKED + "_f()"), "_C"),
    "a walk over keys that are there": (
        Added("_C = {}", "i = 0\nwhile i in _C:\n    i += 1\n_C[i] = True"),
        "i in _C",
    ),
    "the first key that is missing": (
        Added("_C = {}", "for i in range(9):\n    if i not in _C:\n        _C[i] = True\n        break"),
        "i not in _C",
    ),
    "a key that is there": (
        Added("_C = {}", "if x.shape in _C:\n    return torch.zeros_like(x)\n_C[x.shape] = 1"),
        "x.shape in _C",
    ),
    "a mark left where the key was missing": (
        Added("_C = {}", "new = 0\nif x.shape not in _C:\n    new = 1\n    _C[x.shape] = 1\nif new:\n    y = x"),
        "x.shape not in _C",
    ),
    "a launch where the key was missing": (
        Added("_C = {}", "if 0 not in _C:\n    _ = _scale_kernel[(1,)](x, y, 8, BLOCK=8)\n    _C[0] = 1"),
        "0 not in _C",
    ),
    "another result where the key was missing": (
        settings("if n in _C:\n    return 0\n_C[n] = 1\nreturn 1", "_settings(x.shape)"),
        "n in _C",
    ),
    "an answer that is asked for again": (
        Added("_C = {}", "c = _C.get(0)\nif c is None:\n    _C[0] = 1\nif c == 1:\n    y = x"),
        "_C.get(0)",
    ),
    "an answer in place of one that is missing": (
        Added("_C = {}", "if _C.get(0, 0) == 0:\n    _C[0] = 1"),
        "_C.get(0, 0)",
    ),
    "a value of another call": (
        Added("_C = {}", "rows, n = x.shape\nif n not in _C:\n    _C[n] = rows\nif _C[n] != rows:\n    y = x"),
        "n not in _C",
    ),
    "a value of another call, brought along": (
        Added("_C = {}", "v, n = x.shape\nif n not in _C:\n    if n < 0:\n        v = 0\n    _C[n] = v\nv = _C[n]"),
        "n not in _C",
    ),
    "a value of another call by setdefault": (
        Added("_C = {}", "if _C.setdefault(0, x.shape) != x.shape:\n    y = x"),
        "_C.setdefault(0, x.shape)",
    ),
    "the phase of another call": (
        Added("_C = {}", "if 0 not in _C:\n    _C[0] = 1 if torch.is_grad_enabled() else 0\nif _C[0]:\n    y = x"),
        "0 not in _C",
    ),
    "the phase of another call, by a function": (
        Added(
            "_C = {}\n\n\ndef _g(i):\n    return 1 if torch.is_grad_enabled() else 0\n",
            "if 0 not in _C:\n    _C[0] = tuple(map(_g, (1,)))",
        ),
        "0 not in _C",
    ),
    "who was first": (
        Added(
            "_C = {}",
            "n = x.numel()\nif x.ndim > 1:\n    if n not in _C:\n        _C[n] = 1\nelse:\n    if n not in _C:\n"
            "        _C[n] = 2",
        ),
        "_C[n]",
    ),
    "an entry that changes": (
        Added("_C = {}", "for i in range(9):\n    if _C[0] == i:\n        _C[0] = i + 1\n        break"),
        "_C[0]",
    ),
    "a list": (Added("_C = [9]", "if 0 not in _C:\n    _C[0] = 1\nif _C[0] == 9:\n    y = x"), "0 not in _C"),
    "an update": (Added("_C = {}", "_C.update({x.shape: 1})"), "_C.update({x.shape: 1})"),
}


@pytest.mark.parametrize("added", ADMITTED.values(), ids=ADMITTED.keys())
def test_a_memo_of_settings_is_admitted(added: Added) -> None:
    assert added.reasons == ()


@pytest.mark.parametrize(("added", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_a_table_that_tells_of_earlier_calls_is_refused(added: Added, told: str) -> None:
    assert [said for said in added.reasons if f"does more with {told} than a memo needs" in said] != [], added.reasons


@pytest.mark.parametrize("added", [added for added, _ in REFUSED.values()], ids=REFUSED.keys())
def test_whatever_an_original_does_with_its_tables_it_may_go_on_doing(added: Added) -> None:
    assert admit(added.candidate, added.candidate) == ()


def test_the_reason_says_how_a_memo_is_written() -> None:
    (reason,) = Added("_C = {}", ASKED + "len(_C)").reasons
    assert reason == (
        "line 18: does more with len(_C) than a memo needs: from what is in it a variant could tell how often it was "
        "called; fill it in one place, by `if key not in _C: _C[key] = value` with a value made of the key, and read "
        "_C[key], or use functools.cache"
    )


def test_a_table_that_no_function_fills_may_be_read_in_any_way() -> None:
    assert Added("_T = {1: 2}", "n = len(_T) + sum(_T.values()) if 1 in _T else _T.get(2, 0)").reasons == ()


def test_a_key_made_to_take_for_ever_is_followed_in_time() -> None:
    doubling = "\n".join(f"    a{n + 1} = a{n} + a{n}" for n in range(64))
    lines = f"    a0 = n\n{doubling}\n    if a64 not in _C:\n        _C[a64] = 1\n    return _C[a64]"
    assert Added(f"_C = {{}}\n\n\ndef _f(n):\n{lines}", "_f(x.ndim)").reasons == ()
