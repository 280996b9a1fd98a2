"""What a call means: methods of the right class, functions that others make, objects by what made them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from whyidle.lint.engine import follow
from whyidle.lint.events import Called
from whyidle.lint.project import Project
from whyidle.lint.source import Source
from whyidle.lint.where import Where


def read(code: str) -> Where | None:
    """Return where the only `.item()` runs that reads a tensor of the accelerator; None if there is none."""
    job = follow(Source(Path("job.py"), "job.py", code, ast.parse(code)), Project(), lambda event, job: None)
    items = [e for e in job.events if isinstance(e, Called) and e.name == ".item"]
    found = {e.where for e in items if e.receiver is not None and e.receiver.on_device}
    assert len(found) <= 1
    return found.pop() if found else None


STEP = """
        loss = self.model(x).sum()
        loss.backward()
        self.optimizer.step()
"""
TWO_LOOPS = """
import torch

class Training:
    def run(self, loader):
        for x in loader:
            self.run_iter(x)

    def run_iter(self, x):
{step}

class Validation{base}:
    def run(self, loader):
        for x in loader:
            self.run_iter(x)

    def run_iter(self, x):
        self.total += self.model(x).sum().item()
"""


@pytest.mark.parametrize("base", ["", "(torch.utils.Loop)"])
def test_a_method_of_self_is_one_of_its_own_class(base: str) -> None:
    where = read(TWO_LOOPS.format(step=STEP, base=base))
    assert where is None or not where.hot


INHERITED = """
import torch

class Base:
    def run(self, loader):
        for x in loader:
            self.step(x)

class Mine(Base):
    def step(self, x):
{step}
        self.total += loss.item()

class Other:
    def step(self, x):
        return x

Mine().run(torch.utils.data.DataLoader([]))
"""


def test_a_method_that_a_derived_class_defines_is_found() -> None:
    where = read(INHERITED.format(step=STEP))
    assert where is not None
    assert where.hot


MADE = """
import torch

def make_step(model, optimizer, train):
    def step(x):
        loss = model(x.cuda()).sum()
        if train:
            loss.backward()
            optimizer.step()
        return loss
    return step

def main(model, optimizer, loader):
    run = make_step(model, optimizer, train={train})
    for x in loader:
        total = run(x).item()
"""


@pytest.mark.parametrize("train", [True, False])
def test_a_step_that_a_function_makes_trains_unless_it_is_made_not_to(train: bool) -> None:
    where = read(MADE.format(train=train))
    assert where is not None
    assert where.hot is train


AGENT = """
import torch

class Agent:
    def __init__(self, policy):
        self.policy = policy.cuda()
        self.optimizer = torch.optim.Adam(policy.parameters())

    def update(self, x):
        loss = self.policy(x).mean()
        loss.backward()
        self.optimizer.step()
        return loss.item()

class Stub:
    def update(self, x): ...

def main(policy, rollouts, steps):
    {made}
    for step in range(steps):
        agent.update(rollouts)
"""


@pytest.mark.parametrize(
    "made",
    [
        "agent = Agent(policy)",
        "agent: Agent = given(policy)",
        "agent = Stub()\n    if steps:\n        agent = Agent(policy)",
        "if steps:\n        agent = Agent(policy)\n    else:\n        agent = Stub()",
    ],
)
def test_a_method_of_an_object_is_one_of_the_class_that_made_it(made: str) -> None:
    where = read(AGENT.format(made=made))
    assert where is not None
    assert where.hot


OPTIONAL = """
import torch

def loss_of(x, **kwargs):
    images = kwargs.get("images", None)
    if images is not None:
        return x.max().item()
    return x

def main(model, loader, optimizer):
    for x in loader:
        loss = loss_of(model(x.cuda()), {given})
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("given", "often"), [("weight=1", False), ("images=x", True), ("**options", True)])
def test_a_keyword_that_is_not_passed_is_none(given: str, often: bool) -> None:
    where = read(OPTIONAL.format(given=given))
    assert where is not None
    assert where.often is often
