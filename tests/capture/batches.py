"""A job whose loaders are slow for known reasons: sleep, computing, a lock, reading. Started by test_worker.py."""

# ruff: noqa: T201 -- a job may print
from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

ITEMS, BATCH = 40, 4
SECONDS = 0.02  # an item


class Sleeping(Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> torch.Tensor:
        self.make()
        return torch.ones(4)

    def make(self) -> None:
        time.sleep(SECONDS)


class Computing(Sleeping):
    def make(self) -> None:
        until = time.thread_time() + SECONDS
        total = 0
        while time.thread_time() < until:
            for number in range(2000):
                total += number


class Locked(Sleeping):
    """Waits for a lock that another thread of the worker releases every 20 ms."""

    lock: Any = None

    def make(self) -> None:
        if self.lock is None:
            self.lock = threading.Lock()
            self.lock.acquire()
            threading.Thread(target=self.release, daemon=True).start()
        self.lock.acquire()

    def release(self) -> None:
        while True:
            time.sleep(SECONDS)
            if self.lock.locked():
                self.lock.release()


class Reading(Sleeping):
    """Reads from a pipe into which another thread writes slowly: a slow disk as the worker sees one."""

    pipe: Any = None

    def make(self) -> None:
        if self.pipe is None:
            self.pipe = os.pipe()
            threading.Thread(target=self.feed, daemon=True).start()
        os.read(self.pipe[0], 1)

    def feed(self) -> None:
        while True:
            time.sleep(SECONDS)
            os.write(self.pipe[1], b".")


def main() -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for kind in (Sleeping, Computing, Locked, Reading):
        for workers, method in ((0, None), (1, sys.argv[1])):
            dataset = kind()
            dataset.root = tempfile.gettempdir()  # type: ignore[attr-defined]
            loader = DataLoader(dataset, BATCH, num_workers=workers, multiprocessing_context=method)
            for _ in range(2):
                for batch in loader:
                    model(batch).sum().backward()
                    optimizer.step()
    print("trained")


if __name__ == "__main__":
    main()
