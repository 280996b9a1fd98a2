"""Finds samples and batches that are moved to the GPU while the loader makes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.job import Job
from whyidle.lint.rules.input.loaders import used_loaders
from whyidle.lint.rules.input.worker_code import Function, moves_to_device, worker_code


class DeviceInWorker(Check):
    """Tensors are moved to the GPU in the dataset's `__getitem__` or in `collate_fn`.

    ## Why it costs time
    A forked worker cannot use CUDA ("Cannot re-initialize CUDA in forked subprocess"), so such a loader has to run in
    the training process: nothing is made ahead, and the GPU waits for each batch. In `__getitem__` there is also a copy
    for each sample, each of which the CPU waits for.

    ## How we know
    The code of a dataset or collate function that a used DataLoader is given holds `.cuda()`, `.to(device)` or a tensor
    that is made with `device=`. What `device` is there is not always in the source.

    ## When to ignore it
    The whole dataset lies on the GPU already and is only indexed.
    """

    rule = "input.no_overlap"
    cost = "input"

    def end(self, job: Job) -> Iterator[Hit]:
        if job.gpu == "no":
            return
        seen: set[ast.AST] = set()
        for use in used_loaders(job):
            for body, source in worker_code(use, job):
                for call in self._moves(body):
                    if call in seen:
                        continue
                    seen.add(call)
                    yield Hit(
                        call,
                        f"`{ast.unparse(call)}` puts data on the GPU while {self._what(body)} is made: workers cannot "
                        "do that, so nothing is ready when the GPU asks for the next batch.",
                        "medium" if use.trains else "low",
                        0.7,
                        source=source,
                        title="return CPU tensors and move the batch in the training loop",
                        change="batch = batch.to(device, non_blocking=True)  # and pin_memory=True, num_workers=4",
                    )

    @staticmethod
    def _moves(body: Function) -> Iterator[ast.Call]:
        """Yield the moves in a function; of several in one statement or list only the first."""
        lines: set[int] = set()
        for node in ast.walk(body):
            if isinstance(node, ast.Call) and moves_to_device(node) and node.lineno not in lines:
                lines.add(node.lineno)
                yield node

    @staticmethod
    def _what(body: Function) -> str:
        return "a sample" if getattr(body, "name", "") in {"__getitem__", "__iter__"} else "a batch"

    cases = (
        Invalid(
            "sample by sample",
            """\
import torch
from torch.utils.data import DataLoader, Dataset

class Scans(Dataset):
    def __init__(self, volumes, labels, device="cuda"):
        self.volumes, self.labels, self.device = volumes, labels, device

    def __len__(self):
        return len(self.volumes)

    def __getitem__(self, i):
        volume = torch.from_numpy(self.volumes[i]).to(self.device)  # !
        label = torch.tensor(self.labels[i], device=self.device)  # !
        return volume, label

def train(volumes, labels, model, opt):
    loader = DataLoader(Scans(volumes, labels), batch_size=4, shuffle=True)
    for epoch in range(100):
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
""",
        ),
        Invalid(
            "in collate_fn",
            """\
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

def collate(rows):
    ids = pad_sequence([torch.tensor(row["ids"]) for row in rows], batch_first=True)
    return ids.to(device)  # !

def train(rows, model, opt):
    loader = DataLoader(rows, batch_size=32, shuffle=True, collate_fn=collate)
    for ids in loader:
        loss = model(ids).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "the dataset lies on the GPU and is indexed",
            """\
import torch
from torch.utils.data import DataLoader, Dataset

class Resident(Dataset):
    def __init__(self, x, y, device):
        self.x, self.y = x.to(device), y.to(device)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]

def train(x, y, model, opt):
    loader = DataLoader(Resident(x, y, "cuda"), batch_size=1024, shuffle=True)
    for a, b in loader:
        loss = torch.nn.functional.mse_loss(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "a cast is no move",
            """\
import torch
from torch.utils.data import DataLoader

def collate(rows):
    x = torch.stack([row[0] for row in rows]).to(torch.bfloat16)
    y = torch.tensor([row[1] for row in rows])
    return x, y.to(x.device)

def train(rows, model, opt):
    loader = DataLoader(rows, batch_size=32, num_workers=4, collate_fn=collate, pin_memory=True)
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "moved in the training loop",
            """\
import torch
from torch.utils.data import DataLoader, Dataset

class Scans(Dataset):
    def __init__(self, volumes):
        self.volumes = volumes

    def __len__(self):
        return len(self.volumes)

    def __getitem__(self, i):
        return torch.from_numpy(self.volumes[i])

def train(volumes, model, opt):
    loader = DataLoader(Scans(volumes), batch_size=4, num_workers=4, pin_memory=True)
    for x in loader:
        loss = model(x.cuda(non_blocking=True)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
    )
