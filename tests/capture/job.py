"""A small training job. `job.py STEPS [END]`: END says how it ends after STEPS, see `ends`."""

from __future__ import annotations

import os
import signal
import sys
import time
import types

import torch
from torch.utils.data import DataLoader, TensorDataset

# The first optimizer imports torch.compile, which takes half of such a short job's time: loops.py and others have it.
if "torch._dynamo" not in sys.modules:
    torch._dynamo = sys.modules["torch._dynamo"] = types.ModuleType("torch._dynamo")
    torch._dynamo.disable = lambda function, *_, **__: function
    torch._dynamo.graph_break = lambda: None


def fill_memory():
    import resource

    limit = 3 << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return [bytearray(1 << 28) for _ in range(64)]


def crash():
    import ctypes

    ctypes.string_at(0)


def raise_error():
    raise RuntimeError("a mistake of the user's")


def send(number):
    os.kill(os.getpid(), number)
    time.sleep(60)


ends = {
    "kill": lambda: send(signal.SIGKILL),
    "_exit": lambda: os._exit(3),
    "segv": crash,
    "abort": os.abort,
    "exception": raise_error,
    "sys.exit": lambda: sys.exit(4),
    "sigterm": lambda: send(signal.SIGTERM),
    "sigint": lambda: send(signal.SIGINT),
    "memory": fill_memory,
    "execv": lambda: os.execv(sys.executable, [sys.executable, __file__, "3"]),
}


def main(steps, end=""):
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(TensorDataset(torch.ones(steps * 2, 4)), 2)
    sys.stdout.write("start\n")
    sys.stdout.flush()
    for number, (batch,) in enumerate(loader, 1):
        model(batch).sum().backward()
        optimizer.step()
        if end and number == steps:
            ends[end]()
    sys.stderr.write(f"end of {len(loader)} batches\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
