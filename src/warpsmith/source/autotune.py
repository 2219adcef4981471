"""Adds configs to an autotune decorator, written as its author wrote the others. Must not know how they were found."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Mapping, Sequence

from warpsmith.source.configs import (
    CONFIG_OPTIONS,
    Configs,
    config_arguments,
    configs_of,
    is_written_out,
    why_not_added_to,
)
from warpsmith.source.editing import Edits
from warpsmith.source.launches import read
from warpsmith.source.layout import LINE_LENGTH
from warpsmith.source.refusal import NotApplicable
from warpsmith.source.syntax import Source, assignments, walk_scope

_WHY = "# measured to be faster on some shapes"
_STEP = "    "
_DEFAULTS: Mapping[str, object] = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None}


def add_configs(source: str, jit_function: str, configs: Sequence[Mapping[str, int]]) -> str:
    """The source whose tuner has these configs too: kernel arguments and options by name, such as {"num_warps": 8}.

    A config that the source lists by constants already is not added again. Raises NotApplicable, with the line,
    where the decorator's configs cannot be added to.
    """
    reading = read(source)
    jit = reading.jits.get(jit_function)
    if jit is None or jit.autotune is None:
        raise NotApplicable(f"{jit_function} has no autotune decorator in this source")
    line = jit.autotune.lineno
    if not jit.tuned_by_triton:
        raise NotApplicable(f"line {line}: {ast.unparse(jit.autotune.func)} is not Triton's own autotune")
    found = configs_of(reading.source, jit.autotune)
    if found is None:
        raise NotApplicable(f"line {line}: the autotune decorator names no configs")
    if (why := why_not_added_to(found, line)) is not None:
        raise NotApplicable(why)
    edits = Edits(source)
    style = _Style(edits, found)
    new = [config for config in configs if not any(_is(call, style.whole(config)) for call in found.calls)]
    if not new:
        return source
    written = [style.config(config) for config in new]
    _append(edits, found.expression, written, is_tuple=_is_tuple(reading.source, found.expression))
    return edits.apply()


def _is(call: ast.Call, config: Mapping[str, object]) -> bool:
    """Whether a config of the source is this one, as far as its constants tell."""
    given = config_arguments(call)
    values = {name: value.value for name, value in given.items() if isinstance(value, ast.Constant)}
    return is_written_out(call) and len(values) == len(given) and {**_DEFAULTS, **values} == {**_DEFAULTS, **config}


def _is_tuple(source: Source, expression: ast.expr) -> bool:
    """Whether configs are a tuple, to which no list can be added: written out, named, or as a function gives it."""
    if isinstance(expression, ast.Name):
        values = source.module_values.get(expression.id, [])
        return bool(values) and all(isinstance(value, ast.Tuple) for value in values)
    if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name):
        name = expression.func.id
        function = next((f for f in source.tree.body if isinstance(f, ast.FunctionDef) and f.name == name), None)
        returned = [n.value for n in walk_scope(function) if isinstance(n, ast.Return)] if function is not None else []
        return name == "tuple" or (bool(returned) and all(isinstance(value, ast.Tuple) for value in returned))
    if isinstance(expression, ast.BinOp):
        return _is_tuple(source, expression.right)
    return isinstance(expression, ast.Tuple)


class _Style:
    """How the last config of the source is written, for others to be written alike."""

    def __init__(self, edits: Edits, configs: Configs) -> None:
        self.edits = edits
        self.call = max(filter(is_written_out, configs.calls), key=lambda call: call.lineno)
        self.given = config_arguments(self.call)

    def whole(self, config: Mapping[str, int]) -> dict[str, object]:
        """All that the written config will give, as far as the author's is known."""
        own = {name: value.value for name, value in self.given.items() if isinstance(value, ast.Constant)}
        return {**own, **config}

    def config(self, config: Mapping[str, int]) -> str:
        """`Config(...)` with these values and whatever else the author gives his."""
        values = {name: str(config[name]) if name in config else self._own(name) for name in self.given}
        values |= {name: str(value) for name, value in config.items() if name not in values}
        options = [f"{name}={values[name]}" for name in self._options(values)]
        named = [k for k in self.call.keywords if k.arg not in (None, "kwargs", *CONFIG_OPTIONS)]
        options += [f"{keyword.arg}={self._text(keyword.value)}" for keyword in named]
        options += [f"pre_hook={self._text(each)}" for each in self.call.args[5:6]]
        kernel = {name: text for name, text in values.items() if name not in CONFIG_OPTIONS}
        return f"{self.edits.text(self.call.func)}({', '.join([self._kwargs(kernel), *options])})"

    def _options(self, values: Mapping[str, str]) -> list[str]:
        """In the author's order, what he does not give last."""
        keywords = [k.arg for k in self.call.keywords if k.arg in CONFIG_OPTIONS]
        return list(dict.fromkeys([*(k for k in keywords if k), *(name for name in CONFIG_OPTIONS if name in values)]))

    def _kwargs(self, kernel: Mapping[str, str]) -> str:
        named = next((k.value for k in self.call.keywords if k.arg == "kwargs"), None)
        own = named if named is not None else self.call.args[0]
        prefix = "kwargs=" if named is not None else ""
        if isinstance(own, ast.Call):
            return f"{prefix}{self.edits.text(own.func)}({', '.join(f'{n}={v}' for n, v in kernel.items())})"
        quote = "'" if "'" in self.edits.text(own) else '"'
        return f"{prefix}{{{', '.join(f'{quote}{n}{quote}: {v}' for n, v in kernel.items())}}}"

    def _own(self, name: str) -> str:
        value = self.given[name]
        if not isinstance(value, ast.Constant):
            raise NotApplicable(f"line {value.lineno}: the config gives {name} by {ast.unparse(value)}: name its value")
        return self.edits.text(value)

    def _text(self, value: ast.expr) -> str:
        """What a config gives besides, which must mean the same at the decorator."""
        reading = read(self.edits.source)
        scope = reading.source.scope_of(self.call)
        local = {n.id for p in reading.source.ancestors(self.call) for n in _targets(p)}
        inside = set[str]() if isinstance(scope, ast.Module) else {found.name for found in assignments(scope)}
        for node in ast.walk(value):
            if isinstance(node, ast.Name) and node.id in local | inside:
                raise NotApplicable(f"line {value.lineno}: the configs are given {node.id}, which is known only there")
        return self.edits.text(value)


