"""What a candidate reaches by whatever name: other modules, Python itself, and libraries that do the kernel's work."""

from __future__ import annotations

import pytest
from source.drop_in import ORIGINAL, Added, body, top

from warpsmith.source.admit import admit

#: What reaches further than it may, and what is said of it. None of these runs in any test.
REFUSED: dict[str, tuple[Added, str]] = {
    "a module that torch imported": (body("torch.os.getcwd()"), "line 15: uses torch.os.getcwd"),
    "a module that a part of torch imported": (body("torch.cuda.os.environ"), "line 15: uses torch.cuda.os.environ"),
    "a module that triton imported": (body("triton.os.getcwd()"), "line 15: uses triton.os.getcwd"),
    "a module that the language imported": (body("tl.core.os"), "line 15: uses triton.language.core.os"),
    "a part of torch that does the work": (body("torch.special.expit(x)"), "line 15: uses torch.special.expit"),
    "a star": (top("from torch import *"), "line 4: imports * from torch; name what is used of it"),
    "a module imported out of torch": (top("from torch import os"), "line 4: imports torch.os"),
    "a functional under another name": (
        top("from torch.nn import functional as _f"),
        "line 4: imports torch.nn.functional",
    ),
    "a part of torch under another name": (
        Added("from torch import nn as _", "_.functional.relu(x)"),
        "uses torch.nn.functional.relu",
    ),
    "an alias": (body("t = torch\nt.os.getcwd()"), "line 16: uses torch.os.getcwd"),
    "an alias of an alias": (Added("_a = torch", "b = _a\nb.os.getcwd()"), "line 17: uses torch.os.getcwd"),
    "an alias of a function": (
        body("f = torch.nn.functional.linear\nf(x, x)"),
        "line 15: uses torch.nn.functional.linear",
    ),
    "an alias after its use": (body("for _ in range(2):\n    t.os\n    t = torch"), "line 16: uses torch.os"),
    "an alias in one branch": (body("t = torch if x is None else tl\nt.os"), "line 16: uses torch.os"),
    "an alias by or": (body("(None or torch).os.getcwd()"), "line 15: uses torch.os.getcwd"),
    "an alias by a walrus": (body("(t := torch).os.getcwd()"), "line 15: uses torch.os.getcwd"),
    "an alias by a walrus in a comprehension": (body("[t for _ in x if (t := torch.os)]"), "line 15: uses torch.os"),
    "an alias by unpacking": (body("a, b = 1, torch\nb.os.getcwd()"), "line 16: uses torch.os.getcwd"),
    "an alias by global": (Added("def _g():\n    global _t\n    _t = torch", "_t.os"), "uses torch.os"),
    "an alias by import in a function": (body("import torch as t\nt.os.getcwd()"), "line 16: uses torch.os.getcwd"),
    "an alias that climbs": (body("t = torch\nt = t.nn\nt = t.functional"), "uses torch.nn.functional"),
    "a loop over what a module has": (body("[0 for torch in torch.os.sep]"), "line 15: uses torch.os.sep"),
    "a default": (top("def _f(t=torch.os):\n    pass"), "line 4: uses torch.os"),
    "a decorator": (top("@torch.compile\ndef _f(x):\n    return x"), "line 4: uses torch.compile"),
    "a lambda": (body("(lambda: torch.os)()"), "line 15: uses torch.os"),
    "a module as a default": (top("def _f(t=torch):\n    t.os"), "line 4: hands the module torch on as a value"),
    "a module as an argument": (body("print_(torch)"), "line 15: hands the module torch on as a value"),
    "a module in a list": (body("[torch][0].os"), "line 15: hands the module torch on as a value"),
    "a module in a loop": (body("for t in (torch,):\n    t.os"), "line 15: hands the module torch on as a value"),
    "a module that is returned": (top("def _f():\n    return torch"), "line 5: hands the module torch on as a value"),
    "a module out of a lambda": (body("(lambda: torch)().os"), "line 15: hands the module torch on as a value"),
    "a module in an attribute": (body("x.t = torch\nx.t.os"), "line 15: hands the module torch on as a value"),
    "a module in a class": (top("class _C:\n    t = torch"), "line 5: hands the module torch on as a value"),
    "a module imported in a class": (top("class _C:\n    import torch as t"), "line 5: imports in the body of a class"),
    "a module matched": (
        body("match torch:\n    case t:\n        t.os"),
        "line 15: hands the module torch on as a value",
    ),
    "a module in a with": (body("with torch as t:\n    t.os"), "line 15: hands the module torch on as a value"),
    "getattr of a module": (body("getattr(torch, 'os')"), "line 15: uses torch.os"),
    "getattr by a made name": (body("getattr(x, 'o' + 's')"), "line 15: uses getattr with a name that is not written"),
    "getattr handed on": (body("g = getattr\ng(x, 'os')"), "line 15: uses getattr with a name that is not written"),
    "getattr of a dunder": (body("getattr(scale, '__globals__')"), "line 15: uses __globals__"),
    "vars": (body("vars(x)"), "line 15: uses vars"),
    "builtins": (body("__builtins__"), "line 15: uses __builtins__"),
    "a built-in before it is hidden": (top("_x = eval('1')\neval = None"), "line 4: uses eval"),
    "every class": (body("().__class__.__base__.__subclasses__()"), "line 15: uses __subclasses__"),
    "globals by a pattern": (body("match scale:\n    case object(__globals__=g):\n        pass"), "uses __globals__"),
    "globals by a format": (
        body("'{0.__globals__}'.format(scale)"),
        "line 15: reads attributes through a format string",
    ),
    "a format that is made": (body("(x + x).format(scale)"), "line 15: calls .format of what is no literal"),
    "a frame": (body("try:\n    x.a\nexcept Exception as e:\n    e.__traceback__.tb_frame"), "line 18: uses tb_frame"),
    "a class by type": (body("type('T', (), {})"), "line 15: makes a class by type()"),
    "a class by map": (body("list(map(type, 'T', [()], [{}]))"), "line 15: hands type on as a value"),
    "a metaclass": (top("class _C(metaclass=type):\n    pass"), "line 4: gives the class _C keywords"),
    "a hook": (top("class _C:\n    def __del__(self):\n        pass"), "line 5: defines __del__"),
    "what equals what": (top("class _C:\n    def __eq__(self, other):\n        return True"), "line 5: defines __eq__"),
    "a tensor of its own": (top("class _Lazy(torch.Tensor):\n    pass"), "line 4: makes _Lazy a kind of tensor"),
    "a kernel run by Python": (body("_scale_kernel.fn(x)"), "line 15: uses fn"),
    "printing": (body("print(x)"), "line 15: uses print"),
    "an identity": (body("id(x)"), "line 15: uses id"),
    "an identity by its hash": (body("hash(x)"), "line 15: uses hash"),
    "whether a kernel was launched": (
        body("_scale_kernel.hash"),
        "line 15: reads hash, which tells what was done before",
    ),
    "whether a context was entered": (body("torch.no_grad().prev"), "line 15: reads prev, which tells what was done"),
    "values that an enumeration remembers": (top("from enum import IntFlag"), "line 4: imports enum.IntFlag"),
    "entries that come about by reading": (
        body("import collections\ncollections.defaultdict(int)"),
        "line 16: uses collections.defaultdict, which the original does not; what is read of it stays in it",
    ),
    "names of dimensions": (body("x.rename_('a')"), "line 15: uses rename_"),
    "a phase": (body("'pytest' in __import__('sys').modules"), "line 15: uses __import__"),
    "evaluation by annotations": (
        body("import typing\ntyping.get_type_hints(x)"),
        "line 16: uses typing.get_type_hints",
    ),
    "a module of the standard library's": (body("import contextlib\ncontextlib.os"), "line 16: uses contextlib.os"),
    "exceptions put away": (
        body("import contextlib\ncontextlib.suppress(Exception)"),
        "line 16: uses contextlib.suppress",
    ),
    "another stream": (body("torch.cuda.Stream()"), "line 15: uses torch.cuda.Stream"),
    "a captured graph": (
        body("torch.cuda.is_current_stream_capturing()"),
        "line 15: uses torch.cuda.is_current_stream_capturing, which the original does not; a variant does the same",
    ),
    "an extension": (top("import torch.utils.cpp_extension"), "line 4: imports torch.utils.cpp_extension"),
    "an operator of its own": (top("torch.library.Library('a', 'DEF')"), "line 4: uses torch.library.Library"),
    "autotuning": (
        top("_t = triton.autotune(configs=[], key=[])"),
        "line 4: uses triton.autotune, which the original does",
    ),
    "assembly": (
        top("@triton.jit\ndef _k(x):\n    tl.inline_asm_elementwise('', '', [x], tl.int32, True, 1)"),
        "line 6: uses triton.language.inline_asm_elementwise",
    ),
    "printing from the GPU": (
        top("@triton.jit\ndef _k(x):\n    tl.device_print('x', x)"),
        "line 6: uses triton.language.device_print",
    ),
    "a product by a class": (body("torch.Tensor.matmul(x, x)"), "line 15: calls .matmul()"),
    "a product by a bound method": (body("f = x.mm\nf(x)"), "line 15: calls .mm()"),
    "a product in a kernel that is none": (
        top("def _f(x):\n    return x\n\n\n@triton.jit\n@_f\ndef _k(x):\n    return x @ x"),
        "line 11: multiplies matrices by @ outside a kernel",
    ),
    "a normalization by a method": (body("x.softmax(-1)"), "line 15: calls .softmax(), a library's work"),
    "a method of what may be a module": (body("(x if x.ndim else torch).rsqrt()"), "line 15: calls .rsqrt()"),
    "a function of numbers by a method": (body("x.exp_()"), "line 15: calls .exp_(), a library's work"),
    "a patched module by an alias": (body("t = torch\nt.equal = None"), "line 16: changes torch.equal, which belongs"),
    "a patched module in a loop": (
        body("for torch.equal in x:\n    pass"),
        "line 15: changes torch.equal, which belongs",
    ),
    "a patched class": (body("del torch.Tensor.sum"), "line 15: changes torch.Tensor.sum, which belongs"),
    "a patched dictionary": (body("torch.__dict__['equal'] = None"), "line 15: uses __dict__"),
    "setattr": (body("setattr(torch, 'equal', None)"), "line 15: uses setattr"),
    "a fall-back by the library": (
        body("try:\n    list(map(scale, [x]))\nexcept Exception:\n    pass"),
        "line 15: wraps a launch in try and except in scale",
    ),
    "a fall-back by finally": (
        body("try:\n    scale(x)\nfinally:\n    return x"),
        "line 15: wraps a launch in try and except in scale",
    ),
    "a fall-back by an item": (
        body("try:\n    x[0]\nexcept KeyError:\n    pass"),
        "line 15: wraps a launch in try and except in scale",
    ),
    "a fall-back by a property": (
        Added(
            "class _K:\n    @property\n    def shape(self):\n        return 0\n",
            "try:\n    _K().shape\nexcept KeyError:\n    pass",
        ),
        "wraps a launch in try and except in scale",
    ),
    "a fall-back at import": (
        top("try:\n    _f = scale\nexcept Exception:\n    _f = None"),
        "line 4: wraps a launch in try and except in <module>",
    ),
    "an allocator that does more": (
        top(
            "def _a(size, alignment, stream):\n    scale(size)\n    return torch.empty(size)\n\n\n"
            "triton.set_allocator(_a)"
        ),
        "line 9: sets an allocator that does more than return torch.empty(...)",
    ),
}


