"""A job with a loader of each kind, which says what its loaders have become. Started by test_apply.py: `… WHAT`."""

# ruff: noqa: T201 -- a job may print
from __future__ import annotations

import sys

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, SequentialSampler, TensorDataset

DATA = TensorDataset(torch.randn(32, 8))


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.randn(8, 8))


class Nested(Dataset):
    """Its items come from a loader of its own, which in a worker must stay without workers."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        inner = DataLoader(DATA, 8)
        return next(iter(inner))[0][0], torch.tensor(inner.num_workers)


class Own(DataLoader):
    def __init__(self, *args, shown="", **kwargs):
        super().__init__(*args, **kwargs)
        self.shown = shown


def said(loader):
    names = ("num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "batch_size", "in_order", "timeout")
    return " ".join(str(getattr(loader, name)) for name in names)


def loaders():
    kinds = {
        "plain": lambda: DataLoader(DATA, batch_size=4, shuffle=True),
        "positional": lambda: DataLoader(DATA, 4, True, None, None, 2, None, False, False, 5, prefetch_factor=4),
        "persistent": lambda: DataLoader(DATA, 4, num_workers=1, persistent_workers=True, prefetch_factor=3),
        "sampled": lambda: DataLoader(DATA, batch_sampler=BatchSampler(SequentialSampler(DATA), 4, False)),
        "no batches": lambda: DataLoader(DATA, batch_size=None),
        "stream": lambda: DataLoader(Stream(), 4),
        "subclass": lambda: Own(DATA, 4, True, shown="x"),
        "nested": lambda: DataLoader(Nested(), 2),
    }
    for name, make in kinds.items():
        yield name, make()
    val_loader = DataLoader(DATA, batch_size=4)
    yield "evaluation", val_loader


def train(loader):
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for batch in loader:
        model(batch[0]).sum().backward()
        optimizer.step()
    return batch


def refuse(loader):
    if loader.num_workers == 3:
        raise ValueError("three is too many")


def main(what):
    if what == "loaders":
        for name, loader in loaders():
            batch = train(loader)
            print(f"{name}: {said(loader)}", *([batch[1].tolist()] if name == "nested" else []))
    elif what == "refused":
        DataLoader.check_worker_number_rationality = refuse
        loader = DataLoader(DATA, 8, num_workers=1)
        train(loader)
        print(said(loader))
    elif what == "error":
        DataLoader(DATA, 4, num_workers=-1)
    elif what == "switches":
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = False
        train(DataLoader(DATA, 4))
        print(torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark, torch.get_num_threads())


if __name__ == "__main__":
    main(sys.argv[1])
