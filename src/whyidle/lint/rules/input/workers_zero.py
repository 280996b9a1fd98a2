"""Finds loaders that load in the training process."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.job import Job, LoaderUse
from whyidle.lint.repair import Repair, Replace
from whyidle.lint.repairs.arguments import loader
from whyidle.lint.rules.input.loaders import Setting, dataset_names, for_evaluation, setting, used_loaders
from whyidle.lint.rules.input.worker_code import classes, methods, moves_to_device, worker_code
from whyidle.model.finding import Severity


class WorkersZero(Check):
    """A DataLoader without worker processes: `num_workers` is 0, or not given, which is the same.

    ## Why it costs time
    The thread that queues work for the GPU also reads, decodes and collates the next batch. Meanwhile the GPU runs
    out of work.

    ## How we know
    The arguments of a loader that a training loop takes from are all in the source, and `num_workers` is missing or 0;
    or it comes from a command line argument whose default is 0. Whether loading takes long is not in the source: low
    where the data seem to lie in memory, and for evaluation; medium otherwise. 4 is a start: `whyidle sweep` finds the
    number.

    ## When to ignore it
    Samples are ready in memory and small. The dataset holds CUDA tensors. The dataset is an `IterableDataset` that does
    not split itself by `get_worker_info()`: each worker would give all of it.
    """

    cost = "input"

    workers: ClassVar[int] = 4  # a measured pair of recordings used so many: rules/input/workers_zero.py
    in_memory: ClassVar[frozenset[str]] = frozenset({"TensorDataset", "StackDataset"})
    tokens: ClassVar[tuple[str, ...]] = ("DataCollator", "data_collator", "pad_sequence")

    def end(self, job: Job) -> Iterator[Hit]:
        if job.gpu == "no":
            return
        for use in used_loaders(job):
            workers = setting(use, job, "num_workers", 0)
            if workers is None or workers.number != 0 or self._holds_device_tensors(use, job):
                continue
            yield self._hit(use, workers, job)

    def _hit(self, use: LoaderUse, workers: Setting, job: Job) -> Hit:
        severity, confidence = self._grade(use, workers, job)
        what = {
            "missing": "`num_workers` is not given, so this DataLoader loads",
            "given": "`num_workers` is 0, so this DataLoader loads",
            "default": "The default of 0 workers makes the DataLoader load",
        }[workers.how]
        return Hit(
            workers.node,
            f"{what} in the process that feeds the GPU, which waits while a batch is made.",
            severity,
            confidence,
            source=workers.source,
            title=f"load in {self.workers} worker processes",
            change=f"DataLoader(..., num_workers={self.workers}, persistent_workers=True)",
            effort="argument",
            risk="spawned workers (Windows, macOS) need a dataset that can be pickled and a guarded main",
            repair=self._repair(use, workers),
        )

    def _grade(self, use: LoaderUse, workers: Setting, job: Job) -> tuple[Severity, float]:
        made_by = dataset_names(use)
        if for_evaluation(use):
            return "low", 0.7
        if made_by.rpartition(".")[2] in self.in_memory or self._ready(use) or self._tokenised(use, job):
            return "low", 0.5
        return "medium", 0.7 if workers.how == "given" else 0.9

    @staticmethod
    def _ready(use: LoaderUse) -> bool:
        """Say whether a sample is ready: of a list or another plain value, or of a dataset that only looks it up."""
        dataset = use.arguments.get("dataset")
        if dataset is None or dataset.kind == "plain":
            return dataset is not None
        kinds = list(classes(use.call.source, dataset.name.rpartition(".")[2]))
        bodies = [body for kind in kinds for body in methods(kind, "__getitem__")]
        return bool(bodies) and not any(isinstance(node, ast.Call) for body in bodies for node in ast.walk(body))

    def _tokenised(self, use: LoaderUse, job: Job) -> bool:
        """Say whether only token ids are padded: a Hugging Face collator, or a dataset of theirs that was mapped."""
        collate = use.arguments.get("collate_fn")
        code = next((keyword.value for keyword in use.call.node.keywords if keyword.arg == "collate_fn"), None)
        made_by = (collate.name if collate is not None else "") + (ast.unparse(code) if code is not None else "")
        padding = any(name in made_by for name in self.tokens) or any(
            isinstance(node, ast.Attribute) and node.attr == "pad"
            for body, _ in worker_code(use, job)
            for node in ast.walk(body)
        )
        mapped = dataset_names(use).startswith("datasets.") and not job.calls(".with_transform", ".set_transform")
        return padding or mapped

    @staticmethod
    def _holds_device_tensors(use: LoaderUse, job: Job) -> bool:
        """Say whether samples are on the GPU already, so that workers could not make them."""
        if {"device", "use_uva"} & use.arguments.keys():
            return True  # DGL's loaders take samples on the GPU themselves
        dataset = use.arguments.get("dataset")
        made = dataset.node if dataset is not None else None
        parts = ast.walk(made) if isinstance(made, ast.Call) else ()
        if any(isinstance(part, ast.Call) and moves_to_device(part) for part in parts):
            return True
        return any(
            isinstance(part, ast.Call) and moves_to_device(part)
            for body, _ in worker_code(use, job)
            for part in ast.walk(body)
        )

    def _repair(self, use: LoaderUse, workers: Setting) -> Repair | None:
        node = workers.node
        if workers.how == "missing" or any(keyword.value is node for keyword in use.call.node.keywords):
            arguments = {"num_workers": str(self.workers)}
            if use.per_epoch:
                arguments["persistent_workers"] = "True"
            return loader(use.call.node, arguments)
        if not isinstance(node, ast.Constant):
            return None
        note = "random augmentations draw from a generator of each worker; the dataset is copied to each worker"
        return Repair((Replace(node, str(self.workers)),), safe=False, note=note)

    cases = (
        Invalid(
            "images are decoded by the training thread",
            """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms

