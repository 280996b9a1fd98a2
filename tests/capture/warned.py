"""A job that warns, and of whose lines others warn. Started by test_failures.py."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset


class Lying(IterableDataset):  # type: ignore[type-arg]
    """Has more than it says."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.ones(3, 2))


class Warning(nn.Module):  # noqa: A001
    """Warns of the line that calls it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        warnings.warn("of the caller", stacklevel=4)
        return self.inner(x)


model = nn.Linear(2, 2)
optimizer = torch.optim.SGD([{"params": [model.weight, model.weight]}], 0.1)
for batch in DataLoader(Lying(), 1, pin_memory=True):
    model(batch).sum().backward()
    optimizer.step()
for _ in DataLoader(TensorDataset(torch.ones(2, 2)), pin_memory=True):
    pass
torch.autograd.backward([model(torch.ones(1, 2)).sum()], grad_variables=[torch.tensor(1.0)])
warns = Warning()
for _ in range(2):
    warns(torch.ones(1, 2))
