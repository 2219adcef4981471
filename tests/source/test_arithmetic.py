"""Arithmetic in fewer instructions and products of 16-bit operands: where, which lines, and where not."""

from __future__ import annotations

import ast
import difflib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Test modules are imported by path, so what they share is found only if they are told where.
sys.path.insert(0, str(Path(__file__).resolve().parent))

import arithmetic_kernels as kernels

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.admit import admit
from warpsmith.source.cheap_functions import Form
from warpsmith.source.rewrites import NotApplicable, multiply_as_loaded, use_cheap_functions
from warpsmith.source.scan import scan

HERE = Path(__file__).resolve().parent
REWRITES = {OpportunityKind.COSTLY_FUNCTION: use_cheap_functions, OpportunityKind.WIDENED_DOT: multiply_as_loaded}
PLACES = {
    "norm": (kernels.NORM, Form.ROOT.value, kernels.NORM_CHANGED),
    "softmax": (kernels.SCALED_SOFTMAX, Form.EXPONENTIAL.value, kernels.SCALED_SOFTMAX_CHANGED),
    "softmax_division": (kernels.SCALED_SOFTMAX, Form.DIVISION.value, kernels.SOFTMAX_DIVISION_CHANGED),
    "mean": (kernels.MEAN, Form.DIVISION.value, kernels.MEAN_CHANGED),
    "direct_dot": (kernels.DIRECT_DOT, "the matrix product in line 14 is", kernels.DIRECT_DOT_CHANGED),
    "named_dot": (kernels.NAMED_DOT, "the matrix product in line 15 is", kernels.NAMED_DOT_CHANGED),
}


def found(source: str) -> list[Opportunity]:
    return [o for o in scan(source).opportunities if o.kind in REWRITES]


def rewrite(source: str, opportunity: Opportunity) -> str:
    return REWRITES[opportunity.kind](source, opportunity)


def place(source: str, words: str) -> Opportunity:
    (only,) = (o for o in found(source) if o.what.startswith(words))
    return only


def all_of(source: str) -> str:
    for opportunity in found(source):
        source = rewrite(source, opportunity)
    return source


def kernel(body: str, parameters: str = "x_ptr, y_ptr, n, B: tl.constexpr") -> str:
    """A launched kernel of these lines, with `x` a float32 block and `h` one of whatever type was loaded."""
    lines = ["o = tl.arange(0, B)", "h = tl.load(x_ptr + o)", "x = h.to(tl.float32)", *body.splitlines()]
    indented = "\n".join(f"    {line}" for line in lines)
    launch = "def run(x, y):\n    _kernel[(1,)](x, y, 3, B=16)\n"
    return f"{kernels.HEAD}@triton.jit\ndef _kernel({parameters}):\n{indented}\n\n\n{launch}"


@pytest.mark.parametrize(("source", "words", "changed"), PLACES.values(), ids=PLACES.keys())
def test_a_rewrite_changes_these_lines_and_no_others(source: str, words: str, changed: list[str]) -> None:
    after = rewrite(source, place(source, words))
    diff = list(difflib.unified_diff(source.splitlines(), after.splitlines(), lineterm="", n=0))

    assert [line for line in diff if not line.startswith(("---", "+++", "@@"))] == changed
    ast.parse(after)


@pytest.mark.parametrize(("source", "words"), [p[:2] for p in PLACES.values()], ids=PLACES.keys())
def test_a_rewrite_leaves_nothing_to_find_and_has_nothing_to_do_the_second_time(source: str, words: str) -> None:
    opportunity = place(source, words)
    after = rewrite(source, opportunity)

    assert opportunity.what.split(" (")[0] not in [o.what.split(" (")[0] for o in found(after)]
    with pytest.raises(NotApplicable):
        rewrite(after, opportunity)


@pytest.mark.parametrize("source", [p[0] for p in PLACES.values()], ids=PLACES.keys())
def test_what_the_rewrites_write_is_admitted(source: str) -> None:
    assert admit(source, all_of(source)) == ()


@pytest.mark.parametrize(
    "body",
    [
        "y = h / tl.sqrt(tl.sum(x, axis=0))",  # a quotient of 16 bits is float32, a product is not
        "r = tl.sqrt(x)\ny = 1 / r + r",  # the root itself is used
        "r = tl.sqrt(x)\nr = r + 1.0\ny = 1 / r",
        "y = tl.sqrt(x) / x",
        "y = libdevice.exp(x) / libdevice.sqrt(x)",  # functions of another accuracy
        "for i in range(n):\n    y = x / i",
        "for i in range(n):\n    d = tl.sum(x * i, axis=0)\n    y = x / d",
        "for i in range(n):\n    y = h / n",
        "for i in range(n):\n    y = tl.sum(x, axis=0) / n",  # one division for a whole row
        "y = x / n",
        "d = tl.sum(x, axis=0)\nif n > 2:\n    d = d + 1.0\nfor i in range(n):\n    y = x / d",
        "z = x.to(tl.float64)\ny = tl.exp(z) / tl.sqrt(z)",
    ],
)
def test_arithmetic_that_would_change_or_gain_nothing_is_left_alone(body: str) -> None:
    assert found(kernel(f"{body}\ntl.store(y_ptr + o, y)")) == []


