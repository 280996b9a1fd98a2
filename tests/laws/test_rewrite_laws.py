"""Laws of repairs: the result is Python, nothing is done twice, comments stay, and so does every other line."""

from __future__ import annotations

import ast
import io
import tokenize

from hypothesis import given
from hypothesis import strategies as st

from whyidle.lint.repair import Change, Import, Insert, Remove, Repair, Replace, SetArguments, Wrap
from whyidle.lint.rewrite import rewrite

NAMES = st.sampled_from(["a", "loss", "größe", "x1"])
SPACES = st.sampled_from(["", "  # why", "  # größer 🙂"])


@st.composite
def calls(draw: st.DrawFn) -> str:
    """Return a call in one of the layouts that people write, with comments where these can stand."""
    args = draw(st.lists(st.sampled_from(["ds", "4", "'é'", "key=1", "num_workers=0", "f(a, b)"]), max_size=4))
    args = [arg for arg in args if "=" not in arg] + list(dict.fromkeys(arg for arg in args if "=" in arg))
    args += draw(st.sampled_from([[], ["**more"]]))
    layout = draw(st.sampled_from(["line", "lines", "aligned"]))
    if layout == "line" or not args:
        return f"DataLoader({', '.join(args)})"
    if layout == "aligned":
        return "DataLoader(" + ",\n               ".join(args) + ")"
    comments = [draw(SPACES) for _ in args]
    last = draw(st.sampled_from(["", ","]))
    lines = [f"    {arg},{comment}" for arg, comment in zip(args[:-1], comments, strict=False)]
    return "\n".join(["DataLoader(", *lines, f"    {args[-1]}{last}{comments[-1]}", ")"])


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Return a small program with calls that repairs can change."""
    lines = draw(st.sampled_from([[], ["# alone"], ['"""Doc."""', ""], ["import os"]]))
    for _ in range(draw(st.integers(1, 4))):
        name, code = draw(NAMES), draw(calls())
        block = [*f"{name} = {code}{draw(SPACES)}".split("\n"), *draw(st.sampled_from([[], [""], ["# alone"]]))]
        header = draw(st.sampled_from(["", "for i in x:", f"if {name}:  # when"]))
        lines += [header, *(f"\t{line}" if line else "" for line in block)] if header else block
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines) + draw(st.sampled_from(["", "\n"]))


def comments(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def first_call(text: str) -> tuple[ast.stmt, ast.Call]:
    tree = ast.parse(text)
    assigned = next(node for node in ast.walk(tree) if isinstance(node, ast.Assign))
    assert isinstance(assigned.value, ast.Call)
    return assigned, assigned.value


@given(programs(), st.sampled_from([{"num_workers": "4"}, {"pin_memory": "True", "num_workers": "cpu - 1"}]))
def test_arguments(text: str, arguments: dict[str, str]) -> None:
    statement, node = first_call(text)
    done = rewrite(text, [Repair((SetArguments(node, arguments),), safe=True)])
    assert not done.skipped
    new_statement, new = first_call(done.text)
    given_now = {word.arg: ast.unparse(word.value) for word in new.keywords}
    assert arguments.items() <= given_now.items()
    before = {word.arg: ast.unparse(word.value) for word in node.keywords}
    assert {name: code for name, code in given_now.items() if name not in arguments} == {
        name: code for name, code in before.items() if name not in arguments
    }
    assert comments(done.text) == comments(text)
    again = rewrite(done.text, [Repair((SetArguments(new, arguments),), safe=True)])
    assert again.text == done.text
    lines, new_lines = text.splitlines(), done.text.splitlines()
    assert new_lines[: statement.lineno - 1] == lines[: statement.lineno - 1]
    assert new_lines[new_statement.end_lineno :] == lines[statement.end_lineno :]
    assert ("\r\n" in done.text) == ("\r\n" in text)


@given(programs(), st.sampled_from(["insert", "after", "replace", "remove", "wrap", "import"]))
def test_changes(text: str, kind: str) -> None:
    statement, node = first_call(text)
    change: dict[str, Change] = {
        "insert": Insert(statement, "new = 1"),
        "after": Insert(statement, "new = 1", after=True),
        "replace": Replace(node.func, "other"),
        "remove": Remove(statement),
        "wrap": Wrap(statement, statement, "with y:"),
        "import": Import("import torch"),
    }
    done = rewrite(text, [Repair((change[kind],), safe=True)])
    assert not done.skipped
    assert ast.dump(ast.parse(done.text)) != ast.dump(ast.parse(text))
    kept = comments(done.text)
    own = comments("".join(text.splitlines(keepends=True)[statement.lineno - 1 : statement.end_lineno]).strip())
    if kind == "remove":
        assert len(comments(text)) - len(own) <= len(kept)
    else:
        assert kept == comments(text)
    if kind in {"insert", "after", "import"}:  # what is added is all that differs
        lines = done.text.splitlines()
        assert [line for line in lines if line.strip() not in {"new = 1", "import torch"} and line.strip()] == [
            line for line in text.splitlines() if line.strip()
        ]


@given(programs())
def test_repairs_of_one_place_come_one_after_the_other(text: str) -> None:
    for _ in range(3):
        _, node = first_call(text)
        wanted = ({"num_workers": "4"}, {"pin_memory": "True"})
        done = rewrite(text, [Repair((SetArguments(node, one),), safe=True) for one in wanted])
        text = done.text
    assert not done.applied
    assert {"num_workers", "pin_memory"} <= {word.arg for word in first_call(text)[1].keywords}
