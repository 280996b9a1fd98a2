"""Finds trainings that take one sample at a time."""

from __future__ import annotations

from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.job import Job, LoaderUse
from whyidle.lint.rules.input.loaders import setting


class BatchOfOne(Check):
    """The training's DataLoader makes batches of one sample.

    ## Why it costs time
    Kernels for a single sample are short, so that the GPU waits for the CPU to launch the next, and most of its units
    have nothing to do meanwhile. A larger batch takes hardly longer.

    ## How we know
    `batch_size` is 1 in the source, or missing, which means 1, and there is neither a `batch_sampler` nor a
    `collate_fn` that could make more of it. How much a single sample fills the GPU is not in the source.

    ## When to ignore it
    A sample is large: a volume, a whole graph, a high-resolution image, a packed sequence. Memory is full with one.
    A larger batch trains differently: the learning rate may have to change.
    """

    rule = "compute.underfilled"
    cost = "kernel"

    def end(self, job: Job) -> Iterator[Hit]:
        if job.gpu == "no":
            return
        for use in job.loaders:
            size = setting(use, job, "batch_size", 1)
            if size is None or size.how == "default" or size.number != 1 or not use.trains:
                continue
            if self._more_than_one(use) or self._squeezed(use, job):
                continue
            yield Hit(
                size.node,
                "The training takes one sample at a time, which fills the GPU only if a sample is large.",
                "low",
                0.5,
                source=size.source,
                title="use larger batches",
                change="batch_size=16",
                effort="argument",
                risk="takes more GPU memory; training behaves differently, the learning rate may have to change",
            )

    @staticmethod
    def _more_than_one(use: LoaderUse) -> bool:
        """Say whether a "sample" may be a whole batch: by sampler or collate function, or as graphs are."""
        others = {"batch_sampler", "collate_fn", "sampler"} & use.arguments.keys()
        return bool(others) or use.call.name.startswith("torch_geometric")

    @staticmethod
    def _squeezed(use: LoaderUse, job: Job) -> bool:
        """Say whether the loop takes the dimension of the batch away: the dataset itself makes batches."""
        return any(
            call.receiver is not None and call.receiver.loader is use.call.node for call in job.calls(".squeeze")
        )

    cases = (
        Invalid(
            "the default, which is 1",
            """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

def main(model):
    data = datasets.CIFAR10("data", train=True, transform=transforms.ToTensor())
    loader = DataLoader(data, shuffle=True, num_workers=4, pin_memory=True)  # !
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
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
            "written out",
            """\
import torch
from torch.utils.data import DataLoader

def fit(dataset, model, opt):
    loader = DataLoader(
        dataset,
        batch_size=1,  # !
        shuffle=True,
        num_workers=2,
    )
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "the dataset makes batches itself",
            """\
import torch
from torch.utils.data import DataLoader

def fit(batches, model, opt):
    loader = DataLoader(batches, batch_size=None, num_workers=4)
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "a collate function takes whole batches out of the dataset",
            """\
import torch
from torch.utils.data import DataLoader

def fit(packed, model, opt):
    loader = DataLoader(packed, batch_size=1, collate_fn=lambda rows: rows[0], num_workers=4)
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "one at a time in evaluation",
            """\
import torch
from torch.utils.data import DataLoader

def fit(train, test, model, opt):
    loader = DataLoader(train, batch_size=32, num_workers=4)
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        for x, y in DataLoader(test, batch_size=1):
            print(model(x.cuda()))
""",
        ),
    )
