"""Repairs that checks share: the code runs before and after on the CPU, and where it is called safe gives the same."""

from __future__ import annotations

import ast
from dataclasses import replace
from textwrap import dedent

import pytest
import torch

from tests.lint.pointed import call, made, source
from whyidle.lint.repair import Repair, SetArguments
from whyidle.lint.repairs.accumulate import accumulated
from whyidle.lint.repairs.gather import gathered
from whyidle.lint.rewrite import rewrite
from whyidle.lint.source import Source

HEAD = "import torch  # for cuda\n"
LOOP = """
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(250)]
shown = []
"""


def results(code: str) -> object:
    """Run a program and return what it has shown."""
    names: dict[str, object] = {"device": torch.device("cpu")}
    exec(compile(code, "train.py", "exec"), names)
    return names["shown"]


def summed(code: str) -> tuple[Repair | None, Source, str]:
    """Return the repair of the first sum, the program and what the repair makes of it."""
    text = HEAD + LOOP + dedent(code)
    program = source(text)
    read = next(
        node
        for sums in ast.walk(program.tree)
        if isinstance(sums, ast.AugAssign)
        for node in ast.walk(sums.value)
        if isinstance(node, ast.Call) and (ast.unparse(node).endswith(".item()") or ast.unparse(node.func) == "float")
    )
    repair = accumulated(read, program)
    return repair, program, text if repair is None else made(text, *repair.changes)


SHOWN_IN_THE_LOOP = """
running_loss = 0.0
for step, (x, y) in enumerate(batches):
    loss = ((model(x) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    running_loss += loss.item()  # for the log
    if step % 100 == 99:
        # every hundred steps
        shown.append(f"{step}: {running_loss / 100}")
        print(f"loss {running_loss / 100:.3f}")
        running_loss = 0.0
"""
SHOWN_AFTER = """
def epoch():
    total_loss, seen = 0, 0
    for x, y in batches:
        loss = ((model(x) - y) ** 2).mean()
        total_loss += loss.item() * x.size(0)
        seen += x.size(0)
    total_loss /= seen
    if total_loss > 1e6:
        raise ValueError(total_loss)
    return total_loss

shown.append(epoch())
"""
COUNTED = """
correct = 0
with torch.no_grad():
    for x, y in batches:
        correct += ((model(x) > 0) == (y > 0)).sum().item()
shown.append(f"{correct}/{len(batches)}")
"""
CAST = """
val_loss = 0.0
for x, y in batches:
    val_loss += float(((model(x) - y) ** 2).mean().detach())
shown += [val_loss]
"""
TWICE = """
for epoch in range(2):
    total = 0.0
    for step, (x, y) in enumerate(batches):
        loss = ((model(x) - y) ** 2).mean()
        total += loss.item()
        if step % 50 == 0 and step:
            shown.append(total / step)
    shown.append(total / len(batches))
"""


COPIED = """
total_loss = 0.0
batch_weight = 0.5
for x, y in batches:
    loss = ((model(x) - y) ** 2).mean()
    total_loss += float(loss.detach().cpu().numpy()) * batch_weight * len(x)
shown.append((total_loss if batches else 0, type(total_loss)))
"""
CAST_AND_READ = CAST.replace("float(loss)", "float(loss.item())")
COUNT_OF_LOSSES = """
def epoch():
    n_loss = 0
    for x, y in batches:
        n_loss += (model(x) > y).sum().item()
    return n_loss

shown.append(repr(epoch()))
"""
IN_INFERENCE_MODE = """
@torch.inference_mode()
def epoch():
    test_loss = 0.0
    for x, y in batches:
        test_loss += ((model(x) - y) ** 2).mean().item()
    return test_loss

shown.append(epoch())
"""


@pytest.mark.parametrize(
    "code",
    [
        SHOWN_IN_THE_LOOP, SHOWN_AFTER, COUNTED, CAST, TWICE, COPIED, CAST_AND_READ, COUNT_OF_LOSSES,
        IN_INFERENCE_MODE,
    ],
)  # fmt: skip
def test_a_sum_on_the_device_is_the_same_to_the_last_bit(code: str) -> None:
    repair, program, text = summed(code)
    assert repair is not None
    assert repair.safe
    assert "same number" in repair.note
    assert results(text) == results(program.text)
    assert ".item()" not in text
    assert "+= float(" not in text
    assert ".cpu()" not in text


