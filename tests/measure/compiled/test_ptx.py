"""Accesses and matrix instructions, read from what the compiler makes for GPUs that are not here."""

from __future__ import annotations

import inspect
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import accessing_kernels
import pytest
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from warpsmith.contracts.launch import AccessKind, GlobalAccess
from warpsmith.measure.compiled.ptx import Code, read_ptx

LOAD, STORE, ATOMIC, ASYNC_COPY = AccessKind.LOAD, AccessKind.STORE, AccessKind.ATOMIC, AccessKind.ASYNC_COPY
BULK = (ASYNC_COPY, None)
CAPABILITIES = [80, 90, 100, 120]
BF16, FP32, INT = "*bf16", "*fp32", "i32"


@cache
def compiled(
    name: str, capability: int, types: tuple[str, ...], aligned: tuple[int, ...], sizes: tuple[int, ...]
) -> Any:
    """A kernel's code: types of its arguments, which of them are multiples of 16, and its constexprs."""
    kernel = getattr(accessing_kernels, name)
    names = kernel.arg_names
    constexprs = dict(zip(names[len(types) :], sizes, strict=True))
    signature = {**dict(zip(names, types, strict=False)), **dict.fromkeys(constexprs, "constexpr")}
    attributes = {(index,): [["tt.divisibility", 16]] for index in aligned}
    source = ASTSource(kernel, signature, constexprs, attributes)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32)).asm


def rows(capability: int, *, aligned: bool = True) -> Any:
    return compiled("rows_kernel", capability, (BF16, BF16, INT, INT), (0, 1, 2, 3) if aligned else (0, 1, 2), (1024,))


def transposed(capability: int) -> Any:
    return compiled("transposed_kernel", capability, (BF16, BF16, INT), (0, 1, 2), (1024,))


def matmul(capability: int) -> Any:
    types = (BF16, BF16, BF16, INT, INT, INT)
    return compiled("matmul_kernel", capability, types, tuple(range(6)), (128, 64))


def read(code: Any) -> Code:
    return read_ptx(code["ptx"], with_lines=True)


def line(name: str) -> int:
    (found,) = (n for n, text in enumerate(SOURCE.splitlines(), start=1) if text.endswith(f"# {name}"))
    return found


SOURCE = inspect.getsource(accessing_kernels)


def access(kind: AccessKind, size: int | None, count: int, name: str) -> GlobalAccess:
    return GlobalAccess(kind=kind, bytes_a_thread=size, instructions=count, line=line(name))


def told(code: Code) -> set[tuple[AccessKind, int | None, int | None]]:
    """Without counts: how often a loop is unrolled differs between compilers."""
    return {(each.kind, each.bytes_a_thread, each.line) for each in code.accesses}


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_rows_that_lie_aligned_are_read_and_written_16_bytes_a_thread(capability: int) -> None:
    assert read(rows(capability)) == Code(
        (access(LOAD, 16, 1, "rows: load"), access(STORE, 16, 1, "rows: store")), matrix_instructions={}
    )


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_rows_of_a_stride_that_may_be_odd_are_read_one_element_at_a_time(capability: int) -> None:
    assert read(rows(capability, aligned=False)).accesses == (
        access(LOAD, 2, 8, "rows: load"),
        access(STORE, 2, 8, "rows: store"),
    )


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_transposed_load_beside_a_contiguous_store_is_told_apart_on_one_line(capability: int) -> None:
    assert read(transposed(capability)).accesses == (
        access(LOAD, 2, 8, "transposed"),
        access(STORE, 16, 1, "transposed"),
    )


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_cache_hints_do_not_hide_the_width(capability: int) -> None:
    code = compiled("hinted_kernel", capability, (FP32, FP32), (0, 1), (1024,))

    assert read(code).accesses == (
        access(LOAD, 16, 2, "hinted: kept"),
        access(LOAD, 16, 2, "hinted: past L1"),
        access(STORE, 16, 2, "hinted: streamed"),
    )


