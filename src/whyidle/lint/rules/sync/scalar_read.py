"""`loss.item()` and its kin in a step: the commonest wait of all, and the easiest to overlook."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.enclosing import around
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.rules.sync import later, nearby
from whyidle.lint.rules.sync.drain import certainty, drains, quoted
from whyidle.lint.rules.sync.elsewhere import gathering
from whyidle.lint.rules.sync.parameters import over_parameters
from whyidle.lint.values import Value

_HOST = re.compile(r"(^|[._])(host|cpu|np|numpy)(_|\b)", re.IGNORECASE)
_ASKS = re.compile(r"\bisinstance\(|\bis_tensor\(|\bhasattr\(")
_BUILTINS = frozenset({"float", "int", "bool", "complex"})


class ScalarRead(Check):
    """A number is read back from the GPU in every step: `.item()`, `.tolist()`, `float(t)`, `int(t)`, `bool(t)`.

    ## Why it costs time
    The read returns when the GPU has done all that was queued before. The CPU then starts again with an
    empty queue, and the GPU waits for each launch until the CPU is ahead once more. Before the backward
    pass it is worst: the largest part of the step cannot be queued while the GPU still works on the first.

    ## How we know
    The value is followed from where it is made: the output of a model, a loss, a tensor that was moved to
    the accelerator. The line has to run in every step of a training loop or of generation, so a read
    behind `if step % 100 == 0` is none. `.item()` on something of unknown origin in such a loop counts
    with less confidence. A read right after another wait costs little more, and is of low severity, as is
    one in evaluation, or once per optimizer step of several micro-steps.

    ## When to ignore it
    The GPU is busy for much longer than the CPU needs to queue a step: only a trace can tell. Or the
    value decides what happens next: early stopping, line search, sampling on the CPU.
    """

    cost = "drain"
    sees = (Called,)
    calls = frozenset({"item", "tolist", *_BUILTINS})

    def __init__(self) -> None:
        self._lines = nearby.Lines()

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Called):
            return
        read = _read(event) if event.where.reachable else None
        if read is None or over_parameters(event, job):
            return
        tensor, value = read
        sure = certainty(value, job) if event.name == ".item" or value.has_device_tensor else 0.0
        if not value.has_device_tensor and (event.where.phase == "maybe" or _doubtful(event, tensor)):
            return
        if nearby.acts(event):
            return  # the environment needs it
        if value.name == "metric" or (event.where.work == "train" and gathering(event) is not None):
            return  # told of by sync.logging_metrics and pause.evaluation
        does = f"{quoted(event.node)} reads a value back from the GPU"
        for hit in drains(event, job, does, later.rarely(event, tensor), sure=sure, node=nearby.at_method(event.node)):
            if self._lines.claims(event):
                yield hit

    cases = (
        Invalid(
            "a running loss, as most tutorials keep it",
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader

def train(dataset):
    device = torch.device("cuda")
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
    for epoch in range(10):
        running_loss, correct = 0.0, 0
        for images, labels in loader:
            images = images.to(device, non_blocking=True)
            labels = labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            output = model(images)
            loss = nn.functional.cross_entropy(output, labels)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()  # !
            correct += int((output.argmax(1) == labels).sum())  # !
        print(epoch, running_loss / len(loader), correct)
""",
        ),
        Invalid(
            "a meter that is fed before backward, in a function that the loop calls",
            """\
import torch
from torch import nn

class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n=1):
        self.total += value * n
        self.count += n

def accuracy(output, target):
    hits = output.topk(1, 1)[1].t().eq(target.view(1, -1))
    return hits.float().sum() * 100.0 / target.size(0)

def train(loader, model, criterion, optimizer, device):
    losses = Meter()
    top1 = Meter()
    model.train()
    for i, (images, target) in enumerate(loader):
        images, target = images.to(device), target.to(device)
        output = model(images)
        loss = criterion(output, target)
        losses.update(loss.item(), images.size(0))  # !
        top1.update(accuracy(output, target))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

def main(loader):
    device = torch.device("cuda")
    model = nn.Linear(8, 4).to(device)
    criterion = nn.CrossEntropyLoss().to(device)
    train(loader, model, criterion, torch.optim.Adam(model.parameters()), device)

main(torch.utils.data.DataLoader([], num_workers=2))
""",
        ),
        Valid(
            "read every hundred steps, once per epoch, and after an early `continue`",
            """\
import torch

def train(model, loader, optimizer, epochs, log_every=50):
    model = model.cuda()
    for epoch in range(epochs):
        total = torch.zeros((), device="cuda")
        for step, (x, y) in enumerate(loader):
            loss = torch.nn.functional.mse_loss(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            total += loss.detach()
            if step % 100 == 0:
                print(step, loss.item())
            if step % log_every:
                continue
            print("mean", float(total) / (step + 1))
        print(epoch, total.item() / len(loader))
""",
        ),
        Valid(
            "numbers of the host: sizes, numpy, tensors that stay on the CPU",
            """\
import numpy as np
import torch

def train(model, loader, optimizer, lengths):
    model.cuda()
    seen = 0
    for step, batch in enumerate(loader):
        share = float(np.mean(lengths[step]))
        first = int(batch["lengths"].max())
        longest = np.asarray([1, 2, 3]).max().item()
        x = batch["x"].cuda(non_blocking=True)
        loss = model(x[:, :first]).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen += int(x.size(0)) + float(x.shape[1]) + longest + share
    print(seen)
""",
        ),
        Valid(
            "a job that stays on the CPU",
            """\
import torch

def main(loader):
    device = torch.device("cpu")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = 0.0
    for x, y in loader:
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item()
    print(total)

main(torch.utils.data.DataLoader([]))
""",
        ),
    )


def _read(event: Called) -> tuple[ast.expr, Value] | None:
    """Return what a call reads, as written and as known; None if it is no read of a value."""
    function = event.node.func
    if event.name in {".item", ".tolist"} and isinstance(function, ast.Attribute) and event.receiver is not None:
        return function.value, event.receiver
    if event.name in _BUILTINS and len(event.args) == 1 and not event.spread:
        return event.node.args[0], event.args[0]
    return None


def _doubtful(event: Called, tensor: ast.expr) -> bool:
    """Say whether a value of unknown kind may well be none of the GPU: by its name, or as the code asks itself."""
    if _HOST.search(ast.unparse(tensor)):
        return True
    tests = (
        above.test for above in reversed(around(event.source, event.node)) if isinstance(above, ast.If | ast.IfExp)
    )
    return any(_ASKS.search(ast.unparse(test)) for test in tests)