@pytest.mark.parametrize(("added", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_reaches_further_than_it_may_is_refused(added: Added, reason: str) -> None:
    assert [said for said in added.reasons if reason in said] != [], added.reasons


def test_every_sentence_says_what_is_allowed_instead() -> None:
    assert body("torch.softmax(x, -1)").reasons == (
        "line 15: uses torch.softmax, which the original does not; of torch a variant may use dtypes, constructors, "
        "views, copies, autograd.Function, custom_fwd and custom_bwd, the device's properties and sums of partial "
        "results; the work belongs in a Triton kernel",
    )
    assert body("import contextlib\ncontextlib.suppress").reasons == (
        "line 16: uses contextlib.suppress, which the original does not; of contextlib a variant may use nullcontext",
    )
    assert top("import numpy").reasons == (
        "line 4: imports numpy; allowed are __future__, collections, contextlib, dataclasses, enum, functools, "
        "itertools, math, torch, triton, types, typing and what the original imports",
    )


@pytest.mark.parametrize("added", [added for added, _ in REFUSED.values()], ids=REFUSED.keys())
def test_whatever_an_original_does_is_admitted_against_itself(added: Added) -> None:
    assert admit(added.candidate, added.candidate) == ()


def test_an_import_that_the_original_does_not_use_gives_nothing_away() -> None:
    original = "import os\n" + ORIGINAL
    for use in ("os.getcwd()", "[os][0].getcwd()", "o = os\n    o.getcwd()"):
        candidate = original.replace("    y = torch", f"    {use}\n    y = torch")
        assert admit(original, original) == ()
        assert len(admit(original, candidate)) == 1, use


def test_one_part_of_a_library_in_the_original_does_not_open_the_rest() -> None:
    original = ORIGINAL.replace("    return y", "    return torch.nn.functional.pad(y, (0, 0))")
    other = original.replace("torch.nn.functional.pad", "torch.nn.functional.relu")
    renamed = original.replace("import torch\n", "import torch\nfrom torch.nn import functional as F\n").replace(
        "torch.nn.functional.pad", "F.pad"
    )

    assert admit(original, renamed) == ()
    assert [reason.split(",")[0] for reason in admit(original, other)] == ["line 16: uses torch.nn.functional.relu"]


def test_what_comes_by_a_star_of_the_originals_is_judged_by_its_full_name() -> None:
    original = "from torch import *\n" + ORIGINAL.replace("torch.empty_like", "empty_like")
    assert admit(original, original.replace("empty_like", "zeros_like")) == ()
    (reason,) = admit(original, original.replace("empty_like", "softmax"))
    assert reason.startswith("line 15: uses torch.softmax, which the original does not")


def test_a_name_of_the_candidates_own_is_not_taken_for_a_built_in() -> None:
    assert top("def _f(input, id):\n    return input + id").reasons == ()
    assert top("def _f(torch):\n    return torch.os").reasons == ()
