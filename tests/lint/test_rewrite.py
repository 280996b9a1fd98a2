"""What repairs make of a text: the change, in the layout that is there, and nothing else."""

from __future__ import annotations

import ast
import sys
from textwrap import dedent

import pytest

from tests.lint.pointed import call, expression, made, refused, statement
from whyidle.lint.repair import Import, Insert, Remove, Repair, Replace, SetArguments, Wrap
from whyidle.lint.rewrite import rewrite


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = DataLoader()\n", "x = DataLoader(num_workers=4)\n"),
        ("x = DataLoader(ds)\n", "x = DataLoader(ds, num_workers=4)\n"),
        ("x = DataLoader(ds, num_workers = 0, seed=1)", "x = DataLoader(ds, num_workers = 4, seed=1)"),
        ("x = DataLoader(ds, **more)\n", "x = DataLoader(ds, num_workers=4, **more)\n"),
        ("x = (torch.utils\n  .DataLoader(ds))\n", "x = (torch.utils\n  .DataLoader(ds, num_workers=4))\n"),
        ("é = 'ü'; x = DataLoader('ß', ds); y = 'ö'\n", "é = 'ü'; x = DataLoader('ß', ds, num_workers=4); y = 'ö'\n"),
        ("x = DataLoader(\n    ds,\n)\n", "x = DataLoader(\n    ds,\n    num_workers=4,\n)\n"),
        ("x = DataLoader(\n    ds\n)\n", "x = DataLoader(\n    ds,\n    num_workers=4\n)\n"),
        ("x = DataLoader(\r\n\tds,\r\n)\r\n", "x = DataLoader(\r\n\tds,\r\n\tnum_workers=4,\r\n)\r\n"),
        ("x = DataLoader(\n    ds, seed=1\n)\n", "x = DataLoader(\n    ds, seed=1, num_workers=4\n)\n"),
        (
            "x = DataLoader(ds,\n               seed=1)\n",
            "x = DataLoader(ds,\n               seed=1,\n               num_workers=4)\n",
        ),
        (
            "x = DataLoader(\n    ds,  # set\n    # four\n    seed=1,  # fixed\n    # end\n)\n",
            "x = DataLoader(\n    ds,  # set\n    # four\n    seed=1,  # fixed\n    # end\n    num_workers=4,\n)\n",
        ),
        (
            "x = DataLoader(\n    ds,\n    seed=1  # fixed\n)\n",
            "x = DataLoader(\n    ds,\n    seed=1,  # fixed\n    num_workers=4\n)\n",
        ),
        (
            "x = DataLoader(\n    ds,\n    **more,\n)\n",
            "x = DataLoader(\n    ds,\n    num_workers=4,\n    **more,\n)\n",
        ),
    ],
)
def test_an_argument_comes_in_the_layout_of_the_call(before: str, after: str) -> None:
    assert made(before, SetArguments(call(ast.parse(before), "DataLoader"), {"num_workers": "4"})) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("o.zero_grad(set_to_none=False)  # as ever\n", "o.zero_grad()  # as ever\n"),
        ("o.zero_grad(a, set_to_none=False)\n", "o.zero_grad(a)\n"),
        ("o.zero_grad(set_to_none=False, a=1)\n", "o.zero_grad(a=1)\n"),
        ("o.zero_grad(\n    a,  # one\n    set_to_none=False,\n)\n", "o.zero_grad(\n    a,  # one\n)\n"),
        ("o.zero_grad(\n    set_to_none=False\n)\n", "o.zero_grad()\n"),
        ("o.zero_grad(a)\n", "o.zero_grad(a)\n"),
    ],
)
def test_an_argument_goes(before: str, after: str) -> None:
    change = SetArguments(call(ast.parse(before), "zero_grad"), {}, drop=("set_to_none",))
    assert rewrite(before, [Repair((change,), safe=True)]).text == after


