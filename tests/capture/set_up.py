"""A job with many settings, torch.compile included. Started by test_settings.py."""

# ruff: noqa: T201 -- a job may print
from __future__ import annotations

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)
        self.gradient_checkpointing = True

    def forward(self, batch: torch.Tensor, factor: int) -> torch.Tensor:
        result = self.layer(batch) * factor
        print("", end="")  # leaves the graph
        return result.relu()


torch.set_float32_matmul_precision("high")
torch.backends.cudnn.benchmark = True
torch.manual_seed(0)
model = Net()
compiled = torch.compile(model, backend="eager")  # line of the compile
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
loader = DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=4, drop_last=True)
for number, (batch,) in enumerate(loader):
    if number == 10:
        time.sleep(1.1)  # counters are read once a second
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = compiled(batch, 1 + number // 6).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
if "traced" in sys.argv:
    sys.settrace(None)
print("trained")
