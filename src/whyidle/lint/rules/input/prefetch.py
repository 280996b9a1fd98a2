"""Finds workers that are allowed a single batch ahead."""

from __future__ import annotations

from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.job import Job
from whyidle.lint.repairs.arguments import loader
from whyidle.lint.rules.input.loaders import for_training, setting


class Prefetch(Check):
    """`prefetch_factor=1`: each worker may have one batch ready, then it waits until that one is taken.

    ## Why it costs time
    With one batch per worker ahead there is little to draw on when a batch takes long, and a worker whose batch has not
    been taken yet does nothing, though the next one could be under way.

    ## How we know
    The argument is in the source, or is the default of a command line argument, and the loader has workers. PyTorch's
    default is 2. Whether batches take unequal time is not in the source.

    ## When to ignore it
    Host memory is short, or batches are very large. With many workers that many batches are ahead anyway.
    """

    rule = "input.no_overlap"
    cost = "input"

    few = 4  # workers; more have enough ahead together (judgement)

    def end(self, job: Job) -> Iterator[Hit]:
        for use in job.loaders:
            ahead = setting(use, job, "prefetch_factor", 2)
            workers = setting(use, job, "num_workers", 0)
            if ahead is None or ahead.number != 1 or not for_training(use):
                continue
            if workers is not None and (not workers.number or workers.number > self.few):
                continue
            yield Hit(
                ahead.node,
                "`prefetch_factor=1` lets each worker have only one batch ready: the GPU waits where one takes long.",
                "low",
                0.5,
                source=ahead.source,
                title="let workers make two batches ahead, PyTorch's default",
                change="prefetch_factor=2",
                effort="argument",
                risk="host memory for one more batch per worker",
                repair=loader(use.call.node, {"prefetch_factor": "2"}) if ahead.how == "given" else None,
            )

    cases = (
        Invalid(
            "two workers with one batch each",
            """\
import torch
from torch.utils.data import DataLoader

def fit(dataset, model, opt):
    loader = DataLoader(
        dataset, batch_size=16, shuffle=True, num_workers=2, pin_memory=True,
        prefetch_factor=1,  # !
        persistent_workers=True,
    )
    for epoch in range(10):
        for x, y in loader:
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
""",
        ),
        Invalid(
            "the default of a command line argument",
            """\
import argparse
import torch
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--prefetch", type=int, default=1)  # !
args = parser.parse_args()

def fit(dataset, model, opt):
    loader = DataLoader(dataset, batch_size=16, num_workers=4, prefetch_factor=args.prefetch)
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "the default of 2",
            """\
import torch
from torch.utils.data import DataLoader

def fit(dataset, model, opt):
    loader = DataLoader(dataset, batch_size=16, num_workers=4, pin_memory=True)
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "many workers have enough ahead together",
            """\
import torch
from torch.utils.data import DataLoader

def fit(dataset, model, opt):
    loader = DataLoader(dataset, batch_size=2, num_workers=16, prefetch_factor=1, pin_memory=True)
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "for evaluation",
            """\
import torch
from torch.utils.data import DataLoader

@torch.no_grad()
def evaluate(dataset, model):
    loader = DataLoader(dataset, batch_size=16, num_workers=2, prefetch_factor=1)
    hits = torch.zeros((), device="cuda")
    for x, y in loader:
        hits += (model(x.cuda()).argmax(-1) == y.cuda()).sum()
    return hits
""",
        ),
    )