def test_an_argument_with_a_comment_of_its_own_stays() -> None:
    text = "o.zero_grad(\n    a,\n    set_to_none=False,  # for the hooks\n)\n"
    change = SetArguments(call(ast.parse(text), "zero_grad"), {}, drop=("set_to_none",))
    assert refused(text, change) == "a comment stands with the argument that has to go"


@pytest.mark.parametrize(
    ("before", "node", "code", "after"),
    [
        ("t += loss.item()  # sum\n", "loss.item()", "loss.detach()", "t += loss.detach()  # sum\n"),
        ("t = 2 * loss.item()\n", "loss.item()", "a + b", "t = 2 * (a + b)\n"),
        ("t = loss.item()\n", "loss.item()", "a + b", "t = a + b\n"),
        ("f(loss.item(), k=loss.item())\n", "loss.item()", "a + b", "f(a + b, k=loss.item())\n"),
        ("f(loss.item())\n", "loss.item()", "a, b", "f((a, b))\n"),
        ("x = {'a': loss.item()}\n", "loss.item()", "4", "x = {'a': 4}\n"),
        ("loss.item().real\n", "loss.item()", "4", "(4).real\n"),
        ("loss.item()()\n", "loss.item()", "a or b", "(a or b)()\n"),
        ("print(f'é {loss.item():.3f} ß')\n", "loss.item()", "total", "print(f'é {total:.3f} ß')\n"),
    ],
)
def test_an_expression_is_replaced(before: str, node: str, code: str, after: str) -> None:
    assert made(before, Replace(expression(ast.parse(before), node), code)) == after


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="from 3.12 on places in f-strings are right")
def test_a_place_that_python_tells_wrong_is_left_alone() -> None:
    text = 'print(f"""\n  {loss.item()} and {loss.item()}\n""")\n'
    wrong = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and "item" in ast.unparse(node)]
    for node in wrong[1:]:
        done = rewrite(text, [Repair((Replace(node, "total"),), safe=True)])
        assert done.skipped or "total" in ast.unparse(ast.parse(done.text))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a()\nsync()  # wait\nb()\n", "a()\nb()\n"),
        ("a()\n# why\nsync()\n\nb()\n", "a()\n# why\n\nb()\n"),
        ("if x:\n    sync()  # wait\n", "if x:\n    pass  # wait\n"),
        ("if x: sync()\n", "if x: pass\n"),
        ("if x:\n    a()\n    sync()", "if x:\n    a()\n"),
        ("sync(\n    1,\n)\r\nb()\r\n", "b()\r\n"),
    ],
)
def test_a_statement_is_removed(before: str, after: str) -> None:
    assert made(before, Remove(statement(ast.parse(before), "sync"))) == after


@pytest.mark.parametrize("text", ["a(); sync()\n", "sync(); a()\n", "if x: a(); sync()\n", "a(); \\\n sync()\n"])
def test_a_statement_that_shares_its_line_stays(text: str) -> None:
    assert refused(text, Remove(statement(ast.parse(text), "sync"))) == "it shares its line with another statement"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f():\n\ta()\n\treturn t\n", "def f():\n\ta()\n\tt = float(t)\n\treturn t\n"),
        ("if x:\n    # a\n    # b\n    show(t)\n", "if x:\n    t = float(t)\n    # a\n    # b\n    show(t)\n"),
        ("#!/bin/python\n# coding: utf-8\nshow(t)\n", "#!/bin/python\n# coding: utf-8\nt = float(t)\nshow(t)\n"),
    ],
)
def test_a_statement_comes_before_another_and_its_comment(before: str, after: str) -> None:
    tree = ast.parse(before)
    place = statement(tree, "return" if "return" in before else "show")
    assert made(before, Insert(place, "t = float(t)")) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import a  # one\nb()", "import a  # one\nx = 1\nif x:\n    y()\nb()"),
        ("for i in x:\r\n    import a", "for i in x:\r\n    import a\r\n    x = 1\r\n    if x:\r\n        y()"),
    ],
)
def test_statements_come_after_another(before: str, after: str) -> None:
    new = "\n    x = 1\n    if x:\n        y()\n"
    assert made(before, Insert(statement(ast.parse(before), "import a"), new, after=True)) == after


