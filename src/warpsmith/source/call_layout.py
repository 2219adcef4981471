"""How a call's arguments are laid out: on one line, sharing the line below, or each on a line of its own.

A formatter's rules, so that what is written is formatted where the source was.
"""

from __future__ import annotations

import libcst as cst

from warpsmith.source.layout import LINE_LENGTH


def append_argument(call: cst.Call, code: str) -> cst.Call:
    """The call with one more, last argument, on a line of its own where the others have theirs."""
    wrapped = cst.parse_expression(f"f({code})")
    assert isinstance(wrapped, cst.Call)
    new = wrapped.args[0]
    if not call.args:
        return call.with_changes(args=[new])
    *others, last = call.args
    if isinstance(last.comma, cst.Comma):
        closing = last.comma.whitespace_after
        inner = _inner_space(call)
        if isinstance(closing, cst.ParenthesizedWhitespace) and inner is not None:
            between: cst.BaseParenthesizableWhitespace = closing.with_changes(
                last_line=inner.last_line, indent=inner.indent
            )
            closing = closing.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=[])
        else:
            between = cst.SimpleWhitespace(" ")
        new = new.with_changes(comma=last.comma.with_changes(whitespace_after=closing))
        last = last.with_changes(comma=last.comma.with_changes(whitespace_after=between))
    else:
        space: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace(" ")
        if isinstance(call.whitespace_before_args, cst.ParenthesizedWhitespace) and not others:
            space = call.whitespace_before_args
        elif others and isinstance(others[-1].comma, cst.Comma):
            space = others[-1].comma.whitespace_after
        new = new.with_changes(whitespace_after_arg=last.whitespace_after_arg)
        last = last.with_changes(comma=cst.Comma(whitespace_after=space), whitespace_after_arg=cst.SimpleWhitespace(""))
    return call.with_changes(args=[*others, last, new])


def drop_argument(call: cst.Call, index: int) -> cst.Call:
    """The call without one argument; what closes the list stays as it was."""
    arguments = list(call.args)
    dropped = arguments.pop(index)
    if arguments and index == len(arguments):
        last, comma = arguments[-1], dropped.comma
        if isinstance(comma, cst.Comma) and isinstance(last.comma, cst.Comma):
            space, own = comma.whitespace_after, last.comma.whitespace_after
            if isinstance(space, cst.ParenthesizedWhitespace) and isinstance(own, cst.ParenthesizedWhitespace):
                comma = comma.with_changes(whitespace_after=space.with_changes(first_line=own.first_line))
        arguments[-1] = last.with_changes(comma=comma, whitespace_after_arg=dropped.whitespace_after_arg)
    return call.with_changes(args=arguments)


def spread(call: cst.Call) -> cst.Call:
    """The call with each argument on a line of its own."""
    inner = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace("    "))
    closing = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(""))
    arguments = [
        argument.with_changes(
            comma=cst.Comma(whitespace_after=closing if argument is call.args[-1] else inner),
            whitespace_after_arg=cst.SimpleWhitespace(""),
        )
        for argument in call.args
    ]
    return call.with_changes(args=arguments, whitespace_before_args=inner)


def fitted(statement: cst.SimpleStatementLine, column: int, *, join: bool) -> cst.SimpleStatementLine:
    """The statement with the arguments of its call, if they share a line, laid out so that no line is too long.

    `join` puts them on the line above where they fit, which is where a formatter has them.
    """
    whole = statement.body[0]
    if len(statement.body) > 1 or not isinstance(whole, cst.Expr | cst.Assign | cst.Return):
        return statement
    call = whole.value
    if not isinstance(call, cst.Call) or not call.args or _code(call).count("\n") != 2 * is_hugged(call):
        return statement
    flat = _joined(call)
    for laid_out in (flat if join else call, _hugged(flat), spread(flat)):
        lines = _code(whole.with_changes(value=laid_out)).split("\n")
        if column + max(map(len, lines)) <= LINE_LENGTH:
            return statement.with_changes(body=[whole.with_changes(value=laid_out)])
    return statement


def is_hugged(call: cst.Call) -> bool:
    """Whether a call's arguments share one line, which its parentheses are not on."""
    spaces = [argument.comma.whitespace_after for argument in call.args if isinstance(argument.comma, cst.Comma)]
    return isinstance(call.whitespace_before_args, cst.ParenthesizedWhitespace) and not any(
        isinstance(space, cst.ParenthesizedWhitespace) for space in spaces
    )


def _joined(call: cst.Call) -> cst.Call:
    """The call with its arguments on the line that it starts on."""
    if not is_hugged(call):
        return call
    *others, last = call.args
    last = last.with_changes(comma=cst.MaybeSentinel.DEFAULT, whitespace_after_arg=cst.SimpleWhitespace(""))
    return call.with_changes(args=[*others, last], whitespace_before_args=cst.SimpleWhitespace(""))


def _hugged(call: cst.Call) -> cst.Call:
    """A call on one line, with its arguments sharing the line below."""
    inner = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace("    "))
    closing = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(""))
    *others, last = call.args
    return call.with_changes(
        args=[*others, last.with_changes(whitespace_after_arg=closing)], whitespace_before_args=inner
    )


def _code(node: cst.CSTNode) -> str:
    return cst.Module(body=[]).code_for_node(node)


def _inner_space(call: cst.Call) -> cst.ParenthesizedWhitespace | None:
    """The line break before an argument of a call that is spread over lines."""
    if isinstance(call.whitespace_before_args, cst.ParenthesizedWhitespace):
        return call.whitespace_before_args
    for argument in call.args[:-1]:
        if isinstance(argument.comma, cst.Comma) and isinstance(
            argument.comma.whitespace_after, cst.ParenthesizedWhitespace
        ):
            return argument.comma.whitespace_after
    return None
