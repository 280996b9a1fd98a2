"""Finds loaders whose iterator is made anew for a single batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.rules.input.loaders import setting


class IteratorEachStep(Check):
    """A new iterator over a DataLoader is made for a single batch in each step: `next(iter(loader))`.

    ## Why it costs time
    `iter(loader)` starts all worker processes and lets each make two batches ahead; `next` takes the first of them, and
    the rest is thrown away with the workers. Without workers a new order of the whole dataset is drawn for one batch.

    ## How we know
    `next(iter(...))` of a DataLoader stands in the training loop and runs in every step.

    ## When to ignore it
    Hardly ever: keep one iterator, and make a new one when it has ended.
    """

    rule = "input.worker_startup"
    cost = "input"
    sees = (Called,)
    calls = frozenset({"next"})

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Called) or event.name != "next" or not event.node.args:
            return
        made = event.node.args[0]
        fresh = isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id == "iter" and made.args
        if not fresh or not event.where.hot or not event.args or event.args[0].kind != "loader":
            return
        assert isinstance(made, ast.Call)
        use = next((use for use in job.loaders if use.call.node is event.args[0].loader), None)
        workers = setting(use, job, "num_workers", 0) if use is not None else None
        none = workers is not None and workers.number == 0
        loader = ast.unparse(made.args[0])
        what = "draws a new order of the whole dataset" if none else "lets the DataLoader's workers begin anew"
        yield Hit(
            event.node,
            f"`{ast.unparse(event.node)}` {what} in every step to get a single batch, and the GPU waits for it.",
            "low" if none else "medium",
            0.9 if workers is not None else 0.7,
            source=event.source,
            title="keep one iterator",
            change=(
                f"batches = iter({loader})  # before the loop\n"
                f"try:\n    batch = next(batches)\nexcept StopIteration:\n    batches = iter({loader})\n"
                "    batch = next(batches)"
            ),
            risk="each sample comes once per pass over the data, not drawn anew for each step",
        )

    cases = (
        Invalid(
            "a second loader that is asked for one batch per step",
            """\
import torch
from torch.utils.data import DataLoader

def train(labelled, unlabelled, model, opt):
    sup = DataLoader(labelled, batch_size=32, num_workers=4, persistent_workers=True)
    uns = DataLoader(unlabelled, batch_size=128, shuffle=True, num_workers=4)
    for x, y in sup:
        u = next(iter(uns))  # !
        x, y, u = x.cuda(), y.cuda(), u.cuda()
        loss = torch.nn.functional.cross_entropy(model(x), y) + model(u).softmax(-1).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Invalid(
            "a loop over steps",
            """\
import torch
from torch.utils.data import DataLoader

def train(dataset, model, opt, steps):
    loader = DataLoader(dataset, batch_size=64, shuffle=True)
    for step in range(steps):
        x, y = next(iter(loader))  # !
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "one iterator, renewed at its end",
            """\
import torch
from torch.utils.data import DataLoader

def train(dataset, model, opt, steps):
    loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4)
    batches = iter(loader)
    for step in range(steps):
        try:
            x, y = next(batches)
        except StopIteration:
            batches = iter(loader)
            x, y = next(batches)
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "one batch before the training, to look at",
            """\
import torch
from torch.utils.data import DataLoader

def train(dataset, model, opt):
    loader = DataLoader(dataset, batch_size=64, num_workers=4, persistent_workers=True)
    x, y = next(iter(loader))
    print(x.shape, y.dtype)
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "a validation batch now and then",
            """\
import torch
from torch.utils.data import DataLoader

def train(dataset, held_out, model, opt):
    loader = DataLoader(dataset, batch_size=64, num_workers=4, persistent_workers=True)
    valid = DataLoader(held_out, batch_size=64)
    for step, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 500 == 0:
            a, b = next(iter(valid))
            print(step, torch.nn.functional.cross_entropy(model(a.cuda()), b.cuda()).item())
""",
        ),
    )
