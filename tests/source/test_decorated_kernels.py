"""Knobs of kernels under heuristics, caches and warm-ups: overridden where it holds, refused where it would not."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.contracts.audit import KnobKind, KnobOrigin
from warpsmith.source.knobs import sites
from warpsmith.source.launches import read
from warpsmith.source.overrides import beside_host_code
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.scan import scan
from warpsmith.source.tunable import make_tunable

SOURCE = """\
import torch
import triton
import triton.language as tl


def pick(arguments):
    if arguments["n"] > 4096:
        return 256
    return 128


{decorator}@triton.jit
def _scale_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) * 2, mask=offsets < n)


{host}"""
BLOCK, WARPS, STAGES = (f"_scale_kernel.{name}" for name in ("BLOCK", "num_warps", "num_stages"))
META = "def host(x, n):\n    _scale_kernel[lambda meta: (triton.cdiv(n, meta['BLOCK']),)](x, n)\n"
GIVEN = "def host(x, n):\n    _scale_kernel[(triton.cdiv(n, 64),)](x, n, BLOCK=64)\n"


def source(decorator: str, host: str = META) -> str:
    return SOURCE.format(decorator=decorator, host=host)


@pytest.mark.parametrize(
    "heuristics",
    [
        "{'BLOCK': lambda args: 128, 'num_warps': lambda args: 8 if args['n'] > 100 else 4}",
        "{'BLOCK': pick, 'num_warps': lambda args: 8}",
        "values={'BLOCK': pick, 'num_warps': lambda args: 8}",
    ],
    ids=["lambdas", "a function of the file", "by name"],
)
def test_what_heuristics_compute_is_overridden_in_them(machine: Any, heuristics: str) -> None:
    text = source(f"@triton.heuristics({heuristics})\n")
    audit = scan(text)
    knobs = [audit.knob(BLOCK), audit.knob(WARPS)]
    tunable = make_tunable(text, knobs)

    (original,) = machine.run(text, x=None, n=1024)
    (changed,) = machine.run(tunable, settings={BLOCK: 32, WARPS: 2}, x=None, n=1024)

    assert machine.run(tunable, x=None, n=1024) == [original]
    assert (original.grid, original.arguments["BLOCK"], original.arguments["num_warps"]) == ((8,), 128, 8)
    assert (changed.grid, changed.arguments["BLOCK"], changed.arguments["num_warps"]) == ((32,), 32, 2)
    assert {(knob.origin, knob.line, knob.tunable) for knob in knobs} == {(KnobOrigin.HEURISTICS, 12, True)}


def test_heuristics_that_follow_a_width_make_a_block_that_covers() -> None:
    text = source("@triton.heuristics({'BLOCK': lambda args: triton.next_power_of_2(args['n'])})\n")
    text = text.replace("tl.program_id(0) * BLOCK + ", "")

    assert (knob := scan(text).knob(BLOCK)).kind is KnobKind.BLOCK_COVERING
    assert knob.why_not == "must cover a row"


@pytest.mark.parametrize(
    ("grid", "shared"), [("(triton.cdiv(n, 128),)", "128"), ("(triton.cdiv(n, pick({'n': n})),)", "pick")]
)
def test_a_grid_computed_from_what_the_heuristics_compute_refuses_their_block(grid: str, shared: str) -> None:
    host = f"def host(x, n):\n    grid = {grid}\n    _scale_kernel[grid](x, n)\n"
    decorator = f"@triton.heuristics({{'BLOCK': {'pick' if shared == 'pick' else 'lambda args: 128'}}})\n"

    why_not = scan(source(decorator.replace("pick", "lambda args: pick(args)"), host)).knob(BLOCK).why_not

    assert f"the grid in line 21 may be computed from the same {shared}" in (why_not or "")


def test_heuristics_above_a_tuner_s_config_win(machine: Any) -> None:
    decorators = (
        "@triton.autotune(configs=[triton.Config({'BLOCK': 64}), triton.Config({'BLOCK': 32})], key=['n'])\n"
        "@triton.heuristics({'num_warps': lambda args: 8})\n"
    )
    knob = scan(source(decorators)).knob(WARPS)

    assert knob.origin is KnobOrigin.HEURISTICS


def test_a_table_in_the_host_code_cannot_give_what_heuristics_set() -> None:
    reading = read(source("@triton.heuristics({'BLOCK': pick})\n"))

    with pytest.raises(NotApplicable, match=r"line 12: _scale_kernel\.BLOCK is set by a heuristics decorator"):
        beside_host_code([site for site in sites(reading) if site.id == BLOCK])


@pytest.mark.parametrize(
    ("decorator", "refused", "free"),
    [
        ("@libentry()\n", {WARPS, STAGES}, {BLOCK}),
        ("@replayed_launch\n", {WARPS, STAGES, BLOCK}, set()),
        ("@libentry()\n@replayed_launch\n", {WARPS, STAGES, BLOCK}, set()),
    ],
)
def test_a_cache_around_a_kernel_refuses_what_it_does_not_tell_apart(
    decorator: str, refused: set[str], free: set[str]
) -> None:
    audit = scan(source(decorator, GIVEN))
    name = decorator.strip("@()\n").split("(")[0].split("\n")[0]

    assert {knob.id for knob in audit.knobs if knob.tunable} == free
    assert {knob.id for knob in audit.knobs if f"wrapped by {name} in line 12" in (knob.why_not or "")} == refused
    assert f"line 12: _scale_kernel is wrapped by @{name}, whose cache may ignore launch options" in audit.not_covered


@pytest.mark.parametrize(
    ("wrapping", "told"),
    [
        ("_scale_kernel = replay(_scale_kernel)", "replay in line 18"),
        (
            "try:\n    _scale_kernel = tuned(key=['n'])(_scale_kernel)\nexcept RuntimeError:\n    pass",
            "tuned in line 19",
        ),
    ],
    ids=["by a name", "by a call, where it can be"],
)
def test_a_kernel_that_the_module_wraps_later_is_under_that_cache_too(wrapping: str, told: str) -> None:
    audit = scan(source("", f"{wrapping}\n\n\n{GIVEN}"))

    assert f"wrapped by {told}" in (audit.knob(WARPS).why_not or "")


WARMED = """\
def host(x, n):
    block, warps = 128, 4
    options = {"num_warps": warps, "num_stages": 2}
    _scale_kernel.warmup(x, n, BLOCK=block, grid=(1,), WARM)
    _scale_kernel[(triton.cdiv(n, block),)](x, n, BLOCK=block, LAUNCH)
