"""A training job that is healthy, or has one fault: the job of bench/gpu/run.py. Not run on a GPU yet.

It knows nothing of whyidle. What is a fault and what its cure is one option each.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):  # type: ignore[type-arg]
    """Samples of a given size that take a given CPU time to decode."""

    def __init__(self, samples: int, features: int, decode_ms: float) -> None:
        self.samples = samples
        self.features = features
        self.decode_ms = decode_ms

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        until = time.thread_time() + self.decode_ms / 1e3
        while time.thread_time() < until:
            pass
        return torch.full((self.features,), float(index % 7)), index % 10


def network(features: int, width: int, layers: int) -> nn.Module:
    parts: list[nn.Module] = [nn.Linear(features, width), nn.ReLU()]
    for _ in range(layers):
        parts += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(width, 10))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--features", type=int, default=1024)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--decode-ms", type=float, default=0.0)
    parser.add_argument("--pin", action="store_true", help="copy from pinned memory, without waiting")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--item", action="store_true", help="read the loss in every step")
    parser.add_argument("--save-every", type=int, default=0, help="steps; 0: never")
    return parser.parse_args()


def main() -> None:
    chosen = options()
    torch.backends.cuda.matmul.allow_tf32 = chosen.tf32
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = network(chosen.features, chosen.width, chosen.layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=device == "cuda")
    data = Pictures(chosen.batch * chosen.steps, chosen.features, chosen.decode_ms)
    loader = DataLoader(data, chosen.batch, num_workers=chosen.workers, pin_memory=chosen.pin)
    total = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for step, (pictures, labels) in enumerate(loader):
            inputs = pictures.to(device, non_blocking=chosen.pin)
            targets = labels.to(device, non_blocking=chosen.pin)
            loss = nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if chosen.item:
                total += loss.item()
            if chosen.save_every and step % chosen.save_every == 0:
                torch.save(model.state_dict(), Path(folder, "checkpoint.pt"))
    print("trained", chosen.steps, "steps, last loss", round(loss.item(), 3))


if __name__ == "__main__":
    main()
