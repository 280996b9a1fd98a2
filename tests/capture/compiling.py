"""Compiles models, optimizers and whole training steps, and writes what torch.compile counted into the file argv[1].

The first three scenarios run before anything was reset, as in a job: there, compiling falls into the steps in which
the capture looks for root modules.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
BACKEND = "aot_eager"
x = torch.randn(4, 8)
data = TensorDataset(torch.randn(12, 8))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(8, 8), nn.ReLU())

    def forward(self, batch):
        return self.inner(batch) + batch


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(8, 8)

    def forward(self, batch):
        for block in self.blocks:
            batch = block(batch)
        return self.head(batch)


def train(model, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(steps):
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def function_with_model():
    """The compiled code calls the model: torch.compile sees the model's `__call__`."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    @torch.compile(backend=BACKEND)
    def loss(batch):
        return model(batch).sum()

    for _ in range(8):  # past the end of the search for roots
        loss(x).backward()
        optimizer.step()


def whole_step():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    @torch.compile(backend=BACKEND)
    def step(batch):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(8):
        step(x)


def module():
    train(torch.compile(Net(), backend=BACKEND), 8)


def torch_module():
    train(torch.compile(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), backend=BACKEND), 8)


def in_place():
    model = Net()
    model.compile(backend=BACKEND)
    train(model, 8)


def blocks_only():
    model = Net()
    for block in model.blocks:
        block.compile(backend=BACKEND)
    train(model, 8)


def after_warm_up():
    """Its class is watched already when it is compiled."""
    model = Net()
    train(model, 8)
    train(torch.compile(model, backend=BACKEND), 4)
    loss = torch.compile(lambda batch: model(batch).sum(), backend=BACKEND, fullgraph=True)
    loss(x).backward()


def evaluation():
    model = torch.compile(Net(), backend=BACKEND)
    train(model)
    model.eval()
    with torch.no_grad():
        model(x)
    model.train()
    train(model)


def optimizer_step():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)
    optimizer.step = torch.compile(optimizer.step, backend=BACKEND)
    for _ in range(3):
        model(x).sum().backward()
        optimizer.step()


def function_with_optimizer():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)

    @torch.compile(backend=BACKEND)
    def step():
        optimizer.step()

    for _ in range(3):
        model(x).sum().backward()
        step()


def whole_epoch():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    @torch.compile(backend=BACKEND)
    def epoch(loader):
        for (batch,) in loader:
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    for _ in range(2):
        epoch(DataLoader(data, 4))


def scaled_step():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu")

    @torch.compile(backend=BACKEND)
    def step(batch):
        scaler.scale(model(batch).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    for _ in range(3):
        step(x)


def graph_break():
    model = Net()

    @torch.compile(backend=BACKEND)
    def loss(batch):
        total = model(batch).sum()
        if total.item() > 1e9:
            torch.save(total, "never.pt")
        return total * model(batch).mean()

    for _ in range(3):
        loss(x).backward()


SCENARIOS = (
    function_with_model,
    module,
    whole_step,
    torch_module,
    in_place,
    blocks_only,
    after_warm_up,
    evaluation,
    optimizer_step,
    function_with_optimizer,
    whole_epoch,
    scaled_step,
    graph_break,
)


def main(path):
    from torch._dynamo.utils import counters

    counted = {}
    for number, scenario in enumerate(SCENARIOS):
        if number >= 3:
            torch._dynamo.reset()
        counters.clear()
        torch.manual_seed(0)
        scenario()
        counted[scenario.__name__] = {
            "graphs": counters["stats"].get("unique_graphs", 0),
            "calls": counters["stats"].get("calls_captured", 0),
            "breaks": sum(counters["graph_break"].values()),
            "reasons": sorted(reason[:80] for reason in counters["graph_break"]),
            "recompilations": sum(counters["recompiles"].values()) if "recompiles" in counters else 0,
        }
    Path(path).write_text(json.dumps(counted), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