"""


def warmed(warm: str, launch: str) -> str:
    return source("", WARMED.replace("WARM", warm).replace("LAUNCH", launch))


@pytest.mark.parametrize(
    ("warm", "launch"), [("**options", "**options"), ("num_warps=warps, num_stages=2", "num_warps=warps, num_stages=2")]
)
def test_a_warmup_takes_the_settings_of_the_launch_where_both_read_them(machine: Any, warm: str, launch: str) -> None:
    text = warmed(warm, launch)
    audit = scan(text)
    tunable = make_tunable(text, [audit.knob(BLOCK), audit.knob(WARPS)])

    warm_up, launched = machine.run(tunable, settings={BLOCK: 32, WARPS: 1}, x=None, n=1024)

    assert machine.run(tunable, x=None, n=1024) == machine.run(text, x=None, n=1024)
    assert launched.grid == (32,)
    assert {**warm_up.arguments} == {**launched.arguments} == {
        "x_ptr": None, "n": 1024, "BLOCK": 32, "num_warps": 1, "num_stages": 2
    }  # fmt: skip


@pytest.mark.parametrize(
    ("warm", "launch", "name"),
    [
        ("num_warps=4", "num_warps=warps", "num_warps"),
        ("num_warps=4", "num_warps=4", "num_warps"),
        ("num_warps=warps", "num_warps=warps", "num_stages"),
        ("num_warps=warps", "**options", "num_warps"),
    ],
    ids=["a literal", "two literals", "absent", "another way"],
)
def test_a_warmup_that_would_keep_its_own_settings_refuses_the_knob(warm: str, launch: str, name: str) -> None:
    audit = scan(warmed(warm, launch))
    why = f"_scale_kernel.warmup in line 21 takes its own {name}"

    assert audit.knob(f"_scale_kernel.{name}").why_not == why
    assert f"line 22: _scale_kernel.{name}: {why}" in audit.not_covered
    assert "_scale_kernel.maxnreg" not in {knob.id for knob in audit.knobs}
