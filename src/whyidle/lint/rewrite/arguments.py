"""Keyword arguments of a call, set and dropped in the layout that the call has."""

from __future__ import annotations

import ast

import libcst as cst

from whyidle.lint.repair import SetArguments
from whyidle.lint.rewrite.places import Refused, Text
from whyidle.lint.rewrite.splice import Splice, narrowed

_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def arguments_set(text: Text, change: SetArguments) -> Splice:
    """Return what sets and drops arguments. Only the call is parsed again: a large file takes seconds."""
    start, end = text.span(change.call)
    before = text.text[start:end]
    newline = "\r\n" if "\r\n" in before else "\n"
    plain = before.replace(newline, "\n")
    if "\r" in plain or plain.replace("\n", newline) != before:
        raise Refused("its lines end in several ways")
    try:
        call = cst.parse_expression(f"({plain})")
    except cst.ParserSyntaxError:
        raise Refused("libcst does not know this syntax") from None
    if not isinstance(call, cst.Call):
        raise Refused("it is no call")
    for name in change.drop:
        call = _without(call, name)
    after = _code(_all_set(call, change))
    if _ends_in_comment(call) or (len(call.args) > 1 and _is_too_long(text, change.call, after)):
        after = _code(_all_set(call, change, _indent(text, change.call)))
    return narrowed(start, before, after.replace("\n", newline))


def _code(call: cst.Call) -> str:
    return cst.Module([]).code_for_node(call)[1:-1]


def _all_set(call: cst.Call, change: SetArguments, indent: str | None = None) -> cst.Call:
    for name, code in change.arguments.items():
        call = _with(call, cst.Arg(cst.parse_expression(code), keyword=cst.Name(name), equal=_EQUAL), indent)
    return call


def _is_too_long(text: Text, call: ast.Call, after: str) -> bool:
    """Say whether a line of a call gets longer than it should by what is added."""
    start, end = text.span(call)
    first, last = text.line_start(call.lineno), text.line_end(call.end_lineno or call.lineno)
    old = text.text[first:last].replace("\r", "").split("\n")
    new = (text.text[first:start] + after + text.text[end:last]).replace("\r", "").split("\n")
    return any(len(line) > text.width for line in new if line not in old)


def _indent(text: Text, call: ast.Call) -> str:
    """Return what stands before further arguments in a line of their own: below the first, or as far in as the last."""
    parts: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    places = sorted((part.lineno, part.col_offset) for part in parts)
    line, column = places[0]
    if line == (call.func.end_lineno or call.func.lineno):
        return " " * (text.offset(line, column) - text.line_start(line))
    last = text.line(places[-1][0])
    return last[: len(last) - len(last.lstrip())]


def _keyword(arg: cst.Arg) -> str:
    return arg.keyword.value if arg.keyword else ""


def _with(call: cst.Call, new: cst.Arg, indent: str | None) -> cst.Call:
    """Return a call with an argument; an indent puts it in a line of its own."""
    args = list(call.args)
    for place, arg in enumerate(args):
        if _keyword(arg) == _keyword(new):
            args[place] = arg.with_changes(value=new.value)
            return call.with_changes(args=args)
    separator = _separator(call) if indent is None else _new_line(indent)
    place = len(args)
    while place and args[place - 1].star == "**":
        place -= 1
    if place < len(args):  # before **kwargs, which goes on to the next line as it did
        args.insert(place, new.with_changes(comma=separator))
    elif args:
        args[-1], new = _appended(args[-1], new, separator)
        args.append(new)
    else:
        args = [new]
    return call.with_changes(args=args)


