"""A training loop whose step costs next to nothing, so that what watching it adds shows. It knows nothing of whyidle.

    python bench/jobs/tiny.py --steps 400 --blocks 20

Prints the CPU time per step of its main thread, in microseconds: a number for each block of steps, the first left out.
"""

from __future__ import annotations

import argparse
import gc
import json
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="per block")
    parser.add_argument("--blocks", type=int, default=20)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    gc.disable()
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    data = TensorDataset(torch.randn(options.steps * BATCH, 32), torch.randint(0, 10, (options.steps * BATCH,)))
    loader = DataLoader(data, BATCH)
    took = []
    for _ in range(options.blocks + 1):
        began = time.thread_time_ns()
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        took.append((time.thread_time_ns() - began) / options.steps / 1000)
    print(json.dumps(took[1:]))


if __name__ == "__main__":
    main()
