"""A job on the fake accelerator with one known fault, or none.

    python fake_jobs.py WHAT DOUBLES BUILT

WHAT is one of the functions below; DOUBLES and BUILT are where the accelerator's code and its built library lie. It
imports nothing of ours but the accelerator.
"""

# ruff: noqa: T201
from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

sys.path.insert(0, sys.argv[2])
import fakegpu

native = fakegpu.load(Path(sys.argv[3]))
STEPS = 40
KERNEL_US = 30_000.0  # a step's work: more than what its operators cost the host
SLOW_S = 0.06


class Numbers(IterableDataset):  # type: ignore[type-arg]
    """Batches that take a known time to make."""

    def __init__(self, seconds: float, items: int) -> None:
        self.seconds = seconds
        self.items = items

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(STEPS):
            time.sleep(self.seconds)
            yield torch.ones(self.items)


class Slow:
    """A file on a slow disk."""

    def write(self, data: object) -> int:
        size = memoryview(data).nbytes  # type: ignore[arg-type]
        if size > 1_000_000:
            time.sleep(SLOW_S)
        return size

    def flush(self) -> None:
        pass


def train(seconds: float = 0.0, items: int = 64, after: Callable[[torch.Tensor], object] | None = None) -> None:
    """Train: the host prepares a step in far less time than the device works on it, so it runs a step ahead."""
    model = nn.Linear(64, 8).to("fakegpu")
    optimizer = torch.optim.SGD(model.parameters(), 0.01, foreach=False)
    done: list[torch.Event] = []
    for batch in DataLoader(Numbers(seconds, items), batch_size=None):
        moved = batch.to("fakegpu", non_blocking=True)
        loss = model(moved[:64].view(1, 64)).sum()
        native.launch(KERNEL_US)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if after is not None:
            after(loss)
        done.append(torch.Event("fakegpu"))
        done[-1].record()
        if len(done) > 2:
            done.pop(0).synchronize()  # as a queue that is full: two steps ahead, no more
    torch.accelerator.synchronize()
    print("trained")


def input_bound() -> None:
    train(seconds=SLOW_S)


def healthy() -> None:
    train(seconds=0.001)


def sync_bound() -> None:
    def read(loss: torch.Tensor) -> None:
        loss.item()
        time.sleep(SLOW_S)  # what the host does with it while the device has nothing to do

    train(after=read)


def pageable() -> None:
    native.set_costs(5.0, 1.0, 0.1)  # 4 MB from pageable memory: 40 ms
    train(items=1_000_000)


def checkpoint() -> None:
    def save(_loss: torch.Tensor) -> None:
        torch.accelerator.synchronize()
        torch.save({"weights": torch.zeros(500_000)}, Slow())

    train(after=save)


native.set_costs(5.0, 10.0, 0.4)
globals()[sys.argv[1]]()
