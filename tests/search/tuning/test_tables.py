"""What a table is keyed by: what the host code knows at the launch, and nothing that only looks like it."""

from __future__ import annotations

from typing import Any

from simulated_gpu import DEVICE

from warpsmith.contracts.audit import Knob
from warpsmith.contracts.case import Case, DType
from warpsmith.contracts.launch import CompiledFacts, LaunchRecord
from warpsmith.search.tuning.narrowing import sizes_at
from warpsmith.search.tuning.space import ORIGINAL_KEY as ORIGINAL
from warpsmith.search.tuning.space import Key
from warpsmith.search.tuning.tables import Tables, TunedCase, settings_tables
from warpsmith.source.scan import scan
from warpsmith.source.table import write_table

SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x_ptr, n_cols: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    cols = tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + tl.program_id(0) * n_cols + cols, mask=cols < n_cols)
    tl.store(x_ptr + tl.program_id(0) * n_cols + cols, x * 2, mask=cols < n_cols)


def host(x):
    block = triton.next_power_of_2(x.shape[-1])
    _kernel[(x.shape[0],)](x, n_cols=x.shape[-1], BLOCK_SIZE=block, num_warps=4)
"""
EIGHT: Key = (("_kernel.num_warps", 8),)
SIXTEEN: Key = (("_kernel.num_warps", 16),)
COMPILED = CompiledFacts(binary_sha256="0" * 64, registers=1, spills=0, shared_bytes=0, num_warps=4, num_stages=3)


def tuned(axes: dict[str, int], integers: dict[str, int], best: Key = EIGHT, **told: Any) -> TunedCase:
    """A case where `best` takes half the original's time, launched where these integers are known."""
    case = Case(axes=axes, dtype=told.pop("dtype", DType.BFLOAT16))
    launch = LaunchRecord(
        **{
            "jit_function": "_kernel",
            "host_function": "host",
            "line": 1,
            "grid": (1,),
            "constexprs": {},
            "host_integers": integers,
            "host_tensors": {"weight": "float32", "x": case.dtype.value},
            "compiled": COMPILED,
            **told,
        }
    )
    return TunedCase(case, (launch,), {ORIGINAL: 2.0, EIGHT: 1.5, SIXTEEN: 1.5, best: 1.0})


def tables(*cases: TunedCase, source: str = SOURCE) -> Tables:
    knobs: list[Knob] = [knob for knob in scan(source).knobs if knob.jit_function == "_kernel"]
    return settings_tables(source, knobs, cases, "N", DEVICE)


def row_case(m: int, n: int, best: Key = EIGHT, **more: int) -> TunedCase:
    return tuned({"M": m, "N": n}, {"n_rows": m, "n_cols": n, **more}, best)


def test_a_row_kernel_is_keyed_by_its_width_and_then_its_rows() -> None:
    (table,) = tables(row_case(64, 1024), row_case(512, 4096)).tables
    assert (table.tensor, table.axes, table.itemsize) == ("x", ("n_cols", "n_rows"), 2)
    assert sizes_at(table, Case(axes={"M": 100, "N": 2000}, dtype=DType.BFLOAT16)) == (2000, 100)


def test_a_block_that_equals_the_width_at_powers_of_two_is_never_the_key() -> None:
    cases = [tuned({"M": 64, "N": n}, {"BLOCK_SIZE": n, "block": n, "n_rows": 64, "dim": n}) for n in (1024, 4096)]
    (table,) = tables(*cases).tables
    assert table.axes == ("dim", "n_rows")


def test_rows_may_be_a_product_of_axes() -> None:
    cases = [
        tuned({"B": b, "T": t, "N": 4096}, {"n_rows": b * t, "n_cols": 4096})
        for b, t in ((1, 512), (4, 512), (4, 2048))
    ]
    (table,) = tables(*cases).tables
    assert table.axes == ("n_cols", "n_rows")
    assert table.basis is not None and table.basis.products == (("N",), ("B", "T"))


