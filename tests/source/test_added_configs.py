"""Configs that are added to an autotune decorator, written as its author wrote the others."""

from __future__ import annotations

import ast

import pytest

from warpsmith.source.autotune import add_configs
from warpsmith.source.refusal import NotApplicable

MODULE = """\
import triton
import triton.language as tl

{before}
@triton.autotune(
    configs={configs},
    key=["n"],
)
@triton.jit
def _copy_kernel(x_ptr, n, BLOCK: tl.constexpr, GROUP: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), n)
"""
NEW = {"BLOCK": 256, "GROUP": 4, "num_warps": 8, "num_stages": 5}
OTHER = {"BLOCK": 64, "GROUP": 2, "num_warps": 2, "num_stages": 3}


def added(configs: str, before: str = "", *new: dict[str, int]) -> str:
    """What the decorator is given afterwards."""
    source = MODULE.format(configs=configs, before=before)
    changed = add_configs(source, "_copy_kernel", new or [NEW])
    ast.parse(changed)
    head, tail = source.split(f"configs={configs}")
    assert changed.startswith(head) and changed.endswith(tail)
    return changed.removeprefix(f"{head}configs=").removesuffix(tail)


def test_a_list_of_a_config_a_line_gets_further_lines_in_the_author_s_order() -> None:
    listed = """[
        triton.Config({'GROUP': 8, 'BLOCK': 128}, num_stages=3, num_warps=4),
        triton.Config({'GROUP': 8, 'BLOCK': 32}, num_stages=2, num_warps=2),  # narrow rows
    ]"""

    assert (
        added(listed, "", NEW, OTHER)
        == """[
        triton.Config({'GROUP': 8, 'BLOCK': 128}, num_stages=3, num_warps=4),
        triton.Config({'GROUP': 8, 'BLOCK': 32}, num_stages=2, num_warps=2),  # narrow rows
        # measured to be faster on some shapes
        triton.Config({'GROUP': 4, 'BLOCK': 256}, num_stages=5, num_warps=8),
        triton.Config({'GROUP': 2, 'BLOCK': 64}, num_stages=3, num_warps=2),
    ]"""
    )


def test_a_last_element_without_a_comma_gets_one_before_its_comment() -> None:
    listed = """[
        Config(dict(BLOCK=128, GROUP=8), num_warps=4)  # the usual, as ever
    ]"""

    assert (
        added(listed)
        == """[
        Config(dict(BLOCK=128, GROUP=8), num_warps=4),  # the usual, as ever
        # measured to be faster on some shapes
        Config(dict(BLOCK=256, GROUP=4), num_warps=8, num_stages=5),
    ]"""
    )


def test_a_list_on_one_line_is_spread() -> None:
    assert (
        added('[triton.Config({"BLOCK": 128, "GROUP": 8})]')
        == """[
        triton.Config({"BLOCK": 128, "GROUP": 8}),
        # measured to be faster on some shapes
        triton.Config({"BLOCK": 256, "GROUP": 4}, num_warps=8, num_stages=5),
    ]"""
    )


APPENDED = """ + [
        # measured to be faster on some shapes
        triton.Config({"BLOCK": 256, "GROUP": 4}, num_warps=8, num_stages=5),
    ]"""


@pytest.mark.parametrize(
    ("configs", "before"),
    [
        ('[triton.Config({"BLOCK": b, "GROUP": 8}, num_warps=w) for b in (64, 128) for w in (4, 8)]', ""),
        ("CONFIGS", 'CONFIGS = [triton.Config({"BLOCK": 128, "GROUP": 8}, num_warps=4)]\n\n'),
        ("get_configs()", 'def get_configs():\n    return [triton.Config({"BLOCK": 8, "GROUP": 8}, num_warps=1)]\n\n'),
        ("list(CONFIGS)", 'CONFIGS = [triton.Config({"BLOCK": 128, "GROUP": 8}, num_warps=4)]\n\n'),
    ],
    ids=["comprehension", "name", "call", "call of a built-in"],
)
def test_what_is_no_list_is_added_to(configs: str, before: str) -> None:
    assert added(configs, before) == configs + APPENDED


def test_a_second_time_the_added_list_grows() -> None:
    once = added("CONFIGS", 'CONFIGS = [triton.Config({"BLOCK": 128, "GROUP": 8})]\n\n')
    twice = added(once, 'CONFIGS = [triton.Config({"BLOCK": 128, "GROUP": 8})]\n\n', NEW, OTHER)

    assert twice.count("measured to be faster") == 2 and twice.count(" + [") == 1
    assert twice.count("256") == 1 and twice.rstrip("]\n ").endswith("num_warps=2, num_stages=3),")