def test_a_sum_is_read_where_it_is_shown() -> None:
    *_, text = summed(SHOWN_IN_THE_LOOP)
    assert text == HEAD + LOOP + SHOWN_IN_THE_LOOP.replace("loss.item()", "loss.detach().double()").replace(
        "        # every", "        running_loss = float(running_loss)\n        # every"
    )


@pytest.mark.parametrize(
    "code",
    [
        SHOWN_IN_THE_LOOP.replace("if step % 100 == 99:", "if step > 0:"),  # in each step
        SHOWN_IN_THE_LOOP.replace("    if step", "    bar = running_loss / (step + 1)\n    if step"),
        SHOWN_IN_THE_LOOP.replace("running_loss = 0.0\nfor", "running_loss = torch.zeros(1)\nfor"),
        SHOWN_IN_THE_LOOP + "def late():\n    return running_loss\n",  # read from elsewhere
        SHOWN_IN_THE_LOOP.replace("loss.item()  #", "loss.item() ** 2  #"),
        SHOWN_IN_THE_LOOP.replace("    running_loss +=", "    running_loss += 1\n    running_loss +="),
        COUNTED.replace("((model(x) > 0) == (y > 0)).sum()", "model(x).sum()"),  # of what type?
        SHOWN_AFTER.replace("def epoch():\n    total_loss, seen = 0, 0", "def epoch(total_loss=0):\n    seen = 0"),
        "total = 0.0\nloss = model(batches[0][0]).mean()\ntotal += loss.item()\nshown.append(total)\n",  # no loop
        SHOWN_IN_THE_LOOP + "def late(running_loss=running_loss):\n    return running_loss\n",  # a default
        SHOWN_IN_THE_LOOP + "@given(running_loss)\ndef late(running_loss):\n    return running_loss\n",
        SHOWN_IN_THE_LOOP + "shown.append('%(running_loss)s' % locals())\n",
        SHOWN_IN_THE_LOOP + "def late():\n    return globals()['running_loss']\n",
        SHOWN_IN_THE_LOOP + "shown.append(eval('running_loss'))\n",
        SHOWN_IN_THE_LOOP.replace("if step % 100 == 99:", "if step % accumulate == 0:\n        optimizer.step()"),
        # of what type is it then?
        SHOWN_IN_THE_LOOP.replace("    running_loss +=", "    n_rows = (y > 0).sum()\n    running_loss +=").replace(
            "loss.item()  #", "loss.item() * n_rows  #"
        ),
        SHOWN_IN_THE_LOOP.replace(
            "running_loss += loss.item()", "loss_mask = y > 0\n    n_loss += loss_mask.sum().item()"
        )
        .replace("running_loss = 0.0", "n_loss = 0")
        .replace("running_loss", "n_loss"),
        # a name that there may not be yet
        (
            "for epoch in range(2):\n    total_loss = 0.0\n    for x, y in batches:\n        loss = model(x).mean()\n"
            "        total_loss += loss.item()\nshown.append(total_loss if epoch else 0)\n"
        ),
        # what was made in inference mode cannot be added to outside
        (
            "total_loss = 0.0\nfor step, (x, y) in enumerate(batches):\n    with torch.inference_mode(step < 4):\n"
            "        loss = model(x).mean()\n        total_loss += loss.item()\nshown.append(total_loss)\n"
        ),
    ],
)
def test_a_sum_that_is_not_understood_is_left_alone(code: str) -> None:
    assert summed(code)[0] is None


def test_where_float64_may_be_missing_a_sum_is_not_safe() -> None:
    code = 'device = "mps"\n' + SHOWN_IN_THE_LOOP
    repair, program, text = summed(code)
    assert repair is not None
    assert not repair.safe
    assert "float32" in repair.note
    assert ".double()" not in text
    assert len(results(text)) == len(results(program.text))  # type: ignore[arg-type]


