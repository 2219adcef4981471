"""Knobs in the configs of an autotune decorator: the tuner stays, and is left one config while a setting is given."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.contracts.audit import KnobKind, KnobOrigin
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.scan import scan
from warpsmith.source.table import Band, SettingsTable, write_table
from warpsmith.source.tunable import make_tunable

LISTED = """[
        triton.Config({'BLOCK': 128, 'GROUP': 8, 'FAST': True}, num_warps=4, num_stages=2, pre_hook=hook),
        triton.Config({'BLOCK': 64, 'GROUP': 8, 'FAST': False}, num_warps=2, num_ctas=2, maxnreg=96),
    ]"""
SOURCE = """\
import itertools

import torch
import triton
import triton.language as tl

HOOKED = []


def hook(arguments):
    HOOKED.append(arguments["BLOCK"])


def prune(configs, named_args, **kwargs):
    return [config for config in configs if config.kwargs["BLOCK"] <= named_args["n"]]


def get_configs():
    found = []
    for block in (64, 128):
        for warps in [2, 4]:
            found.append(triton.Config({"BLOCK": block, "GROUP": 8}, num_warps=warps, num_stages=2))
    return found


@triton.autotune(
    configs=CONFIGS,
    key=["n"],
    prune_configs_by={"early_config_prune": prune},
    reset_to_zero=["total_ptr"],
)
@triton.jit
def _sum_kernel(x_ptr, total_ptr, n, GROUP: tl.constexpr, BLOCK: tl.constexpr, FAST: tl.constexpr = True):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total_ptr, tl.sum(tl.load(x_ptr + offsets, mask=offsets < n)))


def host(x, n):
    total = torch.zeros((1,))
    _sum_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, total, n)
    used = _sum_kernel.best_config.kwargs["BLOCK"]
    return torch.empty((triton.cdiv(n, used),))
