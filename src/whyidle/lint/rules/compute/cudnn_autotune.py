from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.enclosing import block_around
from whyidle.lint.events import Event, Set
from whyidle.lint.job import Job
from whyidle.lint.precision import sources
from whyidle.lint.repair import Repair, Replace

_REPRODUCIBLE = re.compile(r"deterministic|reproducib", re.IGNORECASE)
_NEAR = 3  # statements: a seed beside the switch says what it is for


class CudnnAutotune(Check):
    """cuDNN's search for the fastest convolution is switched off.

    ## Why it costs time
    cuDNN has several ways to compute a convolution. Without `benchmark` it guesses which is fastest; with it the first
    step with each shape tries them. Somebody gained 1.4x that way.

    ## How we know
    The source sets `torch.backends.cudnn.benchmark = False` in a job that trains on the GPU. It is silent where a
    seed or `deterministic` stands beside it, and where the loader has a `collate_fn` of its own, which often makes
    batches of many shapes. Whether there are convolutions we often do not see.

    ## When to ignore it
    Results have to be the same in each run, shapes change from batch to batch (each new shape is searched anew), or the
    network has no convolutions.
    """

    cost = "kernel"
    sees = (Set,)

    def __init__(self) -> None:
        self.found: Set | None = None

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        if not isinstance(event, Set) or event.name != "torch.backends.cudnn.benchmark" or event.where.guard:
            return
        if not event.value.known or event.value.constant is not False:
            return
        self.found = event
        yield from ()

    def end(self, job: Job) -> Iterator[Hit]:
        found = self.found
        if found is None or job.settings.get(found.name, found) is not found or not job.trains or job.gpu == "no":
            return
        if any(_REPRODUCIBLE.search(source.text) for source in sources(job)) or _has_seed_near(found):
            return
        if any("collate_fn" in use.arguments for use in job.loaders):
            return
        value = found.statement.value if isinstance(found.statement, ast.Assign) else None
        repair = (
            Repair((Replace(value, "True"),), safe=False, note="other algorithms: last digits may differ")
            if isinstance(value, ast.Constant)
            else None
        )
        yield Hit(
            found.node,
            "`torch.backends.cudnn.benchmark = False` lets cuDNN guess how to convolve: if shapes stay the same, it "
            "can search for the fastest way once.",
            "low",
            0.5,
            found.source,
            title="let cuDNN search",
            change="torch.backends.cudnn.benchmark = True",
            effort="setting",
            risk="slower where shapes change from batch to batch; results may differ from run to run in last digits",
            repair=repair,
        )

    cases = (
        Invalid(
            "off, for no reason that the source tells",
            """\
import torch
from torch.utils.data import DataLoader

torch.backends.cudnn.enabled = True
torch.backends.cudnn.benchmark = False  # !

def train(net, dataset, optimizer):
    loader = DataLoader(dataset, batch_size=12, num_workers=4, pin_memory=True)
    for mel, audio in loader:
        loss = net((mel.cuda(non_blocking=True), audio.cuda(non_blocking=True)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Invalid(
            "in the main function, by another name",
            """\
import torch
import torch.backends.cudnn as cudnn
import torchvision

def main(loader):
    cudnn.benchmark = False  # !
    model = torchvision.models.resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "for the sake of equal results",
            """\
import random
import numpy
import torch

def fix_seeds(seed):
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)
    torch.backends.cudnn.benchmark = False

def train(net, loader, optimizer):
    fix_seeds(1)
    for batch in loader:
        net(batch.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "on",
            """\
import torch
torch.backends.cudnn.benchmark = True

def train(net, loader, optimizer):
    for batch in loader:
        net(batch.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
        Valid(
            "sentences of many lengths",
            """\
import torch
from torch.utils.data import DataLoader
torch.backends.cudnn.benchmark = False

def train(net, dataset, pad, optimizer):
    for text, mel in DataLoader(dataset, batch_size=48, num_workers=4, collate_fn=pad):
        net(text.cuda(), mel.cuda()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        ),
    )


def _has_seed_near(found: Set) -> bool:
    block = block_around(found.source, found.statement)
    place = next(number for number, statement in enumerate(block) if statement is found.statement)
    near = block[max(place - _NEAR, 0) : place + _NEAR + 1]
    return any("seed" in ast.unparse(beside) for beside in near if isinstance(beside, ast.Expr | ast.Assign | ast.If))