def _appended(last: cst.Arg, new: cst.Arg, separator: cst.Comma) -> tuple[cst.Arg, cst.Arg]:
    """Return the last argument and a new one behind it; a comment behind the last stays with it."""
    between = separator.whitespace_after
    if isinstance(last.comma, cst.Comma):  # what stood before the closing bracket stands there again
        tail = last.comma.whitespace_after
        return (
            last.with_changes(comma=last.comma.with_changes(whitespace_after=_after_comment(tail, between))),
            new.with_changes(comma=cst.Comma(whitespace_after=_without_comment(tail))),
        )
    tail = last.whitespace_after_arg
    return (
        last.with_changes(
            comma=cst.Comma(whitespace_after=_after_comment(tail, between)),
            whitespace_after_arg=cst.SimpleWhitespace(""),
        ),
        new.with_changes(whitespace_after_arg=_without_comment(tail)),
    )


def _separator(call: cst.Call) -> cst.Comma:
    """Return a comma as this call has them: with a new line behind it where each argument has its line."""
    spaces = [call.whitespace_before_args]
    spaces += [arg.comma.whitespace_after for arg in call.args[:-1] if isinstance(arg.comma, cst.Comma)]
    if isinstance(spaces[-1], cst.ParenthesizedWhitespace):
        return cst.Comma(whitespace_after=_without_comment(spaces[-1]))
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def _new_line(indent: str) -> cst.Comma:
    return cst.Comma(whitespace_after=cst.ParenthesizedWhitespace(last_line=cst.SimpleWhitespace(indent)))


def _tail(arg: cst.Arg) -> cst.BaseParenthesizableWhitespace:
    """Return what stands behind an argument and its comma."""
    return arg.comma.whitespace_after if isinstance(arg.comma, cst.Comma) else arg.whitespace_after_arg


def _ends_in_comment(call: cst.Call) -> bool:
    """Say whether a comment stands behind the last argument, so that another one needs a line of its own."""
    tail = _tail(call.args[-1]) if call.args else None
    return isinstance(tail, cst.ParenthesizedWhitespace) and _comments(tail)


def _without_comment(space: cst.BaseParenthesizableWhitespace) -> cst.BaseParenthesizableWhitespace:
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    return space.with_changes(first_line=cst.TrailingWhitespace(cst.SimpleWhitespace("")), empty_lines=())


def _after_comment(
    tail: cst.BaseParenthesizableWhitespace, between: cst.BaseParenthesizableWhitespace
) -> cst.BaseParenthesizableWhitespace:
    """Return what separates two arguments, with the comments that stood behind the first."""
    if not isinstance(tail, cst.ParenthesizedWhitespace) or not _comments(tail):
        return between
    last = between.last_line if isinstance(between, cst.ParenthesizedWhitespace) else tail.last_line
    return tail.with_changes(last_line=last)


def _comments(space: cst.ParenthesizedWhitespace) -> bool:
    return bool(space.first_line.comment) or any(line.comment for line in space.empty_lines)


def _without(call: cst.Call, name: str) -> cst.Call:
    place = next((place for place, arg in enumerate(call.args) if _keyword(arg) == name), None)
    if place is None:
        return call
    args = list(call.args)
    gone = args.pop(place)
    tail = _tail(gone)
    if isinstance(tail, cst.ParenthesizedWhitespace) and _comments(tail):
        raise Refused("a comment stands with the argument that has to go")
    if place and place == len(args):  # the one before is the last now, and ends as the one that is gone did
        args[-1] = _ending(args[-1], gone)
    if not args:
        return call.with_changes(args=(), whitespace_before_args=cst.SimpleWhitespace(""))
    return call.with_changes(args=args)


def _ending(arg: cst.Arg, like: cst.Arg) -> cst.Arg:
    """Return an argument that ends as another did, with its own comments."""
    own = _tail(arg)
    if isinstance(like.comma, cst.Comma):
        end = _after_comment(own, like.comma.whitespace_after)
        return arg.with_changes(comma=like.comma.with_changes(whitespace_after=end))
    return arg.with_changes(comma=like.comma, whitespace_after_arg=_after_comment(own, like.whitespace_after_arg))
