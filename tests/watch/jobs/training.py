"""A small training on the CPU that is held up in one way, or in none: what `whyidle watch --pid` has to tell.

Run as `training.py KIND FOLDER`. FOLDER/ready is there once it trains, FOLDER/steps holds the number of its steps.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

KIND, FOLDER = sys.argv[1], Path(sys.argv[2])


def compute(seconds: float) -> None:
    """Use a CPU for so long."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(200))


class Samples(Dataset):
    """Samples that take long to decode, or to read."""

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if KIND == "storage":
            with (FOLDER / "slow").open("rb", buffering=0) as file:  # a pipe that whoever tests fills slowly
                file.read(64)
        elif KIND in {"transform", "zero"}:
            compute(0.01)
        return torch.randn(32)


def train() -> None:
    torch.set_num_threads(1)
    model = torch.nn.Linear(32, 32)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    workers = {"transform": 1, "storage": 2}.get(KIND, 0)
    loader = DataLoader(Samples(), batch_size=4, num_workers=workers)
    for step, batch in enumerate(loader, start=1):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if KIND in {"healthy", "quota"}:
            compute(0.02)
        elif KIND == "asleep":
            time.sleep(1000)
        part = FOLDER / f"steps.{os.getpid()}"
        part.write_text(str(step))
        part.replace(FOLDER / "steps")
        if step == 1:
            (FOLDER / "ready").touch()


if __name__ == "__main__":
    train()
