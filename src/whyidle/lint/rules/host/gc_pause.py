from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.often import each_step, rhythm, severity
from whyidle.lint.repair import Remove, Repair


class GcPause(Check):
    """Python's garbage collector is made to look at all objects in every step.

    ## Why it costs time
    `gc.collect()` goes through every object of the process: 50 to 500 ms where torch, transformers and a data set are
    loaded. It holds the GIL meanwhile: nothing is launched, and the GPU runs dry. Tensors are freed without it as soon
    as nothing refers to them; only those in cycles wait for the collector.

    ## How we know
    The call stands in a loop over batches or in a function called from one, and no counter makes it rare. A collection
    of young objects (`gc.collect(0)`, `gc.collect(1)`) is short, and not reported.

    ## When to ignore it
    Steps of several seconds, in which nobody sees it. With many GPUs, collecting at the same step everywhere
    (`gc.disable()`, and `gc.collect()` every some hundred steps) is good practice.
    """

    cost = "pause"
    sees = (Called,)
    calls = frozenset({"collect"})

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Called) or event.name != "gc.collect" or not each_step(event.where):
            return
        generation = event.argument(0, "generation")
        if generation is not None and generation.constant != 2:
            return
        yield Hit(
            event.node,
            f"`{ast.unparse(event.node)}` runs {rhythm(event)}: it looks at every object of the process, and nothing "
            "is launched meanwhile.",
            severity(event.where),
            0.9 if event.where.guard == "" else 0.7,
            event.source,
            title="collect every some hundred steps, or leave it to Python",
            change=f"if step % 500 == 0:\n    {ast.unparse(event.node)}",
            effort="code",
            risk="tensors in cycles of references are freed later",
            repair=None
            if event.used
            else Repair((Remove(event.statement),), safe=False, note="cycles are freed later"),
        )

    cases = (
        Invalid(
            "after each step",
            """\
import gc
import torch

def train(model, loader, optimizer, scheduler):
    for step, batch in enumerate(loader):
        batch = {key: value.to("cuda", non_blocking=True) for key, value in batch.items()}
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        del loss, batch
        gc.collect()  # !
""",
        ),
        Invalid(
            "in a hook of Lightning, for each batch",
            """\
import gc
import lightning as L
import torch

class Segmenter(L.LightningModule):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def training_step(self, batch, batch_idx):
        image, mask = batch
        loss = torch.nn.functional.cross_entropy(self.net(image), mask)
        gc.collect()  # !
        return loss

    def on_train_epoch_end(self):
        gc.collect()
""",
        ),
        Valid(
            "in the first step and then rarely, as a job on many GPUs does",
            """\
import gc
import torch

def train(model, loader, optimizer):
    gc.disable()
    for step, batch in enumerate(loader):
        model(batch.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 0:
            gc.collect()
            gc.freeze()
        elif step % 1000 == 0:
            gc.collect()
""",
        ),
        Valid(
            "once per epoch, and young objects only in the step",
            """\
import gc
import torch

def train(model, loader, optimizer, epochs):
    for epoch in range(epochs):
        for batch in loader:
            model(batch.cuda()).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            gc.collect(0)
        gc.collect()
""",
        ),
        Valid(
            "once for each fold",
            """\
import gc
import torch

def cross_validate(build, folds, train):
    for fold in folds:
        model = build().cuda()
        train(model, fold)
        del model
        gc.collect()
        torch.cuda.empty_cache()
""",
        ),
    )
