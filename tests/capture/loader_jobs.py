"""Trainings whose DataLoader `whyidle loader` tries. Run by tests as a file of its own: it imports nothing of ours.

    python loader_jobs.py WHAT

Each prints the batches that the training had, as a list of numbers, a line per batch.
"""

# ruff: noqa: SIM115, T201, PTH123, PTH118
import os
import signal
import sys
import time
import types

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

torch.set_num_threads(1)
SLOW_S = 0.004


def lighten():
    """Leave out torch.compile, which the first optimizer imports, in half of a short job's time."""
    torch._dynamo = sys.modules["torch._dynamo"] = types.ModuleType("torch._dynamo")
    torch._dynamo.disable = lambda function, *_, **__: function
    torch._dynamo.graph_break = lambda: None


class Numbers(Dataset):
    def __init__(self, count=64):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.tensor([float(index)])


class Slow(Numbers):
    """Made as from a storage that takes its time."""

    def __getitem__(self, index):
        time.sleep(SLOW_S)
        return super().__getitem__(index)


class Unequal(Numbers):
    """One batch in four takes its time."""

    def __getitem__(self, index):
        time.sleep(SLOW_S * (index % 16 == 0))
        return super().__getitem__(index)


class Augmented(Numbers):
    """Each sample is another every time, by the random state of who makes it."""

    def __getitem__(self, index):
        return torch.tensor([float(index)]) + torch.rand(1)


class OnlyAlone(Numbers):
    """Fails in workers."""

    def __getitem__(self, index):
        if torch.utils.data.get_worker_info() is not None:
            raise RuntimeError("no database in workers")
        return super().__getitem__(index)


class Dies(Numbers):
    """Takes its worker with it."""

    def __getitem__(self, index):
        if torch.utils.data.get_worker_info() is not None:
            os._exit(3)
        return super().__getitem__(index)


class Hangs(Numbers):
    def __getitem__(self, index):
        if torch.utils.data.get_worker_info() is not None:
            time.sleep(1000)
        return super().__getitem__(index)


class Lines(IterableDataset):
    """Goes on reading a file that is open."""

    def __init__(self, path):
        self.file = open(path)

    def __iter__(self):
        for line in self.file:
            yield torch.tensor([float(line)])


class Repeated(IterableDataset):
    """Gives all samples, whichever worker asks."""

    def __iter__(self):
        for number in range(64):
            yield torch.tensor([float(number)])


class Files(Numbers):
    """A file for each sample."""

    def __getitem__(self, index):
        with open(os.path.join("data", f"{index}.bin"), "rb") as file:
            return torch.tensor([float(len(file.read()))])


def train(loader, epochs=1, mutate=False):
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    for _ in range(epochs):
        for batch in loader:
            data = batch.pop("x") if mutate else batch
            print(data[:, 0].tolist(), flush=True)
            optimizer.zero_grad()
            model(data).sum().backward()
            optimizer.step()
    print("saved", flush=True)


def twins():
    """Train, and iterate a loader that looks the same at another line after each epoch."""
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    training = DataLoader(Numbers(8), batch_size=4)
    other = DataLoader(Numbers(12), batch_size=4, sampler=[8, 9, 10, 11] * 3)
    for _ in range(50):
        for batch in training:
            print(batch[:, 0].tolist(), flush=True)
            model(batch).sum().backward()
            optimizer.step()
        for batch in other:
            assert batch[0] == 8


def ranks():
    """Train as a rank that waits for the others at each step, and of which rank 0 loads quickly."""
    torch.distributed.init_process_group("gloo")
    data = Numbers(4000) if torch.distributed.get_rank() == 0 else Slow(4000)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    for batch in DataLoader(data, batch_size=4):
        model(batch).sum().backward()
        torch.distributed.all_reduce(model.weight.grad)
        optimizer.step()
        optimizer.zero_grad()


def loader_of(what):
    if what == "deaf":  # as a training that saves a checkpoint at Ctrl-C
        signal.signal(signal.SIGINT, lambda *_: None)
    if what in {"slow", "deaf"}:
        return DataLoader(Slow(), batch_size=4)
    if what == "shuffled":
        return DataLoader(Augmented(), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(3))
    if what == "workers":
        return DataLoader(Augmented(), batch_size=4, shuffle=True, num_workers=1)
    if what == "lines":
        return DataLoader(Lines("lines.txt"), batch_size=4)
    if what == "repeated":
        return DataLoader(Repeated(), batch_size=4)
    if what == "files":
        return DataLoader(Files(40), batch_size=4)
    if what == "mutated":
        return DataLoader(Numbers(), batch_size=4, collate_fn=lambda samples: {"x": torch.stack(samples)})
    if what == "spawned":
        return DataLoader(Numbers(), batch_size=4, num_workers=1, multiprocessing_context="spawn")
    kinds = {"alone": OnlyAlone, "dies": Dies, "hangs": Hangs, "plain": Numbers, "unequal": Unequal}
    return DataLoader(kinds[what](), batch_size=4)


def evaluate(loader):
    for _ in loader:
        pass


def main():
    what = sys.argv[1]
    if what != "ranks":
        lighten()
    torch.manual_seed(1)
    if what == "nothing":
        return
    if what in {"ranks", "twins"}:
        (ranks if what == "ranks" else twins)()
        return
    if what == "broken":
        raise SystemExit(7)
    if what == "evaluated":
        model = torch.nn.Linear(1, 1)
        torch.optim.SGD(model.parameters(), lr=0.1)
        evaluate(DataLoader(Numbers(), batch_size=4))
        with torch.no_grad():
            for _ in DataLoader(Numbers(), batch_size=2):
                break
        return
    epochs = 50 if what in {"slow", "deaf", "files", "mutated", "alone", "dies", "hangs", "spawned"} else 1
    if what == "anew":
        for _ in range(30):
            train(DataLoader(Numbers(24), batch_size=4))
    elif what == "two":
        model = torch.nn.Linear(1, 1)
        evaluate(DataLoader(Numbers(), batch_size=2))
        train(DataLoader(Numbers(), batch_size=8), epochs=50)
        del model
    else:
        train(loader_of(what), epochs, mutate=what == "mutated")


if __name__ == "__main__":
    main()
