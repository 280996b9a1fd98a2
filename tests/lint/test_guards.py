"""What stands before a line, where a value decides it that the engine has to keep apart from a constant."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from whyidle.lint.engine import follow
from whyidle.lint.events import Called
from whyidle.lint.project import Project
from whyidle.lint.source import Source
from whyidle.lint.where import Where


def collected(code: str) -> Where:
    """Return where the only `gc.collect()` runs."""
    source = Source(Path("job.py"), "job.py", code, ast.parse(code))
    job = follow(source, Project(), lambda event, job: None)
    found = {one.where for one in job.events if isinstance(one, Called) and one.name == "gc.collect"}
    (where,) = found
    return where


LOOP = """
import gc, torch

def train(model, loader, optimizer, args):
    step, failed = 0, False
    for x in loader:
        loss = model(x.cuda()).mean()
        try:
            loss.backward()
        except RuntimeError:
            failed = True
        optimizer.step()
        first = step == 0 or (args.resume and step == args.start)
        step += 1
        {}
            gc.collect()
"""


@pytest.mark.parametrize(
    "condition",
    [
        "if step == 0:",
        "if first:",
        "if args.last or step % 100 == 0:",
        "if step >= args.steps or (args.save and step % args.save_every == 0):",
        "if not torch.isfinite(loss):",
        "if torch.isnan(loss).any():",
    ],
)
def test_rarely(condition: str) -> None:
    where = collected(LOOP.format(condition))
    assert where.phase == "step"
    assert not where.often, condition


def test_what_a_handler_sets_is_no_constant() -> None:
    assert collected(LOOP.format("if not failed:")).often


def test_a_value_of_this_step_either_way() -> None:
    assert collected(LOOP.format("if loss > 10:")).guard == "data"
    assert collected(LOOP.format("if not loss > 10:")).guard == "data"


def test_what_methods_change_is_no_constant() -> None:
    code = """
import gc, torch

class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.updates = model, optimizer, 0

    def get_num_updates(self):
        return self.updates

    def train_step(self, x):
        self.model(x.cuda()).mean().backward()
        self.optimizer.step()
        if self.get_num_updates() == 0:
            gc.collect()
        self.updates += 1
"""
    assert not collected(code).often


@pytest.mark.parametrize(("context", "expected"), [("dtype=torch.bfloat16", True), ("enabled=False", False)])
def test_autocast_that_is_off(context: str, expected: bool) -> None:
    with_it = f'with torch.autocast("cuda", {context}):'
    assert collected(LOOP.format(with_it)).autocast is expected


@pytest.mark.parametrize("made", ["torch.compile(Net().cuda())", "torch.nn.DataParallel(torch.compile(Net()))"])
def test_a_compiled_model_is_followed_as_compiled(made: str) -> None:
    code = f"""
import gc, torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        gc.collect()
        return self.layer(x)

def train(loader, optimizer):
    model = {made}
    for x in loader:
        model(x.cuda()).mean().backward()
        optimizer.step()
"""
    source = Source(Path("job.py"), "job.py", code, ast.parse(code))
    job = follow(source, Project(), lambda event, job: None)
    calls = [one for one in job.events if isinstance(one, Called)]
    assert any(one.where.compiled for one in calls if one.name == "gc.collect")
    assert all(one.result.on_device for one in calls if one.name == ".layer")
