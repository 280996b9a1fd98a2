"""A job on a GPU that waits for it at known lines, and captures a CUDA graph while we look. Started by test_cuda.py."""

# ruff: noqa: T201 -- a job may print
from __future__ import annotations

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS = 60
SLOW_S = 0.02


class Slow(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self):
        for _ in range(STEPS):
            time.sleep(SLOW_S)
            yield torch.randn(64, 256)


def network():
    return nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()


def eager():
    """Two lines wait in every step; the device waits for every batch."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    total = 0.0
    for batch in DataLoader(Slow(), None, pin_memory=True):
        loss = model(batch.to("cuda", non_blocking=True)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item()  # line of the item
        if loss > 1e9:  # line of the bool
            break
    print("eager", total > 0)


def graphed():
    """The whole step is a graph, captured after a few steps, as our windows come and go."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
    inputs = torch.randn(64, 256, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(inputs).square().mean().backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(8):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graphs = []
    for _ in range(30):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        graph.replay()
        graphs.append(graph)
    torch.cuda.synchronize()
    print("graphed", all(bool(parameter.isfinite().all()) for parameter in model.parameters()))


def losing():
    """Tells the loss of each pass at the end, so that nobody waits for one meanwhile; with a scale that changes."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    scaler = torch.amp.GradScaler("cuda", init_scale=256.0, growth_interval=5)
    losses = []
    for step in range(STEPS):
        loss = model(torch.full((64, 256), 1.0 + step / STEPS, device="cuda")).square().mean()
        scaler.scale(loss).backward() if step % 2 else loss.backward()
        if step % 2:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    torch.cuda.synchronize()
    optimizer.step()  # what has arrived is read at a step
    for one in losses:
        print(float(one).hex())


for name in sys.argv[1:]:
    globals()[name]()