def test_a_jit_function_that_only_others_call_may_be_given_any_type_and_is_left_alone() -> None:
    source = kernel("tl.store(y_ptr + o, _inverse(x))")
    called = "@triton.jit\ndef _inverse(a):\n    return tl.exp(a) / tl.sqrt(a)\n\n\n"

    assert found(source.replace("@triton.jit", called + "@triton.jit")) == []


def test_a_reciprocal_is_made_where_its_divisor_is_known_already() -> None:
    loops = "for i in range(n):\n    d = tl.sum(x + n, axis=0)\n    for j in range(n):\n        x = x / d\n"
    after = all_of(kernel(f"{loops}tl.store(y_ptr + o, x)"))

    assert "    for i in range(n):\n        d = tl.sum(x + n, axis=0)\n        inv_d = 1.0 / d\n        for j" in after
    assert "            x = x * inv_d\n" in after


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        ("inv_s = 2.0\ns = tl.sqrt(x)\ny = inv_s * (1 / s)", "inv_s"),
        ("LOG2_E = 2.0\ny = tl.exp(x) * LOG2_E", "LOG2_E"),
        ("inv_n = 2.0\nfor i in range(n):\n    x = x / n\ny = x * inv_n", "inv_n"),
    ],
)
def test_a_name_that_is_taken_is_not_taken_again(body: str, taken: str) -> None:
    source = kernel(f"{body}\ntl.store(y_ptr + o, y)")
    with pytest.raises(NotApplicable, match=f"_kernel has another {taken}"):
        rewrite(source, found(source)[0])


def test_a_constant_of_the_module_that_is_log2_e_is_used() -> None:
    source = kernel("tl.store(y_ptr + o, tl.exp(-x))").replace(
        "@triton.jit", "LOG2_E = tl.constexpr(1.44269504)\n\n\n@triton.jit"
    )
    after = all_of(source)

    assert "tl.exp2(-x * LOG2_E)" in after
    assert after.count("1.44269504") == 1


def test_exponentials_inside_exponentials_are_all_rewritten() -> None:
    after = all_of(kernel("tl.store(y_ptr + o, tl.math.exp(-tl.exp(x - 1.0)))"))
    assert "tl.math.exp2(-tl.exp2((x - 1.0) * LOG2_E) * LOG2_E)" in after


def test_expressions_over_several_lines_are_rewritten_and_comments_within_them_are_not_lost() -> None:
    lines = "y = (\n    x\n    / tl.sqrt(tl.sum(x, axis=0))\n    + tl.exp(\n        x\n        * n\n    )\n)"
    after = all_of(kernel(f"{lines}\ntl.store(y_ptr + o, y)"))
    commented = kernel("y = (\n    x  # the row\n    / tl.sqrt(tl.sum(x, axis=0))\n)\ntl.store(y_ptr + o, y)")

    assert "        x * tl.rsqrt(tl.sum(x, axis=0))\n" in after
    assert "            x * (n * LOG2_E)\n" in after
    with pytest.raises(NotApplicable, match="line 12: comments stand within the division"):
        rewrite(commented, found(commented)[0])


def test_a_line_that_grows_too_long_is_broken() -> None:
    long = "tl.store(y_ptr + o, tl.exp(x - 1.0) + tl.exp(x - 2.0) + tl.exp(x - 3.0), mask=(o < n) & (o >= 0))"
    assert max(map(len, all_of(kernel(long)).splitlines())) <= 120


ONE = "y_ptr + o[:, None] * B + o[None, :]"


def dot(body: str) -> str:
    lines = ["a = tl.load(x_ptr + o[:, None] * B + o[None, :])", "b = tl.load(y_ptr + o[:, None] * B + o[None, :])"]
    return kernel("\n".join([*lines, *body.splitlines()]))


