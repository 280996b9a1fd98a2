"""Finds loaders whose batches lie in pageable memory although they are copied to the GPU."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.job import Job, LoaderUse
from whyidle.lint.repairs.arguments import loader
from whyidle.lint.rules.input.loaders import setting
from whyidle.lint.rules.input.worker_code import moves_to_device, worker_code
from whyidle.lint.rules.transfer.moves import is_asynchronous, moved_by_framework


class PinMemory(Check):
    """The batches of a DataLoader are copied to the GPU, but not from pinned memory: no `pin_memory=True`.

    ## Why it costs time
    The GPU can read only pinned (page-locked) host memory. From ordinary memory the copy goes through a small pinned
    buffer of the driver: it is slower, and the CPU waits for it, with `non_blocking=True` as well.

    ## How we know
    `pin_memory` is missing or false by the loader's arguments, and a loop that takes from this loader moves its batches
    to the GPU in each step.

    ## When to ignore it
    Batches are small and steps long. The machine is short of memory, which cannot be swapped once it is pinned. The
    dataset returns tensors that are on the GPU already: these cannot be pinned.
    """

    rule = "transfer.pageable_h2d"
    cost = "copy"

    def end(self, job: Job) -> Iterator[Hit]:
        if job.gpu == "no" or moved_by_framework(job):
            return
        for use in job.loaders:
            pinned = setting(use, job, "pin_memory", False)
            copies = [call for call in use.moved if call.where.reachable]
            if pinned is None or pinned.value is not False or not copies or self._made_on_device(use, job):
                continue
            in_vain = any(is_asynchronous(call) for call in copies)
            what = "`non_blocking=True` has no effect and " if in_vain else ""
            yield Hit(
                pinned.node,
                f"Without `pin_memory` {what}the CPU waits for each copy of a batch to the GPU, a slower one.",
                "low",
                0.7 if use.trains else 0.5,
                source=pinned.source,
                also=tuple(call.node for call in copies if call.source is pinned.source),
                title="make batches in pinned memory",
                change="pin_memory=True" + ("" if in_vain else "  # and .to(device, non_blocking=True)"),
                effort="argument",
                risk="pinned memory cannot be swapped: two batches per worker",
                repair=None if pinned.how == "default" else loader(use.call.node, {"pin_memory": "True"}),
            )

    @staticmethod
    def _made_on_device(use: LoaderUse, job: Job) -> bool:
        """Say whether batches are on the GPU when they are made, by the words of the code that makes them."""
        dataset = use.arguments.get("dataset")
        parts = [body for body, _ in worker_code(use, job)] + [dataset.node if dataset is not None else None]
        calls = (node for part in parts if part is not None for node in ast.walk(part) if isinstance(node, ast.Call))
        return any(moves_to_device(call) for call in calls)

    cases = (
        Invalid(
            "ordinary memory, blocking copies",
            """\
import torch
import torchvision
from torch.utils.data import DataLoader

data = torchvision.datasets.FakeData(transform=torchvision.transforms.ToTensor())
loader = DataLoader(data, batch_size=64,  # !
                    shuffle=True, num_workers=2)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
net = torchvision.models.resnet18().to(device)
opt = torch.optim.Adam(net.parameters())
for epoch in range(25):
    for i, data in enumerate(loader, 0):
        net.zero_grad()
        real = data[0].to(device)
        loss = net(real).mean()
        loss.backward()
        opt.step()
""",
        ),
        Invalid(
            "non_blocking in vain",
            """\
import torch
from torch.utils.data import DataLoader

def train(dataset, model, opt):
    loader = DataLoader(
        dataset, batch_size=64, num_workers=8, persistent_workers=True,
        pin_memory=False,  # !
    )
    for x, y in loader:
        x = x.cuda(non_blocking=True)
        y = y.cuda(non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "pinned",
            """\
import torch
from torch.utils.data import DataLoader

def train(dataset, model, opt):
    loader = DataLoader(dataset, batch_size=64, num_workers=8, pin_memory=torch.cuda.is_available())
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "Lightning moves batches",
            """\
import lightning as L
import torch
from torch.utils.data import DataLoader

class Net(L.LightningModule):
    def training_step(self, batch, index):
        x, y = batch
        return torch.nn.functional.cross_entropy(self.net(x.to(self.device)), y.to(self.device))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())

    def train_dataloader(self):
        return DataLoader(self.data, batch_size=64, num_workers=4, persistent_workers=True)
""",
        ),
        Valid(
            "batches are on the GPU already and cannot be pinned",
            """\
import torch
from torch.utils.data import DataLoader, TensorDataset

def train(x, y, model, opt):
    loader = DataLoader(TensorDataset(x.cuda(), y.cuda()), batch_size=4096, shuffle=True)
    for a, b in loader:
        loss = torch.nn.functional.mse_loss(model(a.to("cuda")), b.to("cuda"))
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "nothing leaves the CPU",
            """\
import torch
from torch.utils.data import DataLoader

def train(dataset, model, opt):
    loader = DataLoader(dataset, batch_size=64, num_workers=4)
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.to("cpu")), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
    )