def test_a_matmul_is_keyed_by_its_three_sizes_under_their_own_names() -> None:
    cases = [tuned({"M": s, "N": s, "K": s}, {"other": s, "K": s, "N": s, "M": s}) for s in (1024, 4096)]
    (table,) = tables(*cases).tables
    assert table.axes == ("M", "N", "K")


def test_a_size_that_never_changes_is_kept_where_a_variable_holds_it_and_left_out_where_none_does() -> None:
    held = [row_case(m, 4096) for m in (64, 512)]
    assert tables(*held).tables[0].bands[0].ranges == ((4096, 4096), (64, 512))
    unheld = [tuned({"M": m, "N": 4096}, {"n_rows": m}) for m in (64, 512)]
    assert tables(*unheld).tables[0].axes == ("n_rows",)


def test_each_element_size_has_its_own_table_and_dtypes_of_one_size_share_one() -> None:
    cases = [
        tuned({"M": 64, "N": 1024}, {"n_rows": 64, "n_cols": 1024}, best, dtype=dtype)
        for dtype, best in ((DType.FLOAT32, SIXTEEN), (DType.FLOAT16, EIGHT), (DType.BFLOAT16, EIGHT))
    ]
    found = {t.itemsize: [b.settings for b in t.bands] for t in tables(*cases).tables}
    assert found == {2: [{"num_warps": 8}], 4: [{"num_warps": 16}]}


def test_without_a_key_one_choice_that_suits_every_case_holds_for_the_gpu_alone() -> None:
    found = tables(tuned({"M": 64, "N": 1024}, {}), tuned({"M": 64, "N": 4096}, {}))
    assert [(t.axes, [b.settings for b in t.bands]) for t in found.tables] == [((), [{"num_warps": 8}])]
    assert found.reasons == ("host has no integer variable that holds N at every case, so a table has no key",)


def test_without_a_key_cases_that_differ_have_no_table_and_it_says_which_variable_is_missing() -> None:
    cases = [tuned({"M": 64, "N": 1024}, {}), tuned({"M": 64, "N": 4096}, {}, SIXTEEN)]
    found = tables(*cases)
    assert found.tables == ()
    assert found.reasons == ("host has no integer variable that holds N at every case, so a table has no key",)


def test_a_size_that_stands_in_the_launch_alone_is_read_as_it_stands_there() -> None:
    cases = [
        tuned({"M": m, "N": n}, {"block": n}, grid=(m,), constexprs={"n_cols": n, "BLOCK_SIZE": n})
        for m, n in ((64, 1024), (512, 4096))
    ]
    found = tables(*cases).tables
    assert [t.axes for t in found] == [("x.shape[-1]", "x.shape[0]")]
    assert "tuned = _tuned_settings(_HOST_SETTINGS, x, x.shape[0], x.shape[-1])" in write_table(
        SOURCE, scan(SOURCE), found
    )


def test_a_variable_that_changes_between_launches_of_one_case_is_no_key() -> None:
    first = row_case(64, 1024, chunk=0)
    again = first.launches[0].model_copy(update={"host_integers": {"n_rows": 32, "n_cols": 1024}})
    several = TunedCase(first.case, (*first.launches, again), first.times_ms)
    assert tables(several, row_case(512, 1024)).reasons != ()


def test_widths_are_parted_at_powers_of_two_only_where_a_block_covers_them() -> None:
    def edges(block: dict[int, int]) -> list[tuple[int, int]]:
        cases = [
            tuned({"M": 64, "N": n}, {"n_rows": 64, "n_cols": n}, best, constexprs={"BLOCK_SIZE": block[n]})
            for n, best in ((3000, EIGHT), (5000, SIXTEEN))
        ]
        return [b.ranges[0] for b in tables(*cases).tables[0].bands]

    assert edges({3000: 4096, 5000: 8192}) == [(3000, 4096), (4097, 5000)]
    assert edges({3000: 1024, 5000: 1024}) == [(3000, 3872), (3873, 5000)]


def test_a_function_that_was_launched_nowhere_has_no_table_and_it_says_so() -> None:
    assert tables() == Tables((), ("_kernel was launched at no tuning case",))
