"""Changes a source at nodes of its syntax tree, by libcst: everything else stays, comments and layout included.

Nodes are found again by where they stand. Owns layout. Must not know why a change is made.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from warpsmith.source.call_layout import append_argument, drop_argument, fitted, is_hugged, spread
from warpsmith.source.layout import (
    LINE_LENGTH,
    after_imports_index,
    led_by,
    statements,
    with_import,
    without_import,
)
from warpsmith.source.parameter_layout import fitted_parameters, with_parameter
from warpsmith.source.refusal import NotApplicable

#: (first line, column, last line, column), lines from 1, columns in characters.
Span = tuple[int, int, int, int]


@dataclass
class Edits:
    """What to change in one source. Code is given as text without indentation."""

    source: str
    after: dict[int, list[str]] = field(default_factory=dict)
    before: dict[int, list[str]] = field(default_factory=dict)
    entry: dict[int, list[str]] = field(default_factory=dict)
    replaced: dict[Span, str] = field(default_factory=dict)
    arguments: dict[Span, list[str]] = field(default_factory=dict)
    dropped_arguments: set[Span] = field(default_factory=set)
    parameters: dict[int, list[str]] = field(default_factory=dict)
    removed: set[int] = field(default_factory=set)
    comments: dict[int, str] = field(default_factory=dict)
    after_imports: list[str] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    dropped_imports: list[str] = field(default_factory=list)
    bare: set[Span] = field(default_factory=set)
    #: whether a statement that passes the line's end is broken, and one that need not be broken is joined
    fits: bool = False
    joins: bool = False
    #: whether what is added before a statement takes over the blank lines above it
    leads: bool = False

    def add_after(self, statement: ast.stmt, code: str) -> None:
        _add(self.after, statement.lineno, code)

    def add_before(self, statement: ast.stmt, code: str) -> None:
        _add(self.before, statement.lineno, code)

    def add_at_entry(self, function: ast.stmt, code: str) -> None:
        """At the start of a function's body, after its docstring."""
        _add(self.entry, function.lineno, code)

    def replace(self, node: ast.expr, code: str, *, bare: bool = False) -> None:
        """`bare` drops the parentheses around the expression; else they stay."""
        self.replaced[self.span(node)] = code
        if bare:
            self.bare.add(self.span(node))

    def add_argument(self, call: ast.Call, code: str) -> None:
        """`code` is one argument, such as "num_stages=3" or "**options"."""
        given = self.arguments.setdefault(self.span(call), [])
        if code not in given:
            given.append(code)

    def drop_argument(self, value: ast.expr) -> None:
        """Drops the argument of a call whose value this is, such as that of `**value`."""
        self.dropped_arguments.add(self.span(value))

    def add_parameter(self, function: ast.FunctionDef, code: str) -> None:
        """A further, last parameter, such as "STAGES: tl.constexpr = 1"."""
        _add(self.parameters, function.lineno, code)

    def remove(self, statement: ast.stmt) -> None:
        """With the comments and blank lines above it."""
        self.removed.add(statement.lineno)

    def comment(self, statement: ast.stmt, text: str) -> None:
        """A comment of its own line above a statement. `text` starts with "#"."""
        self.comments[statement.lineno] = text

    def span(self, node: ast.expr) -> Span:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return (
            node.lineno,
            self._column(node.lineno, node.col_offset),
            node.end_lineno,
            self._column(node.end_lineno, node.end_col_offset),
        )

    def text(self, node: ast.expr) -> str:
        """The source of an expression as it stands."""
        return ast.get_source_segment(self.source, node) or ast.unparse(node)

    def replacement(self, node: ast.expr) -> str:
        """What will stand in the place of an expression: its own text where nothing replaces it yet."""
        return self.replaced.get(self.span(node), self.text(node))

    def apply(self) -> str:
        """The changed source. Raises NotApplicable where a node is in a place that cannot be changed."""
        try:
            wrapper = MetadataWrapper(cst.parse_module(self.source), unsafe_skip_copy=True)
        except cst.ParserSyntaxError as error:
            why = f"libcst {version('libcst')} cannot read its syntax"
            raise NotApplicable(f"line {error.raw_line}: the source cannot be rewritten: {why}") from error
        editor = _Editor(self)
        try:
            changed = wrapper.visit(editor).code
        except cst.ParserSyntaxError as error:
            line = min(editor.waiting, default=1)
            raise NotApplicable(f"line {line}: the source cannot be rewritten: {error.message}") from error
        if editor.waiting:
            line = min(editor.waiting)
            raise NotApplicable(f"line {line}: the code stands where no statement can be added; split its line first")
        return changed

    def _column(self, line: int, offset_bytes: int) -> int:
        # str.splitlines also splits where Python does not, such as at a form feed
        text = self.source.split("\n")[line - 1] if not self.source.isascii() else ""
        return len(text.encode()[:offset_bytes].decode()) if text else offset_bytes


def _parsed(code: str) -> cst.BaseExpression:
    """An expression; one that can only stand in parentheses, as its own did, is given them."""
    try:
        return cst.parse_expression(code)
    except cst.ParserSyntaxError:
        return cst.parse_expression(f"({code})")


def _add(where: dict[int, list[str]], line: int, code: str) -> None:
    given = where.setdefault(line, [])
    if code not in given:
        given.append(code)