@pytest.mark.parametrize(
    ("capability", "multiplies"),
    [(80, "mma.sync"), (90, "wgmma.mma_async"), (100, "tcgen05.mma"), (120, "mma.sync")],
)
def test_a_pipelined_matmul_copies_past_the_registers_and_uses_the_matrix_unit(
    capability: int, multiplies: str
) -> None:
    code = read(matmul(capability))

    assert told(code) == {
        (ASYNC_COPY, 16, line("matmul: a")),
        (ASYNC_COPY, 16, line("matmul: b")),
        (STORE, 16, line("matmul: c")),
    }
    assert list(code.matrix_instructions) == [multiplies]
    assert code.matrix_instructions[multiplies] >= 4


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_descriptors_copies_are_bulk_where_the_gpu_has_them(capability: int) -> None:
    code = compiled("descriptor_kernel", capability, (BF16, BF16, INT, INT), (0, 1, 2, 3), (64,))
    load = (LOAD, 16) if capability < 90 else (ASYNC_COPY, None)
    store = (STORE, 16) if capability < 90 else (STORE, None)

    assert told(read(code)) == {(*load, line("descriptor")), (*store, line("descriptor"))}


@pytest.mark.parametrize("capability", [80, 90])
def test_a_line_is_the_helpers_in_the_same_file_and_the_calls_for_another_files(capability: int) -> None:
    code = compiled("helped_kernel", capability, (FP32, FP32, INT), (0, 1), (512,))

    assert read(code).accesses == (
        access(LOAD, 16, 2, "helper: load"),
        access(STORE, 4, 1, "helper: apart"),
        access(LOAD, 16, 1, "helped: elsewhere"),
        access(STORE, 16, 1, "helped: store"),
    )


@pytest.mark.parametrize(("capability", "added"), [(80, (4, 8)), (90, (16, 2))])
def test_atomics_are_as_wide_as_the_gpu_has_them(capability: int, added: tuple[int, int]) -> None:
    code = compiled("atomic_kernel", capability, (FP32, FP32), (0, 1), (1024,))

    assert read(code).accesses == (
        access(LOAD, 16, 2, "atomic: load"),
        access(ATOMIC, *added, "atomic: add"),
        access(ATOMIC, 4, 1, "atomic: exchange"),
    )


def test_a_threads_own_stack_is_no_global_memory() -> None:
    code = compiled("printing_kernel", 90, (FP32,), (0,), (1024,))

    assert "st.local" in code["ptx"]
    assert read(code).accesses == (access(LOAD, 16, 2, "printing: load"),)


def test_without_lines_equal_accesses_of_several_are_one() -> None:
    code = compiled("helped_kernel", 90, (FP32, FP32, INT), (0, 1), (512,))

    assert [each.model_dump(exclude={"kind"}) for each in read_ptx(code["ptx"], with_lines=False).accesses] == [
        {"bytes_a_thread": 16, "instructions": 3, "line": None},
        {"bytes_a_thread": 16, "instructions": 1, "line": None},
        {"bytes_a_thread": 4, "instructions": 1, "line": None},
    ]


#: Of machine code: a kind of access and its modifiers, in which 4 bytes go without saying.
MACHINE = re.compile(r"\b(LDGSTS|LDG|STG)((?:\.\w+)+)")
MACHINE_KINDS = {"LDG": LOAD, "STG": STORE, "LDGSTS": ASYNC_COPY}
MACHINE_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