def test_who_starts_the_program_may_choose_a_device_without_float64() -> None:
    repair, *_ = summed('parser.add_argument("--device", default="cuda")\n' + SHOWN_IN_THE_LOOP)
    assert repair is not None
    assert not repair.safe


def test_in_a_notebook_a_later_cell_sees_numbers() -> None:
    code = HEAD + LOOP + SHOWN_IN_THE_LOOP
    for text, offered in ((code, False), (code + "print(running_loss)\n", True)):
        program = replace(source(text), cells=((1, 1),))
        read = call(program.tree, "loss.item")
        assert (accumulated(read, program) is not None) is offered


def test_two_sums_side_by_side_take_two_rounds() -> None:
    code = HEAD + dedent("""
        a_loss = b_loss = 0.0
        for x in y:
            a_loss += a.item()
            b_loss += b.item()
        print(a_loss, b_loss)
    """)
    for _ in range(2):
        program = source(code)
        reads = [node for node in ast.walk(program.tree) if isinstance(node, ast.Call) and "item" in ast.unparse(node)]
        code = rewrite(code, [repair for read in reads if (repair := accumulated(read, program))]).text
    assert ".item()" not in code
    assert "a_loss = float(a_loss)\nb_loss = float(b_loss)\nprint" in code.replace("b_loss = float(b_loss)\na", "a")


def test_a_repair_that_sets_an_argument_twice_changes_nothing_the_second_time() -> None:
    text = made("f(a)", SetArguments(call(ast.parse("f(a)"), "f"), {"b": "1"}))
    done = rewrite(text, [Repair((SetArguments(call(ast.parse(text), "f"), {"b": "1"}),), safe=True)])
    assert done.text == text
    assert done.skipped[0][1] == "it is done already"


def gathered_in(code: str) -> tuple[Repair | None, str, str]:
    """Return the repair of the first read that is appended, the program and what the repair makes of it."""
    text = HEAD + LOOP + dedent(code)
    program = source(text)
    read = call(program.tree, ".append" if "right" not in code else "right.append").args[0]
    repair = gathered(read, program)
    return repair, text, text if repair is None else made(text, *repair.changes)


LIST = """
losses = []
for step, (x, y) in enumerate(batches):
    loss = ((model(x) - y) ** 2).mean()
    losses.append(loss.item())
    loss.data /= 4
    if step % 100 == 99:
        print(f"{sum(losses[-100:]) / 100:.3f}", len(losses))
shown = [sum(losses) / len(losses), max(losses), losses[3]]
"""
LIST_OF_COUNTS = """
def epoch():
    right = []
    for x, y in batches:
        right.append((model(x) > y).sum().item())
    return right

shown.append(epoch())
"""


@pytest.mark.parametrize("code", [LIST, LIST_OF_COUNTS])
def test_a_list_is_read_when_it_is_used(code: str) -> None:
    repair, before, after = gathered_in(code)
    assert repair is not None
    assert repair.safe
    assert ".item()" not in after
    assert results(after) == results(before)
    assert after.count("[:] = ") == code.count("print") + 1


@pytest.mark.parametrize(
    "code",
    [
        LIST.replace("if step % 100 == 99:", "if True:"),  # in each step
        LIST + "history = {'train': losses}\n",  # somebody else holds it
        LIST.replace("losses = []", "losses = Meter()"),
        LIST + "def late(losses=losses):\n    return losses\n",
        LIST + "history = vars()['losses']\n",
        LIST.replace("losses = []", "losses = []\nlater = (value for value in losses)"),
        LIST.replace("losses = []", "losses = []\npairs = enumerate(losses)"),  # which looks at it later
        LIST.replace("loss.item()", "loss_mask.sum().item()"),  # of what type?
        LIST.replace("losses.append(loss.item())", "losses.append(loss.item())\n    losses.append(0)"),
        LIST.replace("losses.append(loss.item())", "losses.append(model.weight.sum().item())").replace("losses", "w"),
    ],
)
def test_a_list_that_is_not_understood_is_left_alone(code: str) -> None:
    assert gathered_in(code)[0] is None
