"""Every automatic rewrite on ten public styles of source: once is enough, all else stays, a refusal is one line."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import pytest
from source.public_styles import STYLES

from warpsmith.contracts.audit import KnobOrigin, Opportunity, SourceAudit
from warpsmith.search.strategies import CATALOGUE
from warpsmith.search.strategies.architecture import Switch
from warpsmith.search.strategies.rewriting import Rewriting
from warpsmith.source.admit import admit
from warpsmith.source.autotune import add_configs
from warpsmith.source.launches import read
from warpsmith.source.rewrites import NotApplicable, allocate_empty, group_tiles, parametrise_loop_stages
from warpsmith.source.scan import scan
from warpsmith.source.table import Band, SettingsTable, write_table

#: Between the imports and the kernel, and after all: nothing of it is any rewrite's business.
BYSTANDERS = """
# ---------- elsewhere ----------
def unrelated( a,b = 1 ) :   # spaces stay
    x = { 'k':a , } ; y = (b)
    return x,y   


@triton.jit
def _touch_kernel(flag_ptr,value) :
    tl.store(flag_ptr , value)   # größer als 0


class Other :
\tscale = 1 ;  text = 'num_warps=4, tl.load(x_ptr)'
\tdef touch(self, flag): _touch_kernel[(1,)](flag , self.scale)
"""  # noqa: W291
#: By strategy: the styles that it changes.
CHANGED: dict[str, set[str]] = {
    "settings": {"liger", "vllm", "unsloth", "xformers", "inductor", "tutorial", "in_house"},
    "needless_initialisation": {"liger"},
    "cache_hints": {"liger", "unsloth", "xformers", "transformer_engine", "in_house"},
    "stream_once_stores": {*STYLES} - {"transformer_engine", "tutorial"},
    "pipelined_loop": {"liger", "flag_gems", "xformers", "inductor"},
    "grouped_ordering": {"vllm"},
    "loop_invariant_loads": {"liger", "xformers", "inductor"},
    "two_dimensional_tiles": {"unsloth"},
    "dot_precision": {"vllm", "flash_linear_attention"},
    "cheap_functions": {"flag_gems", "flash_linear_attention", "in_house"},
    "past_l1": {"liger", "unsloth", "xformers", "transformer_engine", "in_house"},
    "specialized_warps_by_descriptor": {"tutorial"},
    "specialized_warps": {"vllm", "tutorial"},
}
Rewrite = Callable[[str], str]


@dataclass(frozen=True)
class Applied:
    """What a rewrite made of a source. `again`: the same once more. `touched`: the functions that it is about."""

    before: str
    after: str
    again: str
    touched: frozenset[str]
    refusals: tuple[str, ...]


@cache
def applied(strategy: str, style: str) -> Applied:
    """A strategy's rewrite at every place that the audit found, and at kernels where it found none."""
    before = with_bystanders(STYLES[style])
    steps = list(rewrites(strategy, before))
    touched, refusals, after = set[str](), list[str](), before
    for functions, rewrite in steps:
        text = once(after, rewrite, refusals)
        touched |= functions if text != after else set()
        after = text
    again = after
    for _, rewrite in steps:
        again = once(again, rewrite, refusals)
    return Applied(before, after, again, frozenset(touched), tuple(refusals))


def once(source: str, rewrite: Rewrite, refusals: list[str]) -> str:
    try:
        return rewrite(source)
    except NotApplicable as reason:
        refusals.append(str(reason))
        return source


def with_bystanders(source: str) -> str:
    """After what is imported, and at the end where no script stands."""
    kernel = next(node for node in ast.parse(source).body if not isinstance(node, ast.Import | ast.ImportFrom))
    lines = source.split("\n")
    at = min([node.lineno for node in (kernel, *getattr(kernel, "decorator_list", ()))]) - 1
    while lines[at - 1].startswith("#"):
        at -= 1
    return "\n".join([*lines[:at], *BYSTANDERS.strip("\n").split("\n"), "", "", *lines[at:]])


def rewrites(name: str, source: str) -> Iterator[tuple[set[str], Rewrite]]:
    """Functions that may change, and what changes them."""
    audit, strategy = scan(source), CATALOGUE[name]
    if isinstance(strategy, Rewriting) or name == "needless_initialisation":
        rewrite = strategy.rewrite if isinstance(strategy, Rewriting) else allocate_empty
        for place in places(audit, name):
            yield {place.function, *hosts(audit, place.function)}, partial(rewrite, opportunity=place)
        return
    for jit in audit.jit_functions:
        if name == "settings":
            yield hosts(audit, jit.name) | {jit.name}, partial(with_settings, jit=jit.name)
        elif isinstance(strategy, Switch):
            yield {jit.name}, partial(strategy.rewrite, jit_function=jit.name)
        else:
            rewrite_of = {"pipelined_loop": parametrise_loop_stages, "grouped_ordering": group_tiles}
            yield {jit.name}, partial(rewrite_of[name], jit_function=jit.name)