def main():
    tf = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    train = datasets.ImageFolder("data/train", tf)
    loader = DataLoader(train, batch_size=64, shuffle=True, pin_memory=True)  # !
    model = models.resnet50().cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(90):
        for images, target in loader:
            images = images.cuda(non_blocking=True)
            target = target.cuda(non_blocking=True)
            loss = torch.nn.functional.cross_entropy(model(images), target)
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

def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--lr", type=float, default=1e-4)
    p.add_argument(
        "--dataloader_num_workers",
        type=int,
        default=0,  # !
        help="0: in the main process",
    )
    return p.parse_args()

def main(dataset, model):
    args = parse()
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=16, shuffle=True, num_workers=args.dataloader_num_workers
    )
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(10):
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(model(x.to("cuda")), y.to("cuda"))
            loss.backward()
            opt.step()
            opt.zero_grad()
""",
        ),
        Invalid(
            "graphs are collated one by one",
            """\
import torch
from torch_geometric.loader import DataLoader

def train(dataset, model, device):
    loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=0)  # !
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(200):
        for data in loader:
            data = data.to(device)
            opt.zero_grad()
            loss = torch.nn.functional.nll_loss(model(data.x, data.edge_index, data.batch), data.y)
            loss.backward()
            opt.step()
""",
        ),
        Valid(
            "a default of 8",
            """\
import argparse
import torch
from torch.utils.data import DataLoader

p = argparse.ArgumentParser()
p.add_argument("--workers", type=int, default=8)
args = p.parse_args()

def fit(dataset, model, opt):
    loader = DataLoader(dataset, batch_size=64, num_workers=args.workers, persistent_workers=True)
    for epoch in range(5):
        for x, y in loader:
            loss = (model(x.cuda()) - y.cuda()).square().mean()
            loss.backward()
            opt.step()
            opt.zero_grad()
""",
        ),
        Valid(
            "what is passed on is not known",
            """\
import torch
from torch.utils.data import DataLoader

def fit(dataset, model, opt, **loader_options):
    loader = DataLoader(dataset, batch_size=64, **loader_options)
    for x, y in loader:
        loss = (model(x.cuda()) - y.cuda()).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
""",
        ),
        Valid(
            "the whole dataset is on the GPU, which workers could not use",
            """\
import torch
from torch.utils.data import DataLoader, TensorDataset

def fit(x, y, model):
    data = TensorDataset(x.cuda(), y.cuda())
    loader = DataLoader(data, batch_size=4096, shuffle=True)
    opt = torch.optim.Adam(model.parameters())
    for epoch in range(100):
        for a, b in loader:
            loss = torch.nn.functional.mse_loss(model(a), b)
            loss.backward()
            opt.step()
            opt.zero_grad()
""",
        ),
        Valid(
            "nothing is trained with it",
            """\
from torch.utils.data import DataLoader

def mean_and_std(dataset):
    loader = DataLoader(dataset, batch_size=256)
    total = 0
    for x, _ in loader:
        total = total + x.mean(dim=(0, 2, 3))
    return total / len(loader)
""",
        ),
    )