def test_what_the_author_gives_his_configs_besides_is_kept() -> None:
    before = "def hook(arguments):\n    pass\n\n"
    listed = '[triton.Config({"BLOCK": 128, "GROUP": 8}, num_warps=4, num_ctas=2, maxnreg=64, pre_hook=hook)]'

    config = added(listed, before).splitlines()[-2].strip()

    assert config == (
        'triton.Config({"BLOCK": 256, "GROUP": 4}, num_warps=8, num_ctas=2, maxnreg=64, num_stages=5, pre_hook=hook),'
    )


def test_a_config_that_is_there_already_is_not_added_again() -> None:
    source = MODULE.format(before="", configs='[triton.Config({"BLOCK": 64, "GROUP": 2}, num_warps=2)]')

    assert add_configs(source, "_copy_kernel", [OTHER]) == source


def test_a_config_that_is_too_long_for_a_line_is_spread() -> None:
    names = ", ".join(f"'A_RATHER_LONG_NAME_{i}': {i}" for i in range(4))
    listed = f"[\n        triton.Config({{{names}, 'BLOCK': 8, 'GROUP': 8}}, num_warps=4),\n    ]"

    lines = added(listed).splitlines()

    assert lines[3:5] == ["        triton.Config(", f"            {{{names}, 'BLOCK': 256, 'GROUP': 4}},"]


@pytest.mark.parametrize(
    ("configs", "before", "why"),
    [
        (
            "CONFIGS if WIDE else [triton.Config({'BLOCK': 8})]",
            "",
            "line 6: configs cannot be added to an if expression",
        ),
        (
            '[triton.Config(**{"kwargs": {}, "num_warps": 2})]',
            "",
            r"line 6: what the Config\(...\) gives is not written",
        ),
        (
            "[triton.Config(each) for each in PAIRS]",
            "",
            r"line 6: what the Config\(...\) gives is not written",
        ),
        ("[]", "", "line 6: the list of configs is empty"),
        ("TABLE", "from tables import TABLE\n\n", r"line 7: no Config\(...\) is seen"),
        (
            "[triton.Config({'BLOCK': b, 'SPLIT': s}) for b, s in PAIRS]",
            "",
            "line 6: the config gives SPLIT by s: name its value",
        ),
        (
            "[triton.Config({'BLOCK': b}, pre_hook=h) for b, h in PAIRS]",
            "",
            "line 6: the configs are given h, which is known only there",
        ),
    ],
    ids=[
        "a condition",
        "by **",
        "by a name",
        "empty",
        "another module's",
        "a value that is not known",
        "a hook that is not known",
    ],
)
def test_where_nothing_can_be_added_the_line_is_named(configs: str, before: str, why: str) -> None:
    with pytest.raises(NotApplicable, match=why):
        added(configs, before)


def test_a_kernel_that_nothing_tunes_is_named() -> None:
    with pytest.raises(NotApplicable, match="other has no autotune decorator in this source"):
        add_configs(MODULE.format(before="", configs="[]"), "other", [NEW])


TUPLE = """(
        triton.Config({"BLOCK": 128, "GROUP": 8}, num_warps=4),
        triton.Config({"BLOCK": 64, "GROUP": 8}, num_warps=4),
    )"""


def test_a_tuple_stays_a_tuple() -> None:
    assert added(TUPLE).endswith(APPENDED.split("[\n")[1].removesuffix("]") + ")")
    assert added('(triton.Config({"BLOCK": 128, "GROUP": 8}),)').startswith("(\n")
    assert added("CONFIGS", f"CONFIGS = {TUPLE}\n\n") == "CONFIGS" + APPENDED.replace("[", "(").replace("]", ")")


@pytest.mark.parametrize("beside", ["num_ctas=1", "num_ctas=2", "maxnreg=64"])
def test_what_is_added_beside_an_option_of_the_author_s_is_added_once(beside: str) -> None:
    listed = f'[triton.Config({{"BLOCK": 128, "GROUP": 8}}, num_warps=4, {beside})]'
    once = add_configs(MODULE.format(before="", configs=listed), "_copy_kernel", [NEW, OTHER])

    assert once.count("triton.Config(") == 3
    assert add_configs(once, "_copy_kernel", [NEW, OTHER]) == once
