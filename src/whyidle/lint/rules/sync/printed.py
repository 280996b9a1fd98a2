"""Tensors that are made text or handed to a logger: reads that no `.item()` gives away."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid, ends
from whyidle.lint.events import Called, Event, Shown
from whyidle.lint.job import Job
from whyidle.lint.rules.sync import later
from whyidle.lint.rules.sync.drain import certainty, drains, quoted
from whyidle.lint.rules.sync.parameters import over_parameters
from whyidle.lint.values import UNKNOWN, Value

# Methods and functions that turn what they are given into text or numbers at once, each time that they are called.
_METHODS = frozenset({".set_postfix", ".set_description", ".add_scalar", ".add_scalars", ".log_metric", ".log_metrics"})
_FUNCTIONS = frozenset({"wandb.log", "wandb.run.log", "mlflow.log_metric", "mlflow.log_metrics", "swanlab.log"})
_WORDS = {
    "f-string": "an f-string reads",
    "%": "%-formatting reads",
    "format": "`format` reads",
    "print": "`print` reads",
    "str": "`str` reads",
    "repr": "`repr` reads",
    "log": "logging reads",
}


class Printed(Check):
    """A tensor is made text in every step: printed, formatted, shown in a progress bar, sent to a logger.

    ## Why it costs time
    Text needs the number, and the number is still being worked out on the GPU. `print(loss)`,
    `f"{loss:.3f}"`, `bar.set_postfix(loss=loss)` and `writer.add_scalar("loss", loss)` wait for it as
    `loss.item()` does, and the GPU then waits for the CPU. An f-string is made before the logger decides
    to drop it.

    ## How we know
    The value is followed from where it is made and is on the accelerator; the line runs in every step.
    Names of loggers and progress bars are known: tqdm, TensorBoard, Weights & Biases, MLflow. Lightning's
    `self.log` keeps tensors until it writes, so it is none.

    ## When to ignore it
    Steps of a second or more: the wait is then a small part.
    """

    rule = "sync.scalar_read"
    cost = "drain"
    sees = (Shown, Called)
    calls = ends(_METHODS | _FUNCTIONS)

    def __init__(self) -> None:
        self._told: set[int] = set()

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        shown = _shown(event)
        if shown is None:
            return
        how, value, tensor = shown
        if event.where.guard == "data":
            return  # a warning about bad values, most likely
        if value.name == "metric":
            return  # told of by sync.logging_metrics and pause.evaluation
        if not value.has_device_tensor or id(event.statement) in self._told:
            return
        if isinstance(event, Shown) and over_parameters(event, job):
            return  # told of by sync.grad_clip
        does = f"{how} {quoted(tensor)} back from the GPU"
        sure = certainty(value, job)
        for hit in drains(event, job, does, later.seldom(event), sure=sure, seldom=True):
            self._told.add(id(event.statement))
            yield hit

    cases = (
        Invalid(
            "a progress bar and TensorBoard, given the tensor itself",
            """\
import torch
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

def train(model, loader, optimizer):
    writer = SummaryWriter()
    model = model.to("cuda")
    bar = tqdm(loader)
    for step, (x, y) in enumerate(bar):
        x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        bar.set_postfix(loss=loss)  # !
        bar.set_description(f"step {step} loss {loss:.4f}")  # !
        writer.add_scalar("train/loss", loss, step)  # !
""",
        ),
        Invalid(
            "a debug line whose f-string is made whatever the level; a mean that is %-formatted",
            """\
import logging
import torch

logger = logging.getLogger(__name__)

def train_one_epoch(model, loader, criterion, optimizer, device):
    model.train()
    mean = torch.zeros(2, device=device)
    for i, (image, mask) in enumerate(loader):
        image, mask = image.to(device), mask.to(device)
        output = model(image)
        loss = criterion(output, mask)
        parts = torch.stack((loss.detach(), output.detach().mean()))
        mean = (mean * i + parts) / (i + 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        text = ("%10.4g" * 2) % tuple(mean)  # !
        logger.debug(f"batch {i}: {loss} {text}")  # !

def main(model, loader):
    model.cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(3):
        train_one_epoch(model, loader, torch.nn.BCEWithLogitsLoss(), optimizer, torch.device("cuda"))
""",
        ),
        Valid(
            "printed now and then; numbers and shapes in each step",
            """\
import torch

def train(model, loader, optimizer, args):
    model = model.cuda()
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{i}: lr {optimizer.param_groups[0]['lr']:.2e} batch {x.shape} of {len(loader)}")
        if i % args.log_interval == 0:
            print("loss: %.4f" % loss)
    print("last", loss)
""",
        ),
        Valid(
            "Lightning's own logging keeps tensors until it writes",
            """\
import lightning as L
import torch

class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = torch.nn.functional.cross_entropy(self.layer(x), y)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())
""",
        ),
        Valid(
            "an error that is raised once, and text about tensors of the CPU",
            """\
import math
import torch

def train(model, loader, optimizer):
    model.to("cuda")
    for names, x in loader:
        print(f"batch of {names} with mean {x.mean():.3f}")
        loss = model(x.to("cuda", non_blocking=True)).mean()
        if x.isnan().any():
            raise ValueError(f"bad batch, loss was {loss}")
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
    )


def _shown(event: Event) -> tuple[str, Value, ast.expr] | None:
    """Return how a value is shown, the value, and the expression; None where nothing is shown."""
    if isinstance(event, Shown):
        node = event.node.value if isinstance(event.node, ast.FormattedValue) else event.node
        return _WORDS[event.how], event.value, node if isinstance(node, ast.expr) else ast.Constant("…")
    if not isinstance(event, Called) or not (event.name in _METHODS or event.name in _FUNCTIONS):
        return None
    if event.receiver is not None and event.receiver.kind == "metric":
        return None
    name = event.name.rpartition(".")[2]
    given = [(value, node) for value, node in zip(event.args, event.node.args, strict=False)]
    given += [(event.keywords.get(one.arg or "", UNKNOWN), one.value) for one in event.node.keywords]
    value, node = next(((value, node) for value, node in given if value.has_device_tensor), (UNKNOWN, event.node))
    return f"`{name}` reads", value, node