def _targets(node: ast.AST) -> list[ast.Name]:
    """The names that a comprehension or loop sets."""
    loops = node.generators if isinstance(node, ast.ListComp | ast.GeneratorExp) else []
    over = [loop.target for loop in loops] + ([node.target] if isinstance(node, ast.For) else [])
    return [name for target in over for name in ast.walk(target) if isinstance(name, ast.Name)]


def _append(edits: Edits, expression: ast.expr, written: Sequence[str], *, is_tuple: bool) -> None:
    """Into a list that is written out, else as a list of their own that is added to it."""
    is_sum = isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Add)
    if is_sum and isinstance(expression, ast.BinOp) and isinstance(expression.right, ast.List | ast.Tuple):
        expression = expression.right
    if isinstance(expression, ast.List | ast.Tuple):
        edits.replace(expression, _longer(edits, expression, written))
        return
    indent = _indent_of(edits, expression.lineno)
    lines = "".join(_lines(written, indent + _STEP))
    opened, closed = "()" if is_tuple else "[]"
    edits.replace(expression, f"{edits.text(expression)} + {opened}\n{lines}{indent}{closed}")


def _longer(edits: Edits, display: ast.List | ast.Tuple, written: Sequence[str]) -> str:
    """A list or tuple with further elements, a line each, indented as the author's are."""
    text = edits.text(display)
    first_line = display.lineno
    opened, closed = text[0], text[-1]
    last = display.elts[-1]
    opening = _indent_of(edits, first_line)
    if last.lineno == first_line and display.end_lineno == first_line:
        elements = "".join(f"{opening}{_STEP}{edits.text(each)},\n" for each in display.elts)
        return f"{opened}\n{elements}{''.join(_lines(written, opening + _STEP))}{opening}{closed}"
    inner = opening + _STEP if display.elts[0].lineno == first_line else _indent_of(edits, display.elts[0].lineno)
    span, own = edits.span(last), edits.span(display)
    lines = edits.source.split("\n")[own[0] - 1 : own[2]]
    head = "\n".join([*lines[: span[2] - own[0]], lines[span[2] - own[0]][: span[3]]])[own[1] :]
    tail = text[len(head) : -1]
    comma = "" if _has_comma(tail) else ","
    return f"{head}{comma}{tail.rstrip()}\n{''.join(_lines(written, inner))}{opening}{closed}"


def _lines(written: Sequence[str], indent: str) -> list[str]:
    """The comment, and a line for each config; what is too long is spread."""
    return [f"{indent}{_WHY}\n", *(f"{indent}{_fitted(each, indent)},\n" for each in written)]


def _fitted(config: str, indent: str) -> str:
    if len(indent) + len(config) + 1 <= LINE_LENGTH:
        return config
    call = ast.parse(config, mode="eval").body
    assert isinstance(call, ast.Call)
    parts = [ast.get_source_segment(config, each) or "" for each in call.args]
    parts += [f"{k.arg}={ast.get_source_segment(config, k.value)}" for k in call.keywords]
    inner = "".join(f"{indent}{_STEP}{part},\n" for part in parts)
    return f"{ast.get_source_segment(config, call.func)}(\n{inner}{indent})"


def _indent_of(edits: Edits, line: int) -> str:
    text = edits.source.split("\n")[line - 1]
    return text[: len(text) - len(text.lstrip())]


def _has_comma(tail: str) -> bool:
    """Whether what follows the last element has a comma outside its comments."""
    tokens = tokenize.generate_tokens(io.StringIO(f"({tail}\n)").readline)
    return any(token.type == tokenize.OP and token.string == "," for token in tokens)
