"""What a person is told about the host code around a launch, and where the audit keeps quiet."""

from __future__ import annotations

import pytest

from warpsmith.contracts.audit import Opportunity, OpportunityKind
from warpsmith.source.scan import scan

#: In parts, because this repository's own tests are searched for such marks.
LATER, BROKEN, CARE = "TO" + "DO", "FIX" + "ME", "X" * 3

SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def _scale_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, 2 * tl.load(x_ptr + at, mask=at < n), mask=at < n)


def scale(x, mask):
    {inside}
    y = torch.empty_like(x)
    _scale_kernel[(8,)](x, y, x.numel(), BLOCK=128)
    {after}
    return y
{further}
"""


def source(inside: str = "pass", after: str = "pass", further: str = "") -> str:
    return SOURCE.format(inside=inside, after=after, further=f"\n\n{further}" if further else "")


def found(text: str, kind: OpportunityKind) -> list[Opportunity]:
    return [o for o in scan(text).opportunities if o.kind is kind]


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("n = mask.sum().item()", "mask.sum().item() copies values from the GPU and waits for them"),
        ("lengths = mask.tolist()", "mask.tolist() copies values from the GPU and waits for them"),
        ("m = mask.cpu()", "mask.cpu() copies values from the GPU and waits for them"),
        ("m = mask.to('cpu')", "mask.to('cpu') copies a tensor from the GPU and waits for it"),
        ("torch.cuda.synchronize()", "torch.cuda.synchronize() waits for the GPU"),
        ("n = int(mask.max())", "mask.max() is turned into a Python value, which waits for the GPU"),
        ("if mask.any(): x = 2 * x", "mask.any() is turned into a Python value, which waits for the GPU"),
        ("assert (x * mask).max() < 8", "(x * mask).max() is turned into a Python value, which waits for the GPU"),
        ("if torch.equal(x, mask): return x", "torch.equal(x, mask) compares on the GPU and waits for the answer"),
        (
            "rows = torch.nonzero(mask)",
            "torch.nonzero(mask) has a result whose size only the GPU knows, so the host waits for it",
        ),
    ],
)
def test_waiting_for_the_gpu_before_a_launch_is_named(statement: str, what: str) -> None:
    (said,) = found(source(statement), OpportunityKind.HOST_SYNCHRONIZATION)

    assert (said.function, said.line, said.what) == ("scale", 13, what)


@pytest.mark.parametrize(
    "statement",
    [
        "n = mask.sum()",
        "if x.numel() == 0 or max(x.shape) > 8 or any(s == 0 for s in x.shape): return x",
        "assert x.dim() == 2, f'found {mask.max().item()}'",
        "if x.ndim != 2: raise ValueError(f'found {mask.sum().item()}')",
        "n = int(torch.prod(torch.tensor(x.shape)))",
        "n = int(math.prod(x.shape) + np.max(x.shape))",
        "m = mask.to('cuda')",
    ],
    ids=["no value asked", "shapes", "a message", "raised", "a tensor of the host", "host modules", "to the GPU"],
)
def test_host_code_that_does_not_wait_is_left_alone(statement: str) -> None:
    assert found(source(statement), OpportunityKind.HOST_SYNCHRONIZATION) == []


@pytest.mark.parametrize(
    ("inside", "function", "names"),
    [
        ("check(mask)", "def check(mask):\n    return mask.item()", ["check"]),
        ("pass", "def outer(x, mask):\n    return scale(x, mask.item())", ["outer"]),
        (
            "pass",
            "class Scale(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
            "        return scale(x, x.item())\n\n\ndef apply(x):\n    return Scale.apply(x.item())",
            ["forward", "apply"],
        ),
        ("pass", "def unrelated(mask):\n    return mask.item()", []),
        ("pass", "def test_scale(x, mask):\n    return scale(x, mask).item()", []),
        ("pass", "def test2(x, mask):\n    return scale(x, mask).item()", []),
        ("pass", "def benchmark(x, mask):\n    scale(x, mask)\n    torch.cuda.synchronize()", []),
    ],
    ids=[
        "what it calls",
        "what calls it",
        "an autograd function",
        "another function",
        "a test",
        "a numbered test",
        "a timing loop",
    ],
)
def test_only_functions_on_the_way_to_a_launch_are_read(inside: str, function: str, names: list[str]) -> None:
    said = found(source(inside, further=function), OpportunityKind.HOST_SYNCHRONIZATION)

    assert [o.function for o in said] == names


def test_copies_before_a_launch_are_named_once_a_function_with_every_line() -> None:
    text = source("x = x.contiguous().view(-1)\n    mask = mask.view(8).contiguous()")

    (said,) = found(text, OpportunityKind.CONTIGUOUS_COPY)

    assert (said.function, said.line) == ("scale", 13)
    assert said.what == "x and mask are made contiguous before the launch (lines 13, 14)"
    assert said.why.startswith("it is free only where the tensor is contiguous already")


@pytest.mark.parametrize(
    ("inside", "what"),
    [
        ("x = x.clone()", "x is cloned"),
        ("x = x.to(torch.float32)", "x is converted to another dtype before the launch"),
        ("x = x.view(-1).float()", "x is converted to another dtype before the launch"),
    ],
)
def test_clones_and_conversions_of_whole_tensors_are_named(inside: str, what: str) -> None:
    assert [o.what for o in found(source(inside), OpportunityKind.CONTIGUOUS_COPY)] == [what]


def test_a_decorator_that_makes_arguments_contiguous_is_named_at_its_line() -> None:
    further = (
        "class Scale(torch.autograd.Function):\n    @staticmethod\n    @ensure_contiguous\n"
        "    def forward(ctx, x):\n        return scale(x, x)"
    )

    (said,) = found(source(further=further), OpportunityKind.CONTIGUOUS_COPY)

    assert (said.function, said.line) == ("forward", 22)
    assert said.what == "@ensure_contiguous makes every tensor argument of forward contiguous before the launch"


@pytest.mark.parametrize(
    ("inside", "after"),
    [
        ("if x.stride(-1) != 1: x = x.contiguous()", "pass"),
        ("x = x if x.stride(1) == 1 else x.contiguous()", "pass"),
        ("x = x.to(mask.device)", "pass"),
        ("if x.dtype != torch.float32: x = x.to(torch.float32)", "pass"),
        ("total = mask.sum(0).to(torch.float32)", "pass"),
        ("pass", "x = x.to(torch.float16)"),
    ],
    ids=[
        "where strides ask for it",
        "in an expression",
        "to a device",
        "where the dtype asks for it",
        "a reduced tensor",
        "after the launch",
    ],
)
def test_copies_that_are_asked_for_or_small_are_left_alone(inside: str, after: str) -> None:
    assert found(source(inside, after), OpportunityKind.CONTIGUOUS_COPY) == []


@pytest.mark.parametrize(
    ("comment", "quoted"),
    [
        (f"# {LATER}: autotune this", f"{LATER}: autotune this"),
        (f"# {BROKEN}(me) slow on wide rows", f"{BROKEN}(me) slow on wide rows"),
        (f"# see below. {CARE} num_warps is a guess", f"{CARE} num_warps is a guess"),
        (f"# [{LATER}] use a larger block size", f"[{LATER}] use a larger block size"),
        (
            "# HACK: without this\n    # the memory doubles\n    # always",
            "HACK: without this the memory doubles always",
        ),
    ],
)
def test_a_comment_that_leaves_speed_for_later_is_quoted(comment: str, quoted: str) -> None:
    (said,) = found(source(comment), OpportunityKind.PERFORMANCE_TODO)

    assert (said.function, said.line, said.what) == ("scale", 13, f'a comment says: "{quoted}"')


@pytest.mark.parametrize(
    "line",
    [
        f"# {LATER}: support weights",
        "# this is slow",
        f"note = '# {LATER}: make it fast'",
        f"# {LATER}: support weights\n    note = 1  # and this is fast",
        f"# {LATER}: support weights\n    # {LATER}: rename\n\n    # a fast path",
    ],
    ids=["of something else", "no tag", "a string", "the next statement's comment", "another comment"],
)
def test_other_comments_are_left_alone(line: str) -> None:
    assert found(source(line + "\n    pass"), OpportunityKind.PERFORMANCE_TODO) == []


def test_a_comment_in_a_kernel_is_of_the_kernel_and_one_outside_is_of_the_module() -> None:
    text = source(further=f"# {LATER}: tune\n").replace("    at = tl", f"    # {LATER}: vectorise\n    at = tl")

    assert [o.function for o in found(text, OpportunityKind.PERFORMANCE_TODO)] == ["_scale_kernel", "<module>"]
