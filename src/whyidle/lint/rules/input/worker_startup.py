"""Finds loaders whose workers start again in each epoch."""

from __future__ import annotations

from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called
from whyidle.lint.job import Job
from whyidle.lint.repairs.arguments import loader
from whyidle.lint.rules.input.loaders import built_each_time, endless, setting


class WorkerStartup(Check):
    """The DataLoader's workers end with each epoch and start anew for the next: no `persistent_workers`.

    ## Why it costs time
    At the beginning of each epoch processes start and receive the dataset, and one worker makes the first batch while
    the GPU waits. Spawned workers (Windows, macOS) and those of a fork server (Linux from Python 3.14) import the
    script's modules as well. With short epochs, or an evaluation in each, that adds up.

    ## How we know
    The loader has at least one worker and no `persistent_workers`, by its arguments, and is iterated anew in a loop
    over epochs. How long an epoch is and how long workers take to start is not in the source.

    ## When to ignore it
    An epoch takes hours. The dataset object is changed between epochs (`dataset.set_epoch(...)`): persistent workers
    keep the copy of the dataset that they started with. Workers that stay also keep their memory while others run.
    """

    cost = "input"

    def end(self, job: Job) -> Iterator[Hit]:
        for use in job.loaders:
            workers = setting(use, job, "num_workers", 0)
            stays = setting(use, job, "persistent_workers", False)
            if workers is None or not workers.number or stays is None or stays.value is not False:
                continue
            # built anew for each epoch: then staying would not help, and another check speaks
            if not use.per_epoch or built_each_time(use, job) or endless(use):
                continue
            if self._changes_dataset(job):
                continue
            yield Hit(
                use.call.node,
                f"Without `persistent_workers` {self._who(workers.number)} again in each epoch, and the GPU waits for "
                "the first batch.",
                "low",
                0.7,
                source=use.call.source,
                title="keep the workers",
                change="persistent_workers=True",
                effort="argument",
                risk="workers keep the dataset as it was when they started, and the memory that they hold",
                repair=loader(use.call.node, {"persistent_workers": "True"}),
            )

    @staticmethod
    def _who(workers: int) -> str:
        return "the worker starts" if workers == 1 else f"{workers} workers start"

    @staticmethod
    def _changes_dataset(job: Job) -> bool:
        """Say whether the dataset is told of each epoch, or made anew: workers that stay would not hear of it."""
        return any(isinstance(call, Called) and call.receiver_text.endswith(".dataset") for call in job.events) or any(
            call.receiver is not None
            and (call.receiver.kind == "dataset" or call.receiver_text.rpartition(".")[2].endswith(("dataset", "_set")))
            for call in job.calls(".set_epoch")
        )

    cases = (
        Invalid(
            "an epoch after the other",
            """\
import argparse
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

parser = argparse.ArgumentParser()
parser.add_argument("-j", "--workers", default=4, type=int)
parser.add_argument("--epochs", default=90, type=int)

def main(model, opt):
    args = parser.parse_args()
    data = datasets.ImageFolder("train", transforms.ToTensor())
    loader = DataLoader(  # !
        data, batch_size=256, shuffle=True, num_workers=args.workers, pin_memory=True)
    for epoch in range(args.epochs):
        train_one_epoch(loader, model, opt)

def train_one_epoch(loader, model, opt):
    model.train()
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Invalid(
            "training and validation in each epoch",
            """\
import torch
from torch.utils.data import DataLoader

def run(train_set, valid_set, model, opt, crit):
    train = DataLoader(train_set, batch_size=None, num_workers=2)  # !
    valid = DataLoader(valid_set, batch_size=None, num_workers=2)  # !
    for epoch in range(15):
        for x, y in train:
            opt.zero_grad()
            crit(model(x.cuda()), y.cuda()).backward()
            opt.step()
        total = torch.zeros((), device="cuda")
        with torch.no_grad():
            for x, y in valid:
                total += crit(model(x.cuda()), y.cuda())
        print(epoch, total.item())
""",
        ),
        Valid(
            "negatives are drawn anew for each epoch, which workers that stay would not see",
            """\
import torch
from torch.utils.data import DataLoader

def fit(model, data, opt):
    loader = DataLoader(data, batch_size=256, shuffle=True, num_workers=4)
    for epoch in range(20):
        loader.dataset.draw_negatives()
        for user, item, label in loader:
            loss = model(user.cuda(), item.cuda(), label.cuda())
            opt.zero_grad()
            loss.backward()
            opt.step()
""",
        ),
        Valid(
            "workers stay",
            """\
import torch
from torch.utils.data import DataLoader

def fit(data, model, opt):
    loader = DataLoader(data, batch_size=64, num_workers=8, persistent_workers=True)
    for epoch in range(20):
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            opt.zero_grad()
            loss.backward()
            opt.step()
""",
        ),
        Valid(
            "an endless sampler: the iterator is made once",
            """\
import torch
from torch.utils.data import DataLoader, RandomSampler

def run(data, model, opt, device):
    sampler = RandomSampler(data, replacement=True, num_samples=int(1e10))
    loader = DataLoader(data, sampler=sampler, batch_size=64, num_workers=4, pin_memory=True)
    batches = iter(loader)
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            batches = iter(loader)
            batch = next(batches)
        x, y = [t.to(device, non_blocking=True) for t in batch]
        loss = torch.nn.functional.cross_entropy(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "one pass over the data",
            """\
import torch
from torch.utils.data import DataLoader

def pretrain(stream, model, opt):
    loader = DataLoader(stream, batch_size=None, num_workers=8, pin_memory=True)
    for tokens in loader:
        tokens = tokens.cuda(non_blocking=True)
        loss = model(tokens[:, :-1], labels=tokens[:, 1:]).loss
        loss.backward()
        opt.step()
        opt.zero_grad()
""",
        ),
        Valid(
            "the dataset is told the epoch, which workers that stay would not hear",
            """\
import torch
from torch.utils.data import DataLoader

def fit(train_dataset, model, opt):
    loader = DataLoader(train_dataset, batch_size=64, num_workers=8)
    for epoch in range(20):
        train_dataset.set_epoch(epoch)
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            opt.zero_grad()
            loss.backward()
            opt.step()
""",
        ),
    )
