"""Repairs that checks share: the code runs before and after on the CPU, and where it is called safe gives the same."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
import torch

from tests.lint.pointed import call, made, source, statement
from whyidle.lint.repair import Repair, SetArguments
from whyidle.lint.repairs.accumulate import accumulated
from whyidle.lint.repairs.arguments import gradients_to_none, loader, non_blocking
from whyidle.lint.repairs.autocast import autocast
from whyidle.lint.repairs.factories import filled, on_device
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


@pytest.mark.parametrize("code", [SHOWN_IN_THE_LOOP, SHOWN_AFTER, COUNTED, CAST, TWICE])
def test_a_sum_on_the_device_is_the_same_to_the_last_bit(code: str) -> None:
    repair, program, text = summed(code)
    assert repair is not None
    assert repair.safe
    assert "same number" in repair.note
    assert results(text) == results(program.text)
    assert ".item()" not in text
    assert "+= float(" not in text


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


@pytest.mark.parametrize(
    ("code", "after"),
    [
        ("x = x.to(device)", "x = x.to(device, non_blocking=True)"),
        ("x = x.cuda()", "x = x.cuda(non_blocking=True)"),
        ("x = x.to(device, torch.half, True)", None),
        ("x = x.to(*where)", None),
    ],
)
def test_a_copy_goes_on_beside_the_program(code: str, after: str | None) -> None:
    repair = non_blocking(next(node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)))
    assert (repair and made(code, *repair.changes)) == after


def test_a_loader_gets_arguments_by_name_or_in_their_place() -> None:
    for code, after in (
        ("DataLoader(ds, 4)", "DataLoader(ds, 4, num_workers=4, pin_memory=True)"),
        ("DataLoader(ds, 4, True, None, None, 0)", "DataLoader(ds, 4, True, None, None, 4, pin_memory=True)"),
    ):
        repair = loader(call(ast.parse(code), "DataLoader"), {"num_workers": "4", "pin_memory": "True"})
        assert repair is not None
        assert not repair.safe
        assert made(code, *repair.changes) == after
    assert loader(call(ast.parse("DataLoader(ds, **kw)"), "DataLoader"), {"num_workers": "4"}) is None
    pinned = loader(call(ast.parse("DataLoader(ds)"), "DataLoader"), {"pin_memory": "True"})
    assert pinned is not None
    assert pinned.safe


@pytest.mark.parametrize("given", ["set_to_none=False", "False"])
def test_gradients_are_forgotten_with_the_same_result(given: str) -> None:
    code = HEAD + LOOP + f"for x, y in batches:\n    optimizer.zero_grad({given})\n"
    code += "    model(x).mean().backward()\n    optimizer.step()\nshown += [p.tolist() for p in model.parameters()]\n"
    program = source(code)
    repair = gradients_to_none(call(program.tree, "zero_grad"), program)
    assert repair is not None
    assert repair.safe
    text = made(code, *repair.changes)
    assert "zero_grad()\n" in text
    assert results(text) == results(code)


def test_gradients_that_are_looked_at_are_not_forgotten_without_asking() -> None:
    program = source("opt.zero_grad(set_to_none=False)\nprint(w.grad.norm())\n")
    repair = gradients_to_none(call(program.tree, "zero_grad"), program)
    assert repair is not None
    assert not repair.safe


@pytest.mark.parametrize(
    ("before", "after", "safe"),
    [
        ("torch.zeros(2, 3).to(device)", "torch.zeros(2, 3, device=device)", True),
        ("torch.ones(3).cuda()", 'torch.ones(3, device="cuda")', True),
        ("torch.arange(4).unsqueeze(0).to(x.device)", "torch.arange(4, device=x.device).unsqueeze(0)", True),
        ("torch.arange(0, 1, 0.1).to(device)", "torch.arange(0, 1, 0.1, device=device)", False),
        ("torch.randn(3).to(device, non_blocking=True)", "torch.randn(3, device=device)", False),
        ("torch.tensor(0.5).to('cuda')", 'torch.full((), 0.5, device="cuda")', True),
        ("torch.tensor(-1, dtype=torch.long).cuda(0)", "torch.full((), -1, dtype=torch.long, device=0)", True),
        ("torch.tensor(rows).to(device)", None, False),
        ("torch.zeros(3).to(torch.float16)", None, False),
        ("torch.zeros(3).to(other.dtype)", None, False),
        ("torch.zeros(3).to(device, torch.half)", None, False),
        ("torch.zeros(3, requires_grad=True).to(device)", None, False),
        ("torch.zeros(3).tanh().to(device)", None, False),
        ("np.zeros(3).to(device)", None, False),
    ],
)
def test_a_tensor_is_made_where_it_is_needed(before: str, after: str | None, safe: bool) -> None:
    tree = ast.parse(before)
    move = tree.body[0].value  # type: ignore[attr-defined]
    repair = on_device(move)
    assert (repair and made(before, *repair.changes)) == after
    assert (repair is not None and repair.safe) == safe
    if after and safe and "cuda" not in before and "x." not in before:
        old, new = (eval(code, {"torch": torch, "device": "cpu"}) for code in (before, after))
        assert torch.equal(old, new)
        assert old.dtype == new.dtype


@pytest.mark.parametrize("number", ["0.5", "-3", "True", "2, dtype=torch.half"])
def test_a_tensor_of_one_number_is_made_without_a_copy(number: str) -> None:
    before = f"torch.tensor({number}, device='cpu')"
    repair = filled(call(ast.parse(before), "tensor"))
    assert repair is not None
    old, new = (eval(code, {"torch": torch}) for code in (before, made(before, *repair.changes)))
    assert torch.equal(old, new)
    assert old.dtype == new.dtype
    assert old.shape == new.shape


def test_the_forward_pass_goes_into_autocast() -> None:
    code = dedent("""
        import torch

        for x, y in loader:
            optimizer.zero_grad()
            output = model(x)
            loss = loss_fn(output, y)  # mean
            loss.backward()
    """)
    program = source(code)
    forward, backward = statement(program.tree, "output ="), statement(program.tree, "loss.backward")
    repair = autocast(forward, backward, program)
    assert repair is not None
    assert not repair.safe
    text = made(code, *repair.changes)
    header = '    with torch.autocast("cuda", dtype=torch.bfloat16):\n        output = model(x)\n'
    assert header + "        loss = loss_fn(output, y)  # mean\n    loss.backward()\n" in text
    assert autocast(backward, forward, program) is None
    again = source(text)
    assert autocast(statement(again.tree, "with"), statement(again.tree, "loss.backward"), again) is None


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
        LIST.replace("losses.append(loss.item())", "losses.append(loss.item())\n    losses.append(0)"),
        LIST.replace("losses.append(loss.item())", "losses.append(model.weight.sum().item())").replace("losses", "w"),
    ],
)
def test_a_list_that_is_not_understood_is_left_alone(code: str) -> None:
    assert gathered_in(code)[0] is None
