"""Finds CPU tensors that are copied to the GPU again in each step, though they do not change."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid, ends
from whyidle.lint.enclosing import loop_around
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.rules.loops import stored_names
from whyidle.lint.rules.transfer.moves import METHODS, Line, line_of, moves, to_where_another_is
from whyidle.model.finding import Severity


class ConstantMoved(Check):
    """A tensor that does not change, such as a mean or class weights, is copied to the GPU in each step.

    ## Why it costs time
    The CPU waits for the copy, behind everything that is queued on the stream; after that the GPU has nothing to do
    until new work has been queued. Moved once, before the loop, it would cost nothing.

    ## How we know
    `.to("cuda")` or `.cuda()` of a variable that the loop never assigns stands in the training loop, and the result is
    not kept under the same name. The tensor is seen to be made on the CPU; or it comes from elsewhere, and is moved to
    a device that the source names (a guess: on the GPU already, nothing is copied).

    ## When to ignore it
    The tensor is on the GPU already. It is too large to stay there.
    """

    rule = "transfer.h2d_in_step"
    cost = "drain"
    sees = (Called,)
    calls = ends(METHODS)

    def __init__(self) -> None:
        self._lines: set[Line] = set()

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Called) or job.gpu == "no" or not event.where.hot or not moves(event):
            return
        receiver, func = event.receiver, event.node.func
        if receiver is None or receiver.is_batch or receiver.on_device or not isinstance(func, ast.Attribute):
            return
        made = receiver.on_host and receiver.name.startswith("torch.")
        if not self._kept(event, func.value) or line_of(event) in self._lines:
            return
        if not made and (receiver.kind not in {"unknown", "tensor"} or not self._literal(event)):
            return
        self._lines.add(line_of(event))
        severity: Severity = "medium" if made and not event.where.guard else "low"
        doubt = "" if made else ", if it is on the CPU"
        name = ast.unparse(func.value)
        yield Hit(
            event.node,
            f"`{ast.unparse(event.node)}` copies the same tensor to the GPU in each step{doubt}: the CPU waits for the "
            "copy, and the GPU runs dry.",
            severity,
            0.9 if made else 0.5,
            source=event.source,
            title="move it once, before the loop",
            change=f"{name} = {ast.unparse(event.node)}  # before the loop",
        )

    @staticmethod
    def _kept(event: Called, moved: ast.expr) -> bool:
        """Say whether what is moved stays the same while the loop runs."""
        loop = loop_around(event.source, event.node)
        plain = isinstance(moved, ast.Name) or (isinstance(moved, ast.Attribute) and isinstance(moved.value, ast.Name))
        if loop is None or not plain:
            return False
        names = {ast.unparse(node) for node in ast.walk(moved) if isinstance(node, ast.Name | ast.Attribute)}
        return not names & stored_names(loop)

    @staticmethod
    def _literal(event: Called) -> bool:
        """Say whether the source names the GPU: a device that is asked of another tensor or setting may be any."""
        return not to_where_another_is(event) and all(value.known for value in event.args)

    cases = (
        Invalid(
            "statistics that the caller keeps on the CPU",
            """\
import torch

def run(vae_mean, vae_std, unet, loader, opt):
    for step, latents in enumerate(loader):
        latents = latents.cuda(non_blocking=True)
        latents = (latents - vae_mean.to("cuda")) / vae_std.to("cuda")  # !
        loss = unet(latents).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
""",
        ),
        Invalid(
            "class weights made on the CPU",
            """\
import torch
from torch.utils.data import DataLoader

def train(dataset, model, opt, device):
    weights = torch.tensor([0.2, 0.3, 0.5])
    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x), y, weight=weights.cuda())  # !
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "moved before the loop",
            """\
import torch
from torch.utils.data import DataLoader

def train(dataset, model, opt):
    weights = torch.tensor([0.2, 0.3, 0.5]).cuda()
    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x), y, weight=weights.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "a precaution: where the batch is, the buffer is",
            """\
import torch

class Normalize(torch.nn.Module):
    def __init__(self, mean):
        super().__init__()
        self.register_buffer("mean", mean)

    def forward(self, x):
        return x - self.mean.to(x.device)

def train(loader, model, norm, opt):
    for x in loader:
        loss = model(norm(x.cuda(non_blocking=True))).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
""",
        ),
        Valid(
            "kept under its name: from the second step on nothing is copied",
            """\
import torch

def train(loader, model, opt, mean):
    for x in loader:
        mean = mean.to("cuda")
        loss = model(x.cuda(non_blocking=True) - mean).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
""",
        ),
    )
