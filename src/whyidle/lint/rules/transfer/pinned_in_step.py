"""Finds batches that the training thread pins itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.rules.loops import kept


class PinnedInStep(Check):
    """`.pin_memory()` is called in each step, by the thread that trains.

    ## Why it costs time
    `pin_memory()` makes a second tensor in pinned memory and copies all values to it on the CPU, now and then after
    asking the driver for new memory, which waits for the GPU. A `.to(device)` behind it without `non_blocking=True`
    then waits as from ordinary memory.

    ## How we know
    The call stands in the training step. How large the tensor is, is not in the source.

    ## When to ignore it
    The tensor is small, or the copy that follows saves more time than this one costs. `.to(device, non_blocking=True)`
    behind it, with the GPU busy meanwhile, is a sound way to load data without a DataLoader, and not reported.
    """

    rule = "transfer.h2d_in_step"
    cost = "copy"
    sees = (Called,)
    calls = frozenset({"pin_memory"})

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Called) or event.name != ".pin_memory" or job.gpu == "no" or not event.where.hot:
            return
        if event.receiver is not None and event.receiver.kind not in {"unknown", "tensor"}:
            return
        if event.where.environment or kept(event.statement) or self._copied_beside(event):
            return
        batch = event.receiver is not None and event.receiver.loader is not None
        yield Hit(
            event.node,
            f"`{_short(event.node)}` copies a tensor to pinned memory in each step, and the GPU may wait meanwhile.",
            "low",
            0.5,
            source=event.source,
            title="let the DataLoader pin batches" if batch else "let the copy that follows run beside the CPU",
            change="pin_memory=True" if batch else f"{ast.unparse(event.node)}.to(device, non_blocking=True)",
        )

    @staticmethod
    def _copied_beside(event: Called) -> bool:
        """Say whether `.to(device, non_blocking=True)` follows at once, as it should where there is no DataLoader."""
        return any(
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.value is event.node
            and any(keyword.arg == "non_blocking" for keyword in node.keywords)
            for node in ast.walk(event.statement)
        )

    cases = (
        Invalid(
            "labels of a generator",
            """\
import numpy as np
import torch

def train(dataset, batches, gen, dis, opt, device):
    while True:
        real = next(batches).to(device, non_blocking=True)
        labels = [dataset.label(np.random.randint(len(dataset))) for _ in range(64)]
        labels = torch.from_numpy(np.stack(labels)).pin_memory().to(device)  # !
        loss = dis(gen(labels)).mean() - dis(real).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Invalid(
            "a batch that the loader could pin",
            """\
import torch
from torch.utils.data import DataLoader

def train(dataset, model, opt):
    loader = DataLoader(dataset, batch_size=64, num_workers=4)
    for x in loader:
        x = x.pin_memory()  # !
        loss = model(x.to("cuda", non_blocking=True)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "once, before the loop",
            """\
import torch

def train(data, model, opt):
    data = data.pin_memory()
    for part in torch.randperm(len(data)).split(256):
        loss = model(data[part].to("cuda", non_blocking=True)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "the method that tells a DataLoader how",
            """\
import torch
from torch.utils.data import DataLoader

class Batch:
    def __init__(self, rows):
        self.x = torch.stack(rows)

    def pin_memory(self):
        self.x = self.x.pin_memory()
        return self

def train(rows, model, opt):
    loader = DataLoader(rows, batch_size=64, num_workers=4, collate_fn=Batch, pin_memory=True)
    for batch in loader:
        loss = model(batch.x.to("cuda", non_blocking=True)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "only when a snapshot is written",
            """\
import torch

def train(loader, model, opt):
    for step, x in enumerate(loader):
        loss = model(x.cuda(non_blocking=True)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 1000 == 0:
            copies = [p.detach().cpu().pin_memory() for p in model.parameters()]
            torch.save(copies, f"step{step}.pt")
""",
        ),
    )


def _short(node: ast.Call) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:57] + "..."
