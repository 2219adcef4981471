"""How a parameter is added to a function as its author laid out the others. Must not know which is added."""

from __future__ import annotations

import libcst as cst

from warpsmith.source.layout import LINE_LENGTH


def with_parameter(function: cst.FunctionDef, code: str) -> cst.FunctionDef:
    """A last positional parameter, laid out as the ones before it."""
    new = cst.parse_statement(f"def f({code}): ...")
    assert isinstance(new, cst.FunctionDef)
    parameters = list(function.params.params)
    added = new.params.params[0]
    if parameters:
        last = parameters[-1]
        inner = parameters[-2].comma if len(parameters) > 1 else last.comma
        between = inner if isinstance(inner, cst.Comma) else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        added = added.with_changes(comma=last.comma, whitespace_after_param=last.whitespace_after_param)
        if isinstance(between.whitespace_after, cst.ParenthesizedWhitespace):
            space = between.whitespace_after.with_changes(first_line=_first_line(last), empty_lines=[])
            between = between.with_changes(whitespace_after=space)
            added = added.with_changes(comma=_without_comment(last.comma))
        parameters[-1] = last.with_changes(comma=between, whitespace_after_param=cst.SimpleWhitespace(""))
    return function.with_changes(params=function.params.with_changes(params=[*parameters, added]))


def fitted_parameters(function: cst.FunctionDef, column: int) -> cst.FunctionDef:
    """The function with its parameters, where they share a line that is too long, on a line each."""
    header = cst.Module(body=[]).code_for_node(
        function.with_changes(decorators=(), leading_lines=(), lines_after_decorators=())
    )
    line = header.partition("\n")[0]
    parameters = function.params.params
    if column + len(line) <= LINE_LENGTH or not line.rstrip().endswith(":") or not parameters:
        return function
    inner = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace("    "))
    closing = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(""))
    spread = [
        each.with_changes(comma=cst.Comma(whitespace_after=closing if each is parameters[-1] else inner))
        for each in parameters
    ]
    return function.with_changes(params=function.params.with_changes(params=spread), whitespace_before_params=inner)


def _first_line(last: cst.Param) -> cst.TrailingWhitespace:
    """The end of the last parameter's line, with its comment."""
    comma = last.comma
    if isinstance(comma, cst.Comma) and isinstance(comma.whitespace_after, cst.ParenthesizedWhitespace):
        return comma.whitespace_after.first_line
    return cst.TrailingWhitespace()


def _without_comment(comma: cst.Comma | cst.MaybeSentinel) -> cst.Comma | cst.MaybeSentinel:
    if isinstance(comma, cst.Comma) and isinstance(comma.whitespace_after, cst.ParenthesizedWhitespace):
        space = comma.whitespace_after.with_changes(first_line=cst.TrailingWhitespace())
        return comma.with_changes(whitespace_after=space)
    return comma