def places(audit: SourceAudit, name: str) -> list[Opportunity]:
    """What the audit found for a strategy; of functions where it found nothing, what it could have said."""
    kinds = CATALOGUE[name].card.takes_up
    found = [o for o in audit.opportunities if o.kind in kinds]
    others = {jit.name: jit.line for jit in audit.jit_functions if jit.name not in {o.function for o in found}}
    made_up = [Opportunity(kind=kinds[0], function=f, line=at, what="x is", why="") for f, at in others.items()]
    return [*found, *made_up]


def hosts(audit: SourceAudit, function: str) -> set[str]:
    return {launch.host_function for launch in audit.launches if launch.jit_function == function}


def with_settings(source: str, jit: str) -> str:
    """Eight warps for a jit function, in a table or as a further config of its tuner."""
    audit = scan(source)
    knob = next((k for k in audit.knobs if k.id == f"{jit}.num_warps"), None)
    if knob is None or not knob.tunable:
        raise NotApplicable(f"{jit}: {knob.why_not if knob else 'nothing launches it'}")
    if knob.origin is KnobOrigin.AUTOTUNE:
        return add_configs(source, jit, [{"num_warps": 8}])
    launch = next(each for each in read(source).launches if each.jit_name == jit)
    table = SettingsTable(
        jit_function=jit,
        host_function=launch.host_function,
        capability=(9, 0),
        sm_count=132,
        itemsize=2,
        tensor=next(iter(launch.tensors)),
        axes=(),
        bands=(Band(ranges=(), settings={"num_warps": 8}),),
    )
    return write_table(source, audit, [table])


EVERYWHERE = pytest.mark.parametrize(
    ("strategy", "style"), [(strategy, style) for strategy in CATALOGUE for style in STYLES]
)


@EVERYWHERE
def test_once_is_enough_and_a_refusal_is_one_line(strategy: str, style: str) -> None:
    found = applied(strategy, style)

    assert found.again == found.after
    assert [reason for reason in found.refusals if not reason.strip() or "\n" in reason] == []


@EVERYWHERE
def test_what_is_written_parses_is_admitted_and_leaves_all_else_byte_by_byte(strategy: str, style: str) -> None:
    found = applied(strategy, style)
    if found.after == found.before:
        assert found.refusals
        return

    assert admit(found.before, found.after) == ()
    assert kept(found.before, found.touched) == [
        text for text in kept(found.after, found.touched) if text in kept(found.before, found.touched)
    ]
    assert respelled(found.before, found.after) == []
    assert {line for line in found.after.split("\n") if len(line) > 120} <= {*found.before.split("\n")}
    assert BYSTANDERS.strip("\n") in found.after
    gone = comments(found.before) - comments(found.after)
    assert not gone or strategy == "dot_precision"  # which goes with the statements that it comments on


@pytest.mark.parametrize("strategy", CATALOGUE)
def test_each_rewrite_changes_some_styles_and_is_refused_by_others(strategy: str) -> None:
    changed = {style for style in STYLES if applied(strategy, style).after != applied(strategy, style).before}

    assert changed == CHANGED[strategy]
    assert set() < changed < set(STYLES)


def kept(source: str, touched: frozenset[str]) -> list[str]:
    """The lines of each statement of the module that holds no function that was to change."""
    lines, found = source.split("\n"), list[str]()
    for node in ast.parse(source).body:
        if not any(isinstance(each, ast.FunctionDef) and each.name in touched for each in ast.walk(node)):
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            found.append("\n".join(lines[first - 1 : node.end_lineno]))
    return found


def respelled(before: str, after: str) -> list[str]:
    """Statements that mean the same in both and are written otherwise, but for their indentation."""
    spelled = spellings(after)
    return [
        text
        for meaning, texts in spellings(before).items()
        for text in (texts - spelled[meaning]).elements()
        if spelled[meaning].total() >= texts.total()
    ]


def spellings(source: str) -> dict[str, Counter[str]]:
    """By meaning: how the simple statements of a source are written."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            text = "\n".join(line.strip() for line in (ast.get_source_segment(source, node) or "").split("\n"))
            found[ast.unparse(node)][text] += 1
    return found


def comments(source: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return Counter(token.string for token in tokens if token.type == tokenize.COMMENT)
