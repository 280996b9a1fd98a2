"""Finds batches whose copy to the GPU the CPU waits for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called
from whyidle.lint.job import Job, LoaderUse
from whyidle.lint.often import rhythm
from whyidle.lint.repair import Change, Repair
from whyidle.lint.repairs.arguments import non_blocking
from whyidle.lint.rules.input.loaders import setting
from whyidle.lint.rules.transfer.moves import (
    Line,
    is_asynchronous,
    line_of,
    moved_by_framework,
    moves,
    named_batch,
    to_where_another_is,
)


class PageableH2d(Check):
    """A batch is copied to the GPU in each step, and the CPU waits until the copy has run.

    ## Why it costs time
    Without `non_blocking=True` the CPU waits for the copy, which starts only when all that was queued for the GPU
    before has run. Then the GPU has nothing to do until the CPU has queued the first kernels of the step.

    ## How we know
    A batch that comes from a DataLoader is moved in each step by `.to(device)` or `.cuda()` without `non_blocking`.
    `non_blocking=True` works only from pinned memory: where the loader has no `pin_memory=True` the loader is reported,
    too. Where the loader is not seen this is a guess by how the value is used.

    ## When to ignore it
    Batches are small and steps long. The tensors are on the GPU already. The step waits for the GPU anyway, by a
    `loss.item()` before the next batch: then this wait costs nothing more.
    """

    cost = "copy"

    def end(self, job: Job) -> Iterator[Hit]:
        if job.gpu == "no" or moved_by_framework(job):
            return
        lines: dict[Line, dict[ast.AST, tuple[Called, LoaderUse | None]]] = {}
        for call, use in self._batches(job):
            if call.where.reachable and not is_asynchronous(call) and not to_where_another_is(call):
                copies = lines.setdefault(line_of(call), {})
                if call.node not in copies or (call.where.hot and not copies[call.node][0].where.hot):
                    copies[call.node] = (call, use)  # where it is met several times, the training counts
        for found in lines.values():
            calls = list(found.values())
            yield self._hit([call for call, _ in calls], calls[0][1], job)

    @staticmethod
    def _batches(job: Job) -> Iterator[tuple[Called, LoaderUse | None]]:
        """Yield the copies of batches, with the loaders that these come from where they are known."""
        known: set[ast.AST] = set()
        for use in job.loaders:
            for call in use.moved:
                if moves(call) and call.receiver is not None and call.receiver.place == "host":
                    known.add(call.node)
                    yield call, use
        for event in job.events:
            if not isinstance(event, Called) or event.node in known or event.receiver is None or not moves(event):
                continue
            where, value = event.where, event.receiver
            batch = value.is_batch and value.place == "host" and where.phase == "step"
            if batch or (value.kind == "unknown" and where.hot and not where.guard and named_batch(event)):
                yield event, None

    @staticmethod
    def _hit(calls: list[Called], use: LoaderUse | None, job: Job) -> Hit:
        first = calls[0]
        pinned = setting(use, job, "pin_memory", False) if use is not None else None
        sure = use is not None and first.where.hot and first.where.guard == ""
        unpinned = pinned is not None and pinned.value is not True
        return Hit(
            first.node,
            f"`{ast.unparse(first.node)}` copies a batch {rhythm(first)} while the CPU waits: the GPU runs dry until "
            "new work is queued.",
            "low",
            0.7 if sure else 0.5,
            source=first.source,
            also=tuple(call.node for call in calls[1:]),
            title="let the copy run beside the CPU" + (", from pinned memory" if unpinned else ""),
            change="\n".join(_asynchronous(call.node) for call in calls),
            effort="argument",
            risk="the host tensor must not be changed in place until the copy has run",
            repair=_repair([call.node for call in calls], use),
        )

    cases = (
        Invalid(
            "pinned, but the copy blocks",
            """\
import torch
from torch.utils.data import DataLoader

def train(dataset, model, opt, device="cuda"):
    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True, persistent_workers=True)
    for epoch in range(10):
        for images, target in loader:
            images = images.to(device)  # !
            target = target.to(device)  # !
            loss = torch.nn.functional.cross_entropy(model(images), target)
            opt.zero_grad()
            loss.backward()
            opt.step()
""",
        ),
        Invalid(
            "several copies in one statement are one finding",
            """\
import torch
from torch.utils.data import DataLoader

def train(dataset, model, opt):
    loader = DataLoader(dataset, batch_size=64, num_workers=4)
    for x, y in loader:
        x, y = x.cuda(), y.cuda()  # !
        loss = torch.nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Invalid(
            "a batch that is a dict",
            """\
import torch
from torch.utils.data import DataLoader

def train(dataset, model, opt, device):
    loader = DataLoader(dataset, batch_size=8, num_workers=4, pin_memory=True)
    for step, batch in enumerate(loader):
        batch = {key: value.to(device) for key, value in batch.items()}  # !
        loss = model(**batch).loss
        loss.backward()
        opt.step()
        opt.zero_grad()
""",
        ),
        Valid(
            "pinned and asynchronous",
            """\
import torch
from torch.utils.data import DataLoader

def train(dataset, model, opt):
    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
    for x, y in loader:
        x = x.to("cuda", non_blocking=True)
        y = y.cuda(non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "accelerate has moved the batch already",
            """\
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

def train(dataset, model, opt):
    accelerator = Accelerator()
    loader = DataLoader(dataset, batch_size=16, num_workers=4)
    model, opt, loader = accelerator.prepare(model, opt, loader)
    for batch in loader:
        batch.to(accelerator.device)
        loss = model(**batch).loss
        accelerator.backward(loss)
        opt.step()
        opt.zero_grad()
""",
        ),
        Valid(
            "a cast of the batch on the GPU, and a job on the CPU",
            """\
import torch
from torch.utils.data import DataLoader

device = torch.device("cpu")

def train(dataset, model, opt, weight_dtype=torch.float32):
    loader = DataLoader(dataset, batch_size=16, num_workers=4)
    for x, y in loader:
        x = x.to(device)
        loss = torch.nn.functional.mse_loss(model(x.to(weight_dtype)), y.to(device))
        loss.backward()
        opt.step()
        opt.zero_grad()
""",
        ),
        Valid(
            "only the first batch is moved, for a picture",
            """\
import torch
from torch.utils.data import DataLoader

def train(dataset, model, opt, show):
    loader = DataLoader(dataset, batch_size=16, num_workers=4, pin_memory=True)
    for step, x in enumerate(loader):
        if step == 0:
            show(model(x.to("cuda")))
        loss = model(x.to("cuda", non_blocking=True)).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
""",
        ),
    )


def _repair(calls: list[ast.Call], use: LoaderUse | None) -> Repair | None:
    changes: list[Change] = []
    for call in calls:
        one = non_blocking(call)
        if one is None:
            return None
        changes.extend(one.changes)
    if _tensors(use):
        return Repair(tuple(changes), safe=True)
    return Repair(tuple(changes), safe=False, note="a batch of a class of its own has to know `non_blocking`")


def _tensors(use: LoaderUse | None) -> bool:
    """Say whether what is moved is a tensor for sure: PyTorch's own collate function makes nothing else that moves."""
    return (
        use is not None
        and use.complete
        and "collate_fn" not in use.arguments
        and use.call.name.startswith(("torch.utils.data.", "torchdata."))
    )


def _asynchronous(call: ast.Call) -> str:
    """Return a call as it should be written."""
    kept = [keyword for keyword in call.keywords if keyword.arg != "non_blocking"]
    return ast.unparse(ast.Call(call.func, call.args, [*kept, ast.keyword("non_blocking", ast.Constant(True))]))