def test_nothing_is_put_before_an_elif() -> None:
    text = "if a:\n    b()\nelif c:\n    d()\n"
    assert refused(text, Insert(statement(ast.parse(text), "if c"), "e()")) == "it is the `elif` of another statement"
    assert "empty" in refused(text, Remove(statement(ast.parse(text), "if c")))


def test_statements_go_below_a_header() -> None:
    text = "for x in y:\n  z()\n  # forward\n  a = f(\n    x,\n  )\n\n  # loss\n  loss = g(a)\n  loss.backward()\n"
    tree = ast.parse(text)
    change = Wrap(statement(tree, "a ="), statement(tree, "loss ="), "with autocast():")
    after = "for x in y:\n  z()\n  # forward\n  with autocast():\n    a = f(\n      x,\n    )\n\n"
    after += "    # loss\n    loss = g(a)\n"
    assert made(text, change) == after + "  loss.backward()\n"


def test_a_text_of_several_lines_is_not_indented() -> None:
    text = 'a = 1\nb = """\n  one\n"""\nc = (\n    "x"\n    "y"\n)\n'
    tree = ast.parse(text)
    a, b, c = tree.body
    assert "text of several lines" in refused(text, Wrap(a, b, "if x:"))  # type: ignore[arg-type]
    assert made(text, Wrap(c, c, "if x:")).endswith('if x:\n    c = (\n        "x"\n        "y"\n    )\n')
    assert "one block" in refused(text, Wrap(b, a, "if x:"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch.nn\n", None),
        ("from x import y\nimport torch\n", None),
        ("import torch as th\n\nx = 1\n", "import torch as th\nimport torch\n\nx = 1\n"),
        ('"""Doc."""\n\nx = 1\n', '"""Doc."""\n\nimport torch\n\nx = 1\n'),
        ("#!/usr/bin/python\nx = 1\n", "#!/usr/bin/python\nimport torch\nx = 1\n"),
        (
            '"""D."""\nfrom __future__ import division\n\nimport o\nfrom a import (\n  b,\n)\n\nx = 1\n',
            '"""D."""\nfrom __future__ import division\n\nimport o\nfrom a import (\n  b,\n)\nimport torch\n\nx = 1\n',
        ),
    ],
)
def test_an_import_comes_behind_the_others(before: str, after: str | None) -> None:
    if after is None:
        assert refused(before, Import("import torch")) == "it is done already"
    else:
        assert made(before, Import("import torch")) == after


def test_the_first_of_two_repairs_of_one_place_is_made() -> None:
    text = "x = DataLoader(ds)\ny = f(x)\n"
    tree = ast.parse(text)
    loader = call(tree, "DataLoader")
    one = Repair((SetArguments(loader, {"num_workers": "4"}),), safe=True)
    two = Repair((SetArguments(loader, {"pin_memory": "True"}),), safe=True)
    three = Repair((Replace(expression(tree, "f(x)"), "g(x)"),), safe=True)
    same = Repair((SetArguments(loader, {"num_workers": "4"}),), safe=True)
    done = rewrite(text, [one, two, three, same])
    assert done.text == "x = DataLoader(ds, num_workers=4)\ny = g(x)\n"
    assert done.applied == (one, three, same)
    assert done.skipped == ((two, "another fix changes the same place"),)


def test_repairs_share_an_import() -> None:
    text = "import os\na(x)\nb(x)\n"
    tree = ast.parse(text)
    repairs = [
        Repair((Import("import torch"), Replace(expression(tree, name), f"torch.{name}")), safe=True)
        for name in ("a(x)", "b(x)")
    ]
    assert rewrite(text, repairs).text == "import os\nimport torch\ntorch.a(x)\ntorch.b(x)\n"


def test_a_repair_of_another_text_is_not_made() -> None:
    change = Replace(expression(ast.parse("x = loss.item()\n"), "loss.item()"), "0")
    assert refused("y = other.get()\n", change) == "the code there is not what was looked at"


