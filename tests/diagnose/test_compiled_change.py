"""Which launches stand beside each other, and what of them is compared."""

from __future__ import annotations

from warpsmith.contracts.case import Mode
from warpsmith.contracts.compiled_change import CompiledLaunch
from warpsmith.contracts.launch import CompiledFacts, LaunchRecord
from warpsmith.device.known_gpus import known_gpu
from warpsmith.diagnose.compiled_change import paired

H200 = known_gpu("H200")


def record(name: str, *, registers: int = 39, rows: int = 4096) -> LaunchRecord:
    return LaunchRecord(
        jit_function=name,
        host_function="run",
        line=1,
        grid=(rows, 1, 1),
        constexprs={},
        host_integers={},
        host_tensors={},
        compiled=CompiledFacts(
            binary_sha256="a" * 64, registers=registers, spills=2, shared_bytes=32, num_warps=8, num_stages=3
        ),
    )


def names(base: str, change: str) -> list[tuple[str | None, str | None]]:
    """The pairs of launches of functions with these letters for names."""
    pairs = paired("case", Mode.FORWARD, [*map(record, base)], [*map(record, change)], H200)
    return [(each.base and each.base.jit_function, each.change and each.change.jit_function) for each in pairs]


def test_a_launch_is_told_as_the_compiler_has_it_with_what_an_sm_holds_of_it() -> None:
    # Checked against ncu: 39 registers, 8 warps and 32 bytes of shared memory are 6 blocks an SM of an H200.
    (pair,) = paired("case", Mode.BACKWARD, [record("f")], [record("f", rows=132 * 6)], H200)

    expected = CompiledLaunch(
        jit_function="f",
        grid=(4096, 1, 1),
        num_warps=8,
        num_stages=3,
        num_ctas=1,
        registers=39,
        spill_bytes=8,
        shared_bytes=32,
        resident_warps=48,
        limiter="registers",
        fits_at_once=False,
        binary_sha256="a" * 64,
    )
    assert (pair.case, pair.mode, pair.base) == ("case", Mode.BACKWARD, expected)
    assert pair.change == expected.model_copy(update={"grid": (792, 1, 1), "fits_at_once": True})


def test_launches_stand_beside_those_of_the_same_function_in_turn() -> None:
    assert names("fgf", "ffg") == [("f", "f"), ("f", "f"), ("g", "g")]
    first, second = paired(
        "case",
        Mode.FORWARD,
        [record("f", rows=1), record("f", rows=2)],
        [record("f", rows=3), record("f", rows=4)],
        H200,
    )
    assert [(p.base and p.base.grid[0], p.change and p.change.grid[0]) for p in (first, second)] == [(1, 3), (2, 4)]


def test_functions_with_new_names_are_paired_in_order_where_as_many_are_left_over() -> None:
    assert names("fgh", "xgy") == [("f", "x"), ("g", "g"), ("h", "y")]


def test_what_one_side_alone_launches_stands_alone() -> None:
    assert names("f", "fg") == [("f", "f"), (None, "g")]
    assert names("fg", "g") == [("g", "g"), ("f", None)]
    assert names("fg", "x") == [(None, "x"), ("f", None), ("g", None)]
    assert names("f", "") == [("f", None)]
