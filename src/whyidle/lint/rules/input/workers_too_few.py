"""Finds loaders with a single worker."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.job import Job
from whyidle.lint.repair import Repair, Replace
from whyidle.lint.rules.input.loaders import for_training, setting


class WorkersTooFew(Check):
    """A training's DataLoader has a single worker process.

    ## Why it costs time
    One worker makes one batch after the other. Where that takes longer than a training step, the GPU waits for the
    difference in every step, while other cores have nothing to do.

    ## How we know
    `num_workers` is 1 in the source, or by the default of a command line argument. How long a batch takes to make is
    not in the source, so this is a hint: `whyidle run` measures it, `whyidle sweep` finds the right number.

    ## When to ignore it
    Making a batch takes less time than a step. The process may use one or two CPU cores only. The dataset is a stream
    that can be read by one process only.
    """

    cost = "input"

    def end(self, job: Job) -> Iterator[Hit]:
        if job.gpu == "no":
            return
        for use in job.loaders:
            workers = setting(use, job, "num_workers", 0)
            if workers is None or workers.number != 1 or not for_training(use):
                continue
            node = workers.node
            repair = None
            if isinstance(node, ast.Constant):
                note = "random augmentations draw their numbers from the workers' seeds"
                repair = Repair((Replace(node, "4"),), safe=False, note=note)
            yield Hit(
                node,
                "A single worker makes all batches: the GPU waits in each step where a batch takes longer than a step.",
                "low",
                0.5,
                source=workers.source,
                title="load in several worker processes",
                change="num_workers=4",
                effort="argument",
                risk="more workers take more host memory",
                repair=repair,
            )

    cases = (
        Invalid(
            "one worker for a dataset of images",
            """\
import torch
from torch.utils.data import DataLoader

def fit(dataset, model, opt, epochs):
    loader = DataLoader(
        dataset,
        batch_size=32,
        num_workers=1,  # !
        pin_memory=True,
        persistent_workers=True,
    )
    for _ in range(epochs):
        for x, y in loader:
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
""",
        ),
        Invalid(
            "options in a dict that is spread",
            """\
import torch
from torchvision import datasets, transforms

def main(model, opt):
    options = {"batch_size": 64}
    if torch.cuda.is_available():
        options.update({
            "num_workers": 1,  # !
            "pin_memory": True,
            "shuffle": True,
        })
    data = datasets.MNIST("data", train=True, transform=transforms.ToTensor())
    loader = torch.utils.data.DataLoader(data, **options)
    for epoch in range(14):
        for x, y in loader:
            x, y = x.to("cuda"), y.to("cuda")
            loss = torch.nn.functional.nll_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
""",
        ),
        Valid(
            "one worker for evaluation",
            """\
import torch
from torch.utils.data import DataLoader

@torch.no_grad()
def evaluate(dataset, model):
    loader = DataLoader(dataset, batch_size=256, num_workers=1, pin_memory=True)
    hits = torch.zeros((), device="cuda")
    for x, y in loader:
        hits += (model(x.cuda(non_blocking=True)).argmax(-1) == y.cuda(non_blocking=True)).sum()
    return hits
""",
        ),
        Valid(
            "a number that the machine decides",
            """\
import os
import torch
from torch.utils.data import DataLoader

def fit(dataset, model, opt):
    loader = DataLoader(dataset, batch_size=32, num_workers=min(os.cpu_count() or 1, 8), persistent_workers=True)
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        opt.zero_grad()
""",
        ),
        Valid(
            "True is no number of workers",
            """\
import torch
from torch.utils.data import DataLoader

def fit(dataset, model, opt, workers):
    loader = DataLoader(dataset, batch_size=32, num_workers=workers, pin_memory=True, persistent_workers=True)
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        opt.zero_grad()
""",
        ),
    )
