"""Lines of the source, in both forms in which compilers tell of inlined functions."""

from __future__ import annotations

import pytest

from warpsmith.measure.compiled.ptx import read_ptx


def lines_of(body: str, *files: str) -> list[int | None]:
    """The line of each load in a kernel that is defined on line 5 of the first file."""
    table = "".join(f'\t.file\t{number} "{path}"\n' for number, path in enumerate(files, start=1))
    ptx = f".visible .entry kernel(\n)\n{{\n\t.loc\t1 5 0 // ours.py:5:0\n{body}}}\n{table}\t.section .debug_info\n"
    return [each.line for each in read_ptx(ptx, with_lines=True).accesses for _ in range(each.instructions)]


LOAD = "\tld.global.b32 %r1, [%rd1];\n"
OURS, THEIRS = "/somewhere/ours.py", "/lib/triton/language/standard.py"


def test_a_line_holds_until_the_next_directive() -> None:
    body = f"\t.loc\t1 7 3 // ours.py:7:3\n{LOAD}\tadd.s32 %r1, %r1, 1;\n{LOAD}\t.loc\t1 9 1 // ours.py:9:1\n{LOAD}"

    assert lines_of(body, OURS) == [7, 7, 9]


@pytest.mark.parametrize(
    ("directive", "line"),
    [
        (".loc\t1 20 4 // ours.py:20:4 @[ ours.py:30:8 ]", 20),
        (".loc\t2 263 15 // standard.py:263:15 @[ standard.py:293:36 @[ ours.py:20:41 ] ]", 20),
        (".loc\t2 263 15 // standard.py:263:15 @[ ours.py:12:4 @[ ours.py:30:8 ] ]", 12),
        (".loc\t2 263 15 // standard.py:263:15", None),
        (".loc\t2 263 15", None),
        (".loc\t1 0 0 // ours.py:0:0", None),
    ],
)
def test_callers_are_read_from_the_comment(directive: str, line: int | None) -> None:
    assert lines_of(f"\t{directive}\n{LOAD}", OURS, THEIRS) == [line]


def test_a_file_of_the_same_name_is_not_taken_for_the_kernels() -> None:
    inside_theirs = ".loc\t2 40 1 // ours.py:40:1 @[ ours.py:44:2 @[ ours.py:20:4 ] ]"

    assert lines_of(f"\t{inside_theirs}\n{LOAD}", OURS, "/elsewhere/ours.py") == [20]


def test_callers_are_read_from_the_directives_before() -> None:
    body = (
        "\t.loc\t1 20 35\n"
        "\t.loc\t2 314 12, function_name $L__info_string0, inlined_at 1 20 35 // standard.py:314:12\n"
        "\t.loc\t2 287 12, function_name $L__info_string0, inlined_at 2 314 12 // standard.py:287:12\n"
        f"{LOAD}"
        "\t.loc\t2 314 12, function_name $L__info_string0, inlined_at 1 21 35 // standard.py:314:12\n"
        f"{LOAD}"
        "\t.loc\t2 287 12, function_name $L__info_string0, inlined_at 2 314 12 // standard.py:287:12\n"
        f"{LOAD}"
    )

    assert lines_of(body, OURS, THEIRS) == [20, 21, 21]


def test_callers_that_lead_nowhere_or_in_a_circle_are_no_line() -> None:
    body = (
        f"\t.loc\t2 1 1, function_name $s, inlined_at 2 99 1 // standard.py:1:1\n{LOAD}"
        f"\t.loc\t2 99 1, function_name $s, inlined_at 2 1 1 // standard.py:99:1\n{LOAD}"
    )

    assert lines_of(body, OURS, THEIRS) == [None, None]


def test_directives_inside_inline_assembly_do_not_move_the_line() -> None:
    body = (
        "\t.loc\t1 19 9 // ours.py:19:9\n\t// begin inline asm\n\t.loc\t1 19 9 // ours.py:19:9\n\tmov.u32 %r1, 0x0;\n"
        f"\t.loc\t1 20 9 // ours.py:20:9\n{LOAD}\t// end inline asm\n\t.loc\t1 21 5 // ours.py:21:5\n{LOAD}"
    )

    assert lines_of(body, OURS) == [19, 21]


def test_code_without_locations_has_no_lines() -> None:
    ptx = f".visible .entry kernel(\n)\n{{\n{LOAD}}}\n"

    assert [each.line for each in read_ptx(ptx, with_lines=True).accesses] == [None]


def test_a_kernel_is_known_by_its_definition_and_not_by_its_path() -> None:
    """What Triton's cache brings may have been compiled from another copy of the file."""
    for path in (OURS, "/a copy/renamed.py"):
        assert lines_of(f"\t.loc\t1 7 3 // {path.rpartition('/')[2]}:7:3\n{LOAD}", path) == [7]
