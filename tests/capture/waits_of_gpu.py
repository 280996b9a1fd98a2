"""A job on the fake accelerator: five small trainings after one another, whose waits are known in advance.

Started by test_gpu.py. Prints a line of JSON for each: its name, and its first and last sequence.
"""

# ruff: noqa: T201 -- a job may print
from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

sys.path.insert(0, sys.argv[2])
import fakegpu
from _whyidle import record

native = fakegpu.load(Path(sys.argv[1]))
STEPS = 12
SLOW_BATCH_S = 0.03
KERNEL_US = 40_000.0  # a step's work: more than what its operators cost the host


class Numbers(IterableDataset):  # type: ignore[type-arg]
    """Batches that take a known time to make."""

    def __init__(self, seconds: float, items: int = 64) -> None:
        self.seconds = seconds
        self.items = items

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(STEPS):
            time.sleep(self.seconds)
            yield torch.ones(self.items)


def train(
    name: str,
    seconds: float,
    kernel_us: float,
    after: Callable[[torch.Tensor], object] = lambda loss: None,
    items: int = 64,
) -> None:
    """Train, and print which records are this training's."""
    first = record._ring.written if record._ring is not None else 0
    model = nn.Linear(64, 8).to("fakegpu")
    optimizer = torch.optim.SGD(model.parameters(), 0.01, foreach=False)
    stalls, stalled = native.stalls(), native.stalled_ns()
    for batch in DataLoader(Numbers(seconds, items), batch_size=None):
        moved = batch.to("fakegpu")
        loss = model(moved[:64].view(1, 64)).sum()
        native.launch(kernel_us)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        after(loss)
    torch.accelerator.synchronize()
    native_stalls = native.stalls() - stalls
    assert record._ring is not None
    print(
        json.dumps(
            {
                "name": name,
                "first": first,
                "last": record._ring.written,
                "stalls": native_stalls,
                "stalled_s": (native.stalled_ns() - stalled) / 1e9,
            }
        ),
        flush=True,
    )


native.set_costs(5.0, 10.0, 0.4)
train("warm-up", 0.0, 100.0)
train("input-bound", SLOW_BATCH_S, 100.0)
train("healthy", 0.001, KERNEL_US)
train("sync-bound", 0.001, KERNEL_US, after=lambda loss: loss.item())
native.set_costs(5.0, 1.0, 0.1)  # 4 MB from pageable memory: 40 ms
train("pageable", 0.0, 100.0, items=1_000_000)
native.set_costs(5.0, 10.0, 0.4)


def checkpoint(_loss: torch.Tensor) -> None:
    torch.accelerator.synchronize()
    time.sleep(0.0)
    torch.save({"weights": torch.zeros(500_000)}, Slow())


class Slow(io.BytesIO):
    """A file on a slow disk."""

    def write(self, data: object) -> int:  # type: ignore[override]
        if memoryview(data).nbytes > 1_000_000:  # type: ignore[arg-type]
            time.sleep(SLOW_BATCH_S)
        return super().write(data)  # type: ignore[arg-type]


train("checkpoint", 0.001, 100.0, after=checkpoint)