class _Editor(cst.CSTTransformer):
    """Applies edits while leaving nodes. `waiting` are the lines of edits whose node was not met."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, edits: Edits) -> None:
        super().__init__()
        self.edits = edits
        self.waiting = [
            *edits.after,
            *edits.before,
            *edits.entry,
            *edits.parameters,
            *edits.removed,
            *edits.comments,
            *(span[0] for span in (*edits.replaced, *edits.arguments, *edits.dropped_arguments)),
        ]
        self.lines = frozenset(self.waiting)

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Whether to look into a node: a statement without any edit in it stays as it is."""
        return not isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement) or self._has_edits(node)

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> object:  # type: ignore[override]
        updated = super().on_leave(original_node, updated_node)
        if isinstance(original_node, cst.BaseExpression):
            return self._expression(original_node, updated)
        if isinstance(original_node, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            return self._statement(original_node, updated)
        if isinstance(updated, cst.Module):
            return self._module(updated)
        return updated

    def _has_edits(self, statement: cst.CSTNode) -> bool:
        first, last = self._range(statement).start.line, self._range(statement).end.line
        for decorator in getattr(statement, "decorators", ()):
            first = min(first, self._range(decorator).start.line)
        return any(first <= line <= last for line in self.lines)

    def _range(self, node: cst.CSTNode) -> CodeRange:
        found: CodeRange = self.get_metadata(PositionProvider, node)
        return found

    def _span(self, node: cst.CSTNode) -> Span:
        where = self._range(node)
        if isinstance(node, cst.Tuple) and node.lpar:  # to `ast` its innermost parentheses are part of a tuple
            where = CodeRange(self._range(node.lpar[-1]).start, self._range(node.rpar[0]).end)
        return where.start.line, where.start.column, where.end.line, where.end.column

    def _line(self, node: cst.CSTNode) -> int:
        """The line that `ast` gives a statement: that of `def` or `class`, not of a decorator."""
        return self._range(node.name if isinstance(node, cst.FunctionDef | cst.ClassDef) else node).start.line

    def _met(self, line: int) -> None:
        self.waiting.remove(line)

    def _expression(self, original: cst.BaseExpression, updated: object) -> object:
        span = self._span(original)
        if span in self.edits.replaced:
            self._met(span[0])
            changed = _parsed(self.edits.replaced[span])
            lpar, rpar = original.lpar, original.rpar
            if isinstance(original, cst.Tuple):
                lpar, rpar = lpar[:-1], rpar[1:]
            if lpar and not changed.lpar and span not in self.edits.bare:
                changed = changed.with_changes(lpar=lpar, rpar=rpar)
            return changed
        if isinstance(original, cst.Call) and isinstance(updated, cst.Call) and self.edits.dropped_arguments:
            updated = self._without_dropped(original, updated)
        if isinstance(updated, cst.Call) and span in self.edits.arguments:
            self._met(span[0])
            added, hugged = self.edits.arguments[span], is_hugged(updated)
            for code in added:
                updated = append_argument(updated, code)
            line = span[2] if span[0] == span[2] else span[2] - 1
            width = len(self.edits.source.split("\n")[line - 1]) + sum(len(code) + 2 for code in added)
            if width > LINE_LENGTH and (span[0] == span[2] or (hugged and self.edits.fits)):
                updated = spread(updated)
        return updated

    def _without_dropped(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        """The call without the arguments that are to go."""
        for index, argument in reversed(list(enumerate(original.args))):
            span = self._span(argument.value)
            if span in self.edits.dropped_arguments:
                self._met(span[0])
                updated = drop_argument(updated, index)
        return updated

    def _statement(self, original: cst.CSTNode, updated: object) -> object:
        line = self._line(original)
        if (
            (self.edits.fits or self.edits.joins)
            and isinstance(updated, cst.SimpleStatementLine)
            and self._has_edits(original)
        ):
            updated = fitted(updated, self._range(original).start.column, join=self.edits.joins)
        if isinstance(updated, cst.FunctionDef):
            updated = self._function(line, updated, self._range(original).start.column)
        if line in self.edits.removed:
            self._met(line)
            return cst.RemoveFromParent()
        if line in self.edits.comments:
            self._met(line)
            assert isinstance(updated, cst.SimpleStatementLine | cst.BaseCompoundStatement)
            comment = cst.EmptyLine(comment=cst.Comment(self.edits.comments[line]))
            updated = updated.with_changes(leading_lines=[*getattr(updated, "leading_lines", ()), comment])
        before, after = self.edits.before.get(line), self.edits.after.get(line)
        if before is None and after is None:
            return updated
        for _ in filter(None, (before, after)):
            self._met(line)
        assert isinstance(updated, cst.BaseStatement)
        first = statements(before or ())
        if first and self.edits.leads:
            first[0], updated = led_by(first[0], updated)
        return cst.FlattenSentinel([*first, updated, *statements(after or ())])

    def _function(self, line: int, function: cst.FunctionDef, column: int) -> cst.FunctionDef:
        if line in self.edits.parameters:
            self._met(line)
            for code in self.edits.parameters[line]:
                function = with_parameter(function, code)
            if self.edits.fits:
                function = fitted_parameters(function, column)
        if line in self.edits.entry and isinstance(function.body, cst.IndentedBlock):
            self._met(line)
            start = 1 if function.get_docstring() is not None else 0
            body = [*function.body.body[:start], *statements(self.edits.entry[line]), *function.body.body[start:]]
            function = function.with_changes(body=function.body.with_changes(body=body))
        return function

    def _module(self, module: cst.Module) -> cst.Module:
        for name in self.edits.imports:
            module = with_import(module, name)
        for name in self.edits.dropped_imports:
            module = without_import(module, name)
        if not self.edits.after_imports:
            return module
        index = after_imports_index(module.body)
        new: Sequence[cst.BaseStatement] = statements(self.edits.after_imports)
        if index == 0:
            new = [new[0].with_changes(leading_lines=[]), *new[1:]]
        return module.with_changes(body=[*module.body[:index], *new, *module.body[index:]])
