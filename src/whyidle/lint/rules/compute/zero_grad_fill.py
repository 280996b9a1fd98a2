from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.often import rhythm
from whyidle.lint.repair import Repair, SetArguments

_CAPTURED = re.compile(r"CUDAGraph|cuda\.graph\(|make_graphed_callables")
_READS_GRADIENTS = re.compile(r"\.grad\b(?!\s*=[^=])|[\"']grad[\"']")
# Parameters that may get a gradient in some steps only: with zeros, momentum and weight decay still move them.
_MAY_HAVE_NONE = re.compile(r"ModuleList|ModuleDict|requires_grad|find_unused|[Ee]xpert|layer_?drop")


class ZeroGradFill(Check):
    """Every step writes zeros into each gradient, one launch per parameter, instead of dropping the gradients.

    ## Why it costs time
    `zero_grad(set_to_none=False)` fills the gradient of each parameter with zeros, and the backward pass reads them
    and adds to them, where without them it would only store. The default since PyTorch 2.0 drops them.

    ## How we know
    The argument is given, and the call runs in each step.

    ## When to ignore it
    The code reads gradients after `zero_grad` and expects zeros, or a captured CUDA graph needs them to stay where
    they are (then nothing is said). An optimizer leaves out parameters that have no gradient, where with zeros
    momentum and weight decay would still move them.
    """

    cost = "launch"
    sees = (Called,)
    calls = frozenset({"zero_grad"})

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Called) or event.name.rpartition(".")[2] != "zero_grad" or job.gpu == "no":
            return
        to_none = event.argument(0, "set_to_none")
        if to_none is None or not to_none.known or to_none.constant is not False:
            return
        if not event.where.reachable or event.where.guard == "data" or _CAPTURED.search(event.source.text):
            return
        owner = event.receiver_text or "optimizer"
        spelled = next((keyword.value for keyword in event.node.keywords if keyword.arg == "set_to_none"), None)
        literal = isinstance(spelled, ast.Constant)  # else an option whose default is False
        yield Hit(
            event.node,
            f"`{ast.unparse(event.node)}` fills the gradient of each parameter with zeros {rhythm(event)}, "
            "instead of dropping it.",
            "low",
            0.9 if literal and event.where.phase == "step" and not event.where.guard else 0.7,
            event.source,
            title="let zero_grad drop the gradients",
            change=f"{owner}.zero_grad()",
            effort="argument",
            risk="gradients are None afterwards; the optimizer leaves out parameters that got none in a step",
            repair=Repair(
                (SetArguments(event.node, {}, drop=("set_to_none",)),),
                safe=not _READS_GRADIENTS.search(event.source.text) and not _MAY_HAVE_NONE.search(event.source.text),
                note="gradients are None after it; a parameter without a gradient in a step is left as it is",
            )
            if literal
            else None,
        )

    cases = (
        Invalid(
            "of an optimizer, in the step",
            """\
import torch

def train(model, loader, criterion, optimizer):
    model.cuda().train()
    for images, labels in loader:
        images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=False)  # !
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
""",
        ),
        Invalid(
            "of a module, in a method that the loop calls",
            """\
import torch

class Trainer:
    def __init__(self, model, lr):
        self.model = model.to("cuda")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)

    def step(self, batch):
        self.model.zero_grad(set_to_none=False)  # !
        loss = self.model(batch.to("cuda", non_blocking=True)).mean()
        loss.backward()
        self.optimizer.step()

    def fit(self, loader):
        for batch in loader:
            self.step(batch)
""",
        ),
        Valid(
            "the default, and True",
            """\
import torch

def train(model, loader, optimizer, warmup):
    for batch in warmup:
        model(batch.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    for batch in loader:
        model(batch.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
""",
        ),
        Valid(
            "a captured graph, whose gradients have to stay where they are",
            """\
import torch

def train(model, loader, optimizer, static_input):
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = model(static_input).mean()
        loss.backward()
        optimizer.step()
    for batch in loader:
        static_input.copy_(batch)
        optimizer.zero_grad(set_to_none=False)
        graph.replay()
""",
        ),
        Valid(
            "once, before training",
            """\
import torch

def train(model, loader, optimizer):
    optimizer.zero_grad(set_to_none=False)
    for batch in loader:
        model(batch.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
    )