@pytest.mark.parametrize("capability", [80, 100])
@pytest.mark.parametrize("of", [rows, transposed, matmul])
def test_the_machine_code_has_the_widths_that_ptx_tells(of: Any, capability: int, tmp_path: Path) -> None:
    code = of(capability)
    (tmp_path / "kernel.cubin").write_bytes(code["cubin"])
    command = [knobs.nvidia.nvdisasm.path, "-c", str(tmp_path / "kernel.cubin")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {
        (MACHINE_KINDS[name], next((MACHINE_BYTES[m] for m in modifiers.split(".") if m in MACHINE_BYTES), 4))
        for name, modifiers in MACHINE.findall(printed)
    }

    assert found == {(each.kind, each.bytes_a_thread) for each in read(code).accesses}


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("ld.global.b16 %rs1, [%rd1];", (LOAD, 2)),
        ("@%p1 ld.global.nc.L1::no_allocate.L2::128B.v2.f64 {%fd1, %fd2}, [%rd1];", (LOAD, 16)),
        ("@!%p1 ld.global.v8.b32 {%r1}, [%rd1];", (LOAD, 32)),
        ("ld.relaxed.gpu.global.u8 %rs1, [%rd1];", (LOAD, 1)),
        ("ld.acquire.sys.b64 %rd2, [%rd1];", (LOAD, 8)),
        ("{ .reg .b64 p; createpolicy.fractional.L2::evict_last.b64 p, 1.0; ld.global.b32 %r1, [%rd1]; }", (LOAD, 4)),
        ("ld.global.nc\n\t\t.v4 .b32 {%r1}, [%rd1];", (LOAD, 16)),
        ("st.global.cs.v4.b32 [%rd1], {%r1};", (STORE, 16)),
        ("$L__BB0_2: st.volatile.global.f32 [%rd1], %f1;", (STORE, 4)),
        ("atom.global.gpu.acq_rel.add.noftz.v8.bf16 {%rs1}, [%rd1], {%rs2};", (ATOMIC, 16)),
        ("atom.relaxed.gpu.global.cas.b32 %r1, [%rd1], %r2, %r3;", (ATOMIC, 4)),
        ("red.global.add.noftz.bf16x2 [%rd1], %r1;", (ATOMIC, 4)),
        ("multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2 {%r1}, [%rd1];", (LOAD, 16)),
        ("multimem.red.relaxed.sys.global.add.f32 [%rd1], %f1;", (ATOMIC, 4)),
        ("cp.async.cg.shared.global.L2::128B [%r1 + 0], [%rd1 + 0], 0x10, %r2;", (ASYNC_COPY, 16)),
        ("@%p1 cp.async.ca.shared::cta.global [%r1], [%rd1], 8;", (ASYNC_COPY, 8)),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 64, [%r3];", BULK),
        ("@%p1 cp.async.bulk.tensor.2d.shared::cta.global.tile [%r1], [%rd1, {%r2, %r3}], [%r4];", BULK),
        ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r2, %r3}], [%r1];", (STORE, None)),
        ("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd1, {%r2}], [%r1];", (ATOMIC, None)),
    ],
)
def test_each_form_of_access_has_its_kind_and_width(instruction: str, expected: tuple[AccessKind, int | None]) -> None:
    (found,) = read_ptx(f"\t{instruction}\n", with_lines=False).accesses

    assert (found.kind, found.bytes_a_thread, found.instructions) == (*expected, 1)


@pytest.mark.parametrize(
    "instruction",
    [
        "cp.async.cg.shared.global [%r1], [%rd1], 0;",
        "cp.async.cg.shared.global [%r1], [%rd1], 0xffffffffffffffff;",
        "ld.global.v0.b32 {%r1}, [%rd1];",
    ],
)
def test_a_size_that_no_instruction_moves_is_not_known(instruction: str) -> None:
    (found,) = read_ptx(f"\t{instruction}\n", with_lines=False).accesses

    assert found.bytes_a_thread is None


@pytest.mark.parametrize(
    "instruction",
    [
        "/* ld.global.b32 %r1, [%rd1];\n ld.global.b32 %r1, [%rd1]; */ add.s32 %r1, %r2, 1;",
        "ld.param.b64 %rd1, [kernel_param_0];",
        "ld.shared::cta.v4.b32 {%r1}, [%r2];",
        "st.local.b32 [%r1], %r2;",
        "st.v2.b32 [%SP+8], {%r1, %r2};",
        "ld.const.b32 %r1, [%rd1];",
        "atom.shared.add.u32 %r1, [%r2], 1;",
        "red.async.relaxed.cluster.global_bytes.shared::cluster.add.u32 [%r1], %r2, [%r3];",
        "cp.async.commit_group;",
        "cp.async.bulk.wait_group.read 0;",
        "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {%r1, %r2}];",
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1], [%r2], %r3, [%r4];",
        "tcgen05.ld.sync.aligned.32x32b.x64.b32 {%r1}, [%r2];",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1}, [%r2];",
        "prefetch.global.L2 [%rd1];",
        "wgmma.fence.sync.aligned;",
        "add.s32 %r1, %r2, 1; // as ld.global.b32 of old;",
    ],
)
def test_what_leaves_global_memory_alone_is_no_access(instruction: str) -> None:
    assert read_ptx(f"\t{instruction}\n", with_lines=False) == Code((), {})


@pytest.mark.parametrize(
    ("instruction", "mnemonic"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r1}, {%r2}, {%r3}, {%r4};", "mma.sync"),
        ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%r1};", "mma.sp"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%r1};", "wmma.mma"),
        ("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%r1}, %rd1, %rd2, p, 1, 1, 0, 0;", "wgmma.mma_async"),
        ("@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p2;", "tcgen05.mma"),
    ],
)
def test_each_matrix_instruction_is_counted_by_its_mnemonic(instruction: str, mnemonic: str) -> None:
    assert read_ptx(f"\t{instruction}\n" * 3, with_lines=False) == Code((), {mnemonic: 3})