@pytest.mark.parametrize(
    "body",
    [
        f"tl.store({ONE}, tl.dot(a, b))",
        f"tl.store({ONE}, tl.dot(a.to(tl.float32), b))",
        f"c = a.to(tl.float32)\ntl.store({ONE}, tl.dot(c, b.to(tl.float32)) + c)",  # used besides
        f"c = a.to(tl.float32) * 0.5\ntl.store({ONE}, tl.dot(c, b.to(tl.float32)))",  # no longer of 16 bits
        f"c = tl.exp(a)\ntl.store({ONE}, tl.dot(c.to(tl.float32), b.to(tl.float32)))",
        f"c = a.to(tl.float32)\nd = b.to(tl.float32)\ntl.store({ONE}, tl.dot(c, d) + tl.dot(c, tl.abs(d)))",
        f"tl.store({ONE}, tl.dot(a.to(tl.float32), b.to(tl.float32), out_dtype=tl.float16))",  # would be the sums' type
        f"tl.store({ONE}, tl.dot(a.to(tl.float16), b.to(tl.float16)))",
        f"if n > 2:\n    a = a.to(tl.float32)\ntl.store({ONE}, tl.dot(a, b.to(tl.float32)))",
    ],
)
def test_products_whose_operands_are_not_only_converted_are_left_alone(body: str) -> None:
    assert [o for o in found(dot(body)) if o.kind is OpportunityKind.WIDENED_DOT] == []


@pytest.mark.parametrize("precision", ['input_precision="ieee"', "allow_tf32=False", 'input_precision="tf32x3"'])
def test_a_product_keeps_the_precision_that_it_asks_for_where_inputs_are_float32(precision: str) -> None:
    after = all_of(dot(f"tl.store({ONE}, tl.dot(a.to(tl.float32), tl.trans(b.to(tl.float32)), {precision}))"))
    assert f"tl.dot(a, tl.trans(b), {precision})" in after


def test_a_kernel_whose_launch_names_a_type_of_eight_bits_is_refused_and_says_which() -> None:
    plain = dot(f"tl.store({ONE}, tl.dot(a.to(tl.float32), b.to(tl.float32)))")
    named = plain.replace("def run(x, y):\n", "def run(x, y):\n    assert x.dtype != torch.float8_e4m3fn\n")

    assert found(named) == []
    with pytest.raises(NotApplicable, match="_kernel or its launch names float8_e4m3fn"):
        multiply_as_loaded(named, found(plain)[0])


def test_the_results_are_the_same_up_to_rounding() -> None:
    interpreter = HERE.parent / "kernels" / "interpret.py"
    paths = [str(HERE), *filter(None, sys.path)]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, str(interpreter), str(HERE / "interpreted_arithmetic.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    apart = json.loads(done.stdout)

    assert len(apart) == 10
    # Outputs of the norm and of softmax are of the input's type: one unit in the last place of float16 is 2**-11.
    largest = {name: 2**-11 if name.endswith("float16") else 2**-20 for name in apart}
    assert {name: far for name, far in apart.items() if not far <= largest[name]} == {}


def ptx(source: str, folder: Path, dtype: str, **constants: int) -> str:
    """What the source's kernel compiles to for an H100, its pointers of one type and its scalars by their names."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    path = folder / f"compiled_{len(list(folder.iterdir()))}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (function,) = (each for each in vars(module).values() if isinstance(each, triton.JITFunction))
    scalars = {"eps": "fp32", "sm_scale": "fp32"}
    signature: dict[str, Any] = {name: scalars.get(name, "i32") for name in function.arg_names}
    signature |= dict.fromkeys(function.arg_names[:2], f"*{dtype}") | dict.fromkeys(constants, "constexpr")
    compiled = triton.compile(ASTSource(function, signature, constants), target=GPUTarget("cuda", 90, 32))
    return str(compiled.asm["ptx"])


def test_compiled_code_has_fewer_roots_divisions_and_scalings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "kernels"
    folder.mkdir()
    norm = [ptx(source, folder, "fp16", BLOCK=64) for source in (kernels.NORM, all_of(kernels.NORM))]
    softmax = [
        ptx(source, folder, "fp32", BLOCK_N=128) for source in (kernels.SCALED_SOFTMAX, all_of(kernels.SCALED_SOFTMAX))
    ]

    # what is left of the divisions is that by the number of columns
    assert [text.count("div.full") > 1 for text in norm] == [True, False]
    assert [text.count("\tsqrt.approx") > 0 for text in norm] == [True, False]
    assert [text.count("ex2.approx.f32") > 0 for text in softmax] == [True, False]
    assert softmax[1].count("mul.f32") < softmax[0].count("mul.f32")


def test_compiled_products_run_on_tensor_cores_in_16_bits_and_float32_is_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "kernels"
    folder.mkdir()
    sources = (kernels.DIRECT_DOT, all_of(kernels.DIRECT_DOT))
    half = [ptx(source, folder, "fp16", BLOCK=16, BLOCK_K=16) for source in sources]
    full = [ptx(source, folder, "fp32", BLOCK=16, BLOCK_K=16) for source in sources]

    assert ["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in text for text in half] == [False, True]
    assert not any("mma" in text for text in full)
    assert [text.count("fma.rn.f32") for text in full] == [full[0].count("fma.rn.f32")] * 2