def test_what_would_be_no_python_is_left_out_alone() -> None:
    text = "a = f(x)\nb = g(x)\n"
    tree = ast.parse(text)
    good = Repair((Replace(expression(tree, "g(x)"), "h(x)"),), safe=True)
    bad = Repair((Insert(statement(tree, "a ="), "if x:"),), safe=True)
    done = rewrite(text, [bad, good])
    assert done.text == "a = f(x)\nb = h(x)\n"
    assert done.skipped == ((bad, "the result would not be Python"),)


def test_only_the_call_is_parsed_again_of_a_large_file() -> None:
    text = "x = 1\n" * 20_000 + "loader = DataLoader(ds)\n"
    assert made(text, SetArguments(call(ast.parse(text), "DataLoader"), {"num_workers": "4"})).endswith("=4)\n")


def test_a_form_feed_ends_no_line() -> None:
    text = dedent("""
        def f():
            a()
        \f
        def g():
            sync()
            b()
    """)
    assert made(text, Remove(statement(ast.parse(text), "sync"))) == text.replace("    sync()\n", "")


PARTS = "data_set=train_set, batch_size=options.batch_size, shuffle=options.shuffle_it"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"x = Loader({PARTS})\n", f"x = Loader({PARTS},\n           num_workers=4)\n"),
        (f"x = Loader(ds, {PARTS})\n", f"x = Loader(ds, {PARTS},\n           num_workers=4)\n"),
        (f"x = [\r\n\tLoader(\r\n\t\t{PARTS}\r\n\t)]\r\n", None),
        (f"if x:\n    x = Loader(\n        {PARTS}, # all\n    )\n", None),
        (f"x = Loader({PARTS})\n# {'-' * 110}\n", f"x = Loader({PARTS}, num_workers=4)\n# {'-' * 110}\n"),  # as wide
    ],
)
def test_what_makes_a_line_too_long_gets_its_own(before: str, after: str | None) -> None:
    text = made(before, SetArguments(call(ast.parse(before), "Loader"), {"num_workers": "4"}))
    if after is not None:
        assert text == after
        return
    added = next(line for line in text.replace("\r", "").split("\n") if "num_workers" in line)
    assert added.strip().rstrip(",") == "num_workers=4"
    assert added.startswith("\t\tn" if "\t" in before else " " * 8 + "n"), "as far in as the others"


def test_copies_side_by_side_that_get_too_long_get_a_line_each() -> None:
    before = "if gpu:\n  images, targets, weights = images.to(device), targets.to(device), weights.to(device)\n"
    copies = [node for node in ast.walk(ast.parse(before)) if isinstance(node, ast.Call)]
    after = made(before, *(SetArguments(copy, {"non_blocking": "True"}) for copy in copies))
    lines = "".join(f"    {name}.to(device, non_blocking=True),\n" for name in ("images", "targets", "weights"))
    assert after == f"if gpu:\n  images, targets, weights = (\n{lines}  )\n"


@pytest.mark.parametrize(
    "code", ["images, (targets) = images.to(device), (targets.to(device)); x = 1", "a = b, c = {}"]
)
def test_copies_that_stand_in_other_ways_stay_in_their_line(code: str) -> None:
    pair = ", ".join(f"the_images_of_this_batch_{letter}.to(device)" for letter in "abc")
    before = code.format(f"({pair})") if "{}" in code else code
    copies = [node for node in ast.walk(ast.parse(before)) if isinstance(node, ast.Call)]
    after = made(before, *(SetArguments(copy, {"non_blocking": "True"}) for copy in copies))
    assert after == before.replace("(device)", "(device, non_blocking=True)")


def test_an_expression_with_a_comment_of_its_own_is_left_alone() -> None:
    text = "total += (\n    loss  # of this batch\n    .item()  # read\n)\n"
    change = Replace(expression(ast.parse(text), "loss.item()"), "loss.detach()")
    assert refused(text, change) == "a comment stands in it"
