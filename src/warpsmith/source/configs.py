"""The configs of an autotune decorator: where they are made, and which values they give to what.

A list, a comprehension, a name, a call of a function of the file and any sum of these are read; what they compute
at run time is not. Must not know what is done with a value.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product

from warpsmith.source.syntax import FunctionNode, Source, assignments, last_name

#: Config(kwargs, num_warps=4, num_stages=3, ...): the order and defaults in Triton 3.6 to 3.9.
_POSITIONS = ("kwargs", "num_warps", "num_stages", "num_ctas", "maxnreg", "pre_hook")
#: Chosen: far more turns than a list of configs has.
_MOST_ROWS = 4096
_DEFAULTS = {"num_warps": 4, "num_stages": 3}
CONFIG_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
#: Expressions that stand for configs and that others can be added to.
_ADDED_TO = (ast.List, ast.Tuple, ast.ListComp, ast.Name, ast.Call, ast.Attribute, ast.BinOp)
_NAMES: Mapping[type[ast.expr], str] = {
    ast.IfExp: "an if expression",
    ast.GeneratorExp: "a generator",
    ast.Subscript: "an entry",
    ast.Lambda: "a function",
    ast.Constant: "a constant",
    ast.Dict: "a dictionary",
    ast.Set: "a set",
    ast.SetComp: "a set",
    ast.BoolOp: "an expression of and and or",
}


@dataclass(frozen=True)
class Configs:
    """`expression` is what the decorator is given, `calls` the `Config(...)` that it is made of.

    `listed` has every kernel argument that a config gives, and the options; empty where the values cannot be read.
    """

    expression: ast.expr
    calls: tuple[ast.Call, ...]
    listed: Mapping[str, tuple[int, ...]]
    #: arguments to which a config gives something that is no whole number
    others: frozenset[str]
    prune: ast.expr | None

    @property
    def are_read(self) -> bool:
        return bool(self.calls)


def configs_of(source: Source, decorator: ast.Call) -> Configs | None:
    """None where the decorator is given no configs by that name or first."""
    named = {keyword.arg: keyword.value for keyword in decorator.keywords}
    expression = named.get("configs", decorator.args[0] if decorator.args else None)
    if expression is None or isinstance(expression, ast.Starred):
        return None
    calls = tuple(config_calls(source, expression))
    values: dict[str, set[int]] = {}
    others: set[str] = set()
    for call in calls:
        for name, value in config_arguments(call).items():
            read = _values(source, call, value)
            values.setdefault(name, set()).update(v for v in read if type(v) is int)
            if any(v is not None and type(v) is not int for v in read):
                others.add(name)
        for name, default in _DEFAULTS.items():
            if name not in config_arguments(call):
                values.setdefault(name, set()).add(default)
    listed = {name: tuple(sorted(found)) for name, found in values.items()}
    return Configs(expression, calls, listed, frozenset(others), named.get("prune_configs_by"))


def config_calls(source: Source, expression: ast.expr) -> Iterator[ast.Call]:
    """Every `Config(...)` that may end up in a list of configs, through names and functions of the module."""
    waiting: list[ast.AST] = [expression]
    seen: set[str] = set()
    while waiting:
        node = waiting.pop(0)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call) and last_name(inner.func) == "Config":
                yield inner
            elif isinstance(inner, ast.Name) and inner.id not in seen:
                seen.add(inner.id)
                waiting += _defined(source, inner.id)


def _defined(source: Source, name: str) -> list[ast.AST]:
    """What a name of the module is set to, and the function of that name."""
    values: list[ast.AST] = [f.value for f in assignments(source.tree) if f.name == name and f.value is not None]
    return values + [node for node in source.tree.body if isinstance(node, FunctionNode) and node.name == name]


def config_arguments(call: ast.Call) -> dict[str, ast.expr]:
    """What one config gives to the kernel's arguments and to the options, by name."""
    given = dict(zip(_POSITIONS, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
    found = {name: given[name] for name in CONFIG_OPTIONS if name in given}
    kwargs = given.get("kwargs")
    if isinstance(kwargs, ast.Dict):
        pairs = zip(kwargs.keys, kwargs.values, strict=True)
        found |= {k.value: v for k, v in pairs if isinstance(k, ast.Constant) and isinstance(k.value, str)}
    elif isinstance(kwargs, ast.Call) and last_name(kwargs.func) == "dict":
        found |= {keyword.arg: keyword.value for keyword in kwargs.keywords if keyword.arg}
    return found


def is_written_out(call: ast.Call) -> bool:
    """Whether all that a config gives stands there by name: nothing comes by `*` or `**`."""
    given = dict(zip(_POSITIONS, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
    if any(k.arg is None for k in call.keywords) or any(isinstance(each, ast.Starred) for each in call.args):
        return False
    kwargs = given.get("kwargs")
    if isinstance(kwargs, ast.Dict):
        return all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in kwargs.keys)
    is_dict = isinstance(kwargs, ast.Call) and last_name(kwargs.func) == "dict" and not kwargs.args
    return is_dict and isinstance(kwargs, ast.Call) and all(keyword.arg is not None for keyword in kwargs.keywords)


def _values(source: Source, call: ast.Call, value: ast.expr) -> list[object]:
    """The constants that an argument of a config may be: its own, or those that a loop around it runs over."""
    if isinstance(value, ast.Constant):
        return [value.value]
    if not isinstance(value, ast.Name):
        return []
    for parent in source.ancestors(call):
        loops = parent.generators if isinstance(parent, ast.ListComp | ast.GeneratorExp) else []
        over = [(loop.target, loop.iter) for loop in loops]
        over += [(parent.target, parent.iter)] if isinstance(parent, ast.For) else []
        for target, values in over:
            if (found := _run_over(source, target, values, value.id)) is not None:
                return found
    set_to = [f.value for f in assignments(source.tree) if f.name == value.id]
    return [v.value for v in set_to if isinstance(v, ast.Constant)]


def _run_over(source: Source, target: ast.expr, values: ast.expr, name: str) -> list[object] | None:
    """The constants that a loop gives a name, None where it does not give it any."""
    if isinstance(target, ast.Name):
        return [row[0] for row in _rows(source, values)] if target.id == name else None
    names = [e.id if isinstance(e, ast.Name) else "" for e in getattr(target, "elts", ())]
    if name not in names:
        return None
    at = names.index(name)
    return [row[at] for row in _rows(source, values) if at < len(row)]


def _rows(source: Source, values: ast.expr) -> list[tuple[object, ...]]:
    """What is run over, one tuple a turn."""
    if isinstance(values, ast.Name):
        set_to = [f.value for f in assignments(source.tree) if f.name == values.id]
        (only,) = set_to if len(set_to) == 1 else (None,)
        return _rows(source, only) if only is not None and not isinstance(only, ast.Name) else []
    if isinstance(values, ast.Call) and last_name(values.func) == "product":
        columns = [[row[0] for row in _rows(source, each)] for each in values.args]
        return list(islice(product(*columns), _MOST_ROWS))
    if isinstance(values, ast.Call) and last_name(values.func) == "range":
        bounds = [a.value for a in values.args if isinstance(a, ast.Constant) and type(a.value) is int]
        readable = len(bounds) == len(values.args) and 1 <= len(bounds) <= 3 and bounds[2:] != [0]
        return [(each,) for each in islice(range(*bounds), _MOST_ROWS)] if readable else []
    if not isinstance(values, ast.List | ast.Tuple):
        return []
    rows: list[tuple[object, ...]] = []
    for element in values.elts:
        parts = element.elts if isinstance(element, ast.List | ast.Tuple) else [element]
        rows.append(tuple(part.value if isinstance(part, ast.Constant) else None for part in parts))
    return rows


def why_not_added_to(configs: Configs, line: int) -> str | None:
    """Why further configs cannot be written beside those of the decorator in this line, None where they can."""
    if isinstance(configs.expression, ast.List | ast.Tuple) and not configs.expression.elts:
        return f"line {configs.expression.lineno}: the list of configs is empty, so there is none to write others like"
    if not configs.are_read:
        return f"line {line}: no Config(...) is seen in what the autotune decorator is given"
    if all(not is_written_out(call) for call in configs.calls):
        last = max(configs.calls, key=lambda call: call.lineno)
        return f"line {last.lineno}: what the Config(...) gives is not written there: write out its kwargs"
    if not isinstance(configs.expression, _ADDED_TO):
        what = f"{_NAMES.get(type(configs.expression), 'such an expression')}, {ast.unparse(configs.expression)}"
        return f"line {configs.expression.lineno}: configs cannot be added to {what}; write a list"
    return None