"""
BLOCK, WARPS = "_sum_kernel.BLOCK", "_sum_kernel.num_warps"


def source(configs: str = LISTED) -> str:
    return SOURCE.replace("CONFIGS", configs)


def tunable(text: str, *names: str) -> str:
    audit = scan(text)
    return make_tunable(text, [audit.knob(f"_sum_kernel.{name}") for name in names])


@pytest.mark.parametrize(
    ("configs", "block", "warps", "stages"),
    [
        (LISTED, (64, 128), (2, 4), (2, 3)),
        ("[triton.Config({'BLOCK': b}, num_warps=w) for b in [128, 64] for w in (8, 4)]", (64, 128), (4, 8), (3,)),
        (
            "[triton.Config(kwargs=dict(BLOCK=b), num_warps=w, num_stages=1) "
            "for b, w in itertools.product([64, 32], [1, 2])]",
            (32, 64),
            (1, 2),
            (1,),
        ),
        ("[triton.Config({'BLOCK': b}, w, 5) for b, w in [(64, 2), (128, 8)]]", (64, 128), (2, 8), (5,)),
        ("get_configs()", (64, 128), (2, 4), (2,)),
        ("get_configs() + [triton.Config({'BLOCK': 512})]", (64, 128, 512), (2, 4), (2, 3)),
        ("[c for c in get_configs() if c.num_warps > 2]", (64, 128), (2, 4), (2,)),
        ("[triton.Config({'BLOCK': 2**i}) for i in range(5, 8)]", (), (4,), (3,)),
    ],
    ids=["list", "comprehension", "product", "pairs", "function", "sum", "filtered", "computed"],
)
def test_the_values_that_the_configs_list_are_read(configs: str, block: tuple[int, ...], warps: tuple[int, ...],
                                                   stages: tuple[int, ...]) -> None:  # fmt: skip
    audit = scan(source(configs))
    names = ("BLOCK", "num_warps", "num_stages")
    knobs = [audit.knob(f"_sum_kernel.{name}") for name in names]

    assert [knob.listed for knob in knobs] == [block, warps, stages]
    assert {(knob.origin, knob.tunable, knob.line) for knob in knobs} == {(KnobOrigin.AUTOTUNE, True, 26)}
    assert audit.not_covered == ()


def test_every_whole_number_that_the_configs_give_the_kernel_is_a_knob_and_a_flag_is_none() -> None:
    knobs = {knob.name: (knob.kind, knob.listed) for knob in scan(source()).knobs}

    assert knobs == {
        "num_warps": (KnobKind.NUM_WARPS, (2, 4)),
        "num_stages": (KnobKind.NUM_STAGES, (2, 3)),
        "BLOCK": (KnobKind.BLOCK_TILING, (64, 128)),
        "GROUP": (KnobKind.BLOCK_TILING, (8,)),
        "maxnreg": (KnobKind.MAXNREG, (96,)),
    }


def test_without_settings_the_tuner_chooses_among_all_its_configs(machine: Any) -> None:
    module = machine.load(tunable(source(), "BLOCK", "num_warps", "num_stages", "GROUP", "maxnreg"))

    partial = module.host(x=None, n=1000)

    assert machine.launched == machine.run(source(), x=None, n=1000)
    assert len(module._sum_kernel.configs) == 2
    assert module._sum_kernel.cache != {}
    assert partial.shape == (8,)


def test_a_setting_leaves_one_config_that_the_grid_the_hook_and_best_config_follow(machine: Any) -> None:
    module = machine.load(tunable(source(), "BLOCK", "num_warps", "num_stages"))
    module.WARPSMITH_SETTINGS.update({BLOCK: 256, WARPS: 8, "_sum_kernel.num_stages": 5})

    partial = module.host(x=None, n=1000)

    (launch,) = machine.launched
    assert (launch.grid, launch.arguments["BLOCK"], launch.arguments["num_warps"]) == ((4,), 256, 8)
    assert (launch.arguments["num_stages"], launch.arguments["GROUP"], launch.arguments["FAST"]) == (5, 8, True)
    assert (module.HOOKED, partial.shape) == ([256], (4,))
    assert module._sum_kernel.cache == {}
    assert module._sum_kernel.reset_to_zero == ["total_ptr"]


def test_the_config_nearest_to_the_settings_gives_what_they_do_not(machine: Any) -> None:
    (launch,) = machine.run(tunable(source(), "BLOCK"), settings={BLOCK: 32}, x=None, n=1000)

    assert {name: launch.arguments[name] for name in ("BLOCK", "num_warps", "num_ctas", "maxnreg", "FAST")} == {
        "BLOCK": 32,
        "num_warps": 2,
        "num_ctas": 2,
        "maxnreg": 96,
        "FAST": False,
    }


def test_settings_come_and_go_and_the_tuner_is_as_it_was(machine: Any) -> None:
    module = machine.load(tunable(source(), "BLOCK", "num_warps"))
    module.host(x=None, n=1000)
    for settings in ({BLOCK: 32}, {WARPS: 16}, {}):
        module.WARPSMITH_SETTINGS.clear()
        module.WARPSMITH_SETTINGS.update(settings)
        module.host(x=None, n=1000)

    first, *changed, last = machine.launched
    assert [(each.arguments["BLOCK"], each.arguments["num_warps"]) for each in changed] == [(32, 2), (128, 16)]
    assert last == first


def test_settings_that_the_pruning_would_drop_are_refused_at_the_launch(machine: Any) -> None:
    with pytest.raises(ValueError, match="prune_configs_by drops BLOCK: 2048"):
        machine.run(tunable(source(), "BLOCK"), settings={BLOCK: 2048}, x=None, n=1000)


def test_a_pruning_that_takes_named_arguments_is_asked_with_those(machine: Any) -> None:
    text = source().replace("prune(configs, named_args, **kwargs)", "prune(configs, named_args, x_ptr=None)")

    (launch,) = machine.run(tunable(text, "BLOCK"), settings={BLOCK: 512}, x=None, n=1000)

    assert launch.arguments["BLOCK"] == 512


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ("table['sum']", "line 28: no Config(...) is seen in what the autotune decorator is given"),
        ("made_elsewhere()", "line 28: no Config(...) is seen in what the autotune decorator is given"),
        ("[]", "line 29: the list of configs is empty, so there is none to write others like"),
        ("[triton.Config(**CONFIG)]", "line 29: what the Config(...) gives is not written there: write out its kwargs"),
    ],
)
def test_a_knob_whose_best_values_could_not_be_written_is_refused_at_the_scan(configs: str, why: str) -> None:
    text = source(configs).replace("HOOKED = []", "from tables import CONFIG, made_elsewhere, table\n\nHOOKED = []")
    knobs = [knob for knob in scan(text).knobs if knob.origin is KnobOrigin.AUTOTUNE]

    assert {"BLOCK", "num_warps", "num_stages"} & {knob.name for knob in knobs}
    assert {(knob.tunable, knob.why_not) for knob in knobs} == {(False, why)}


def test_configs_in_a_tuple_are_tunable(machine: Any) -> None:
    (launch,) = machine.run(tunable(source(f"({LISTED.strip()[1:-1]})"), "BLOCK"), settings={BLOCK: 32}, x=None, n=1000)

    assert launch.arguments["BLOCK"] == 32


@pytest.mark.parametrize(
    ("before", "after", "name", "why"),
    [
        (
            "(x, total, n)",
            "(x, total, n, num_warps=8)",
            "num_warps",
            "line 43 gives it, and so do the configs in line 26",
        ),
        ("(x, total, n)", "(x, total, n, BLOCK=8)", "BLOCK", "line 43 gives it, and so do the configs in line 26"),
        ("@triton.autotune(", "@cached_autotune(", "BLOCK", "cached_autotune, which is not Triton's own"),
        ("@triton.autotune(", "@libentry()\n@triton.autotune(", "BLOCK", "wrapped by libentry in line 26, whose cache"),
    ],
)
def test_what_the_configs_cannot_be_made_to_say_is_refused(before: str, after: str, name: str, why: str) -> None:
    audit = scan(source().replace(before, after))
    knob = audit.knob(f"_sum_kernel.{name}")

    assert not knob.tunable and why in (knob.why_not or "")
    assert any(knob.id in said and why in said for said in audit.not_covered)


def test_a_block_that_the_configs_do_not_list_is_the_launch_s_own(machine: Any) -> None:
    text = source("[triton.Config({'GROUP': 8}), triton.Config({'GROUP': 4})]")
    text = text.replace("(x, total, n)", "(x, total, n, BLOCK=64)").replace(
        'best_config.kwargs["BLOCK"]', "best_config.num_warps"
    )
    text = text.replace('if config.kwargs["BLOCK"] <= named_args["n"]', "")
    knob = scan(text).knob(BLOCK)

    (launch,) = machine.run(make_tunable(text, [knob]), settings={BLOCK: 32}, x=None, n=64)

    assert (knob.origin, launch.arguments["BLOCK"], launch.grid) == (KnobOrigin.LITERAL, 32, (2,))


def test_a_table_in_the_host_code_cannot_give_what_the_configs_set() -> None:
    table = SettingsTable(
        jit_function="_sum_kernel",
        host_function="host",
        capability=(9, 0),
        sm_count=132,
        itemsize=2,
        tensor="x",
        axes=("n", "n"),
        bands=(Band(ranges=((1, 8), (1, 8)), settings={"num_warps": 8}),),
    )

    with pytest.raises(NotApplicable, match=r"line 26: _sum_kernel.num_warps is set by the configs .* add configs"):
        write_table(source(), scan(source()), [table])
