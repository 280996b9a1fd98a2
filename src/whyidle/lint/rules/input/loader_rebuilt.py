"""Finds loaders that are built anew in each epoch or step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.enclosing import loop_around
from whyidle.lint.job import Job, LoaderUse
from whyidle.lint.rules.input.loaders import built_each_time, for_training, setting
from whyidle.lint.rules.loops import conditional, stored_names
from whyidle.model.finding import Severity


class LoaderRebuilt(Check):
    """A DataLoader with workers is built inside the loop over epochs or steps, always from the same dataset.

    ## Why it costs time
    A new loader starts new worker processes, which receive the dataset again, and the GPU waits for the first batch.
    `persistent_workers=True` does not help, since the workers belong to the loader that is thrown away.

    ## How we know
    The call that builds the loader stands in a loop, `num_workers` is above 0, and nothing that it is built from
    changes in that loop.

    ## When to ignore it
    The dataset itself changes from epoch to epoch in a way that is not seen here.
    """

    rule = "input.worker_startup"
    cost = "input"

    def end(self, job: Job) -> Iterator[Hit]:
        for use in job.loaders:
            workers = setting(use, job, "num_workers", 0)
            where = use.call.where
            if workers is None or not workers.number or not where.often or not built_each_time(use, job):
                continue
            if not use.per_epoch and where.phase not in {"epoch", "step"}:
                continue  # once in all
            loop = loop_around(use.call.source, use.call.node)
            if loop is not None and stored_names(loop) & _names(use.call.node):
                continue  # built of what the loop makes: it may have to be new
            grade: tuple[Severity, float] = ("low", 0.5 if conditional(use.call.node, use.call.source) else 0.7)
            if where.phase == "step" and for_training(use) and not where.guard:
                grade = "medium", 0.9
            yield self._hit(use, workers.number, *grade)

    @staticmethod
    def _hit(use: LoaderUse, workers: int, severity: Severity, confidence: float) -> Hit:
        number = "A worker starts" if workers == 1 else f"{workers} workers start"
        round_of = "step" if use.call.where.phase == "step" else "epoch"
        return Hit(
            use.call.node,
            f"{number} anew in each {round_of}, because the DataLoader is built inside the loop: the GPU waits for the "
            "first batch.",
            severity,
            confidence,
            source=use.call.source,
            title="build the loader once, before the loop",
            change=f"loader = {ast.unparse(_with(use.call.node, 'persistent_workers', True))}",
            risk="workers keep the dataset as it was when they started",
        )

    cases = (
        Invalid(
            "in the head of the inner loop",
            """\
import torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.load("x.pt"), torch.load("y.pt"))
net = torch.nn.Linear(512, 9).cuda()
opt = torch.optim.SGD(net.parameters(), 0.1)
for epoch in range(30):
    for x, y in DataLoader(data, 512, shuffle=True, num_workers=4):  # !
        opt.zero_grad()
        torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda()).backward()
        opt.step()
""",
        ),
        Invalid(
            "in the function that trains an epoch",
            """\
import torch
from torch.utils.data import DataLoader

def train_epoch(dataset, model, opt):
    loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=8, pin_memory=True)  # !
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()

def fit(dataset, model, opt, epochs):
    for epoch in range(epochs):
        train_epoch(dataset, model, opt)
""",
        ),
        Valid(
            "each epoch has its own data",
            """\
import torch
from torch.utils.data import DataLoader, Subset

def fit(dataset, model, opt, difficulty):
    for epoch in range(20):
        easy = Subset(dataset, difficulty.easiest(epoch))
        loader = DataLoader(easy, batch_size=64, shuffle=True, num_workers=4)
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            opt.zero_grad()
            loss.backward()
            opt.step()
""",
        ),
        Valid(
            "no workers that would have to start",
            """\
import torch
from torch.utils.data import DataLoader

def fit(dataset, model, opt):
    for epoch in range(20):
        for x, y in DataLoader(dataset, batch_size=4096, shuffle=True, num_workers=0):
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            opt.zero_grad()
            loss.backward()
            opt.step()
""",
        ),
        Valid(
            "built once",
            """\
import torch
from torch.utils.data import DataLoader

def fit(dataset, model, opt):
    loader = DataLoader(dataset, batch_size=64, num_workers=4, persistent_workers=True)
    for epoch in range(20):
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            opt.zero_grad()
            loss.backward()
            opt.step()
""",
        ),
    )


def _names(call: ast.Call) -> set[str]:
    """Return the variables that a call is given."""
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    return {node.id for arg in given for node in ast.walk(arg) if isinstance(node, ast.Name)}


def _with(call: ast.Call, name: str, value: bool) -> ast.Call:
    kept = [keyword for keyword in call.keywords if keyword.arg != name]
    return ast.Call(call.func, call.args, [*kept, ast.keyword(name, ast.Constant(value))])
